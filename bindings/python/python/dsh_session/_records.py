"""What the library tells about sessions: frozen records. They compare by value and can be pickled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, overload

from ._base import DshError


class Replace(NamedTuple):
    """The place of an event on the surface: that of the events from ``start_seq`` to ``end_seq``, in surface order."""

    start_seq: int
    end_seq: int


@dataclass(frozen=True)
class SessionHeader:
    """What a session is: known before its first event and never changed."""

    id: str
    created_at: int
    """Milliseconds since 1970."""
    cwd: str | None = None
    parent_session: str | None = None
    is_seeded: bool = False
    """Whether it begins with events inherited from another session."""
    origin: str | None = None
    delegation_depth: int | None = None
    agent_preset: str | None = None


@dataclass(frozen=True)
class SessionRecord:
    """What is known of a session without reading its events."""

    header: SessionHeader
    format_status: str | None
    """``current`` or ``migration-required``; ``None`` for a session that is not on the disk yet."""
    revision: str
    """Changes when the log may have changed."""
    event_count: int | None
    """Where it is known without reading the log."""
    size_bytes: int | None
    path: Path | None

    @property
    def id(self) -> str:
        """The session's id."""
        return self.header.id


@dataclass(frozen=True)
class Problem:
    """Something in a root that cannot be listed as a session."""

    path: Path
    id: str | None
    code: str
    message: str
    error: DshError = field(compare=False)
    """All that is known, ready to be raised."""


@dataclass(frozen=True)
class Listing(Sequence[SessionRecord]):
    """The sessions of a root, a sequence, and beside them what is wrong in it."""

    sessions: tuple[SessionRecord, ...]
    problems: tuple[Problem, ...]

    def __len__(self) -> int:
        return len(self.sessions)

    def __iter__(self) -> Iterator[SessionRecord]:
        return iter(self.sessions)

    @overload
    def __getitem__(self, index: int) -> SessionRecord: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SessionRecord, ...]: ...
    def __getitem__(self, index: int | slice) -> SessionRecord | tuple[SessionRecord, ...]:
        return self.sessions[index]


@dataclass(frozen=True)
class Pending:
    """Events that are accepted and not on the disk yet."""

    events: int
    bytes: int
    error: DshError | None = field(default=None, compare=False)
    """Why the last attempt to write them failed, if it did."""


@dataclass(frozen=True)
class TornTail:
    """Bytes at the end of a log that are no part of it; the first append cuts them."""

    keep_bytes: int
    cut_bytes: int
    cut_rows: int
    """Rows in them that are whole; they are saved beside the log before the cut."""
    recovered: int
    """Events among them that are part of the log and are written again after the cut."""
    reason: str


@dataclass(frozen=True)
class LogEnd:
    """What a read of a whole log found."""

    event_count: int
    file_bytes: int
    frames: int
    """The header's included; 0 for a log without compression."""
    torn: TornTail | None
