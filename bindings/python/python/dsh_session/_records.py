"""What the library tells about sessions: frozen records. They compare by value and can be pickled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from ._base import DshError

if TYPE_CHECKING:
    from ._native import Message


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


class Replacement(NamedTuple):
    """One replacement of a range of the surface by an event."""

    seq: int
    """The replacing event."""
    start_seq: int
    end_seq: int
    shadowed_seqs: tuple[int, ...]
    """Everything in the range, in surface order."""


@dataclass(frozen=True)
class FoldedSurface:
    """What a list of events leaves on the surface."""

    nodes: tuple[int, ...]
    """The seqs on the surface, in model order."""
    replacements: tuple[Replacement, ...]
    """Every replacement, in the order of the log."""
    messages: tuple[Message, ...]
    """The messages that the model sees, in order."""
    projected_messages: tuple[Message, ...]
    """The messages that projections changed, by seq."""
    replace_generation: int
    content_generation: int


@dataclass(frozen=True)
class Folds:
    """What a list of events says of the next request and of itself."""

    request_header: dict[str, Any] | None
    request_context: dict[str, Any] | None
    tool_history: dict[str, Any]
    title: dict[str, Any] | None

    # Dicts have no hash.
    __hash__ = None  # type: ignore[assignment]


class Upload(NamedTuple):
    """What is about to be uploaded, as upload predicates see it."""

    session_id: str
    purpose: str | None
    """What the request is for; ``None`` for an ordinary one of the conversation."""


@dataclass(frozen=True)
class UploadVerdict:
    """Whether a session's log may be part of an upload."""

    verdict: Literal["unmatched", "excluded", "failed"]
    """``unmatched``: ordinary eligibility decides. ``excluded``: nothing of the log goes out, no event is to be read, no acceptance to be
    noted. ``failed``: this time nothing of the log goes out, and ``error`` is to be reported."""
    error: DshError | None = field(default=None, compare=False)
    """Why a predicate failed, with its own exception as the cause; ``None`` unless ``verdict`` is ``failed``."""


@dataclass(frozen=True)
class NextUpload:
    """The events that an upload takes next, both ends counted in."""

    first_seq: int
    last_seq: int
    bytes: int
    """Their rows with newlines."""


@dataclass(frozen=True)
class UploadTooLarge:
    """The next event of an upload, which alone is larger than the bound."""

    seq: int
    bytes: int
    """Its row with the newline."""


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


@dataclass(frozen=True)
class RawRow:
    """One line of a log as it stands there, whatever is wrong with it."""

    line: int
    """The line in the decompressed text, from 1 (the header)."""
    text: str
    """Without the newline; ill-formed UTF-8 as U+FFFD. Empty where the row stands for something that cannot be shown."""
    seq: int | None = None
    type: str | None = None
    problem: str | None = None
    """What is wrong with it, for people."""
    frame: int | None = None
    """The frame it begins in, from 0 (the header's); ``None`` in a log without compression."""
    offset: int = 0
    """Where it stands in the file: the row itself, or its frame."""
    is_event: bool = False
    """Whether it has the envelope of an event of the current format."""

    def to_json(self) -> str:
        """The line of the command ``rows``."""
        members = {"line": self.line, "text": self.text, "seq": self.seq, "type": self.type, "problem": self.problem}
        members |= {"frame": self.frame, "offset": self.offset}
        known = {key: value for key, value in members.items() if value is not None}
        return json.dumps(known, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Verification:
    """What was found about one session, or about one thing in the root that is no session."""

    id: str | None
    path: Path | None
    """Its log, or the folder or file that is wrong; ``None`` in a store without files."""
    generation: int | None
    """The format version that the log's name says."""
    events: int
    """Events that come back when the session is read; 0 where reading it fails."""
    outcome: str
    """``ok``, ``torn-tail``, ``corrupt``, ``unsupported``, ``conflict``, ``limit`` or ``unreadable``."""
    inherited_event_count: int | None = None
    keep_bytes: int | None = None
    """The length that the first append cuts a torn log to."""
    cut_bytes: int | None = None
    cut_rows: int | None = None
    """Rows among the bytes that would be cut, recovered ones included."""
    recovered: int | None = None
    """Events taken from a torn frame; they count as events of the log."""
    at: str | None = None
    """The part of the log that is wrong: ``header``, ``first-frame``, ``row``, ``seed-marker``, ``relationship``, ``identity``."""
    line: int | None = None
    frame: int | None = None
    offset: int | None = None
    seq: int | None = None
    expected: int | None = None
    got: int | None = None
    salvageable: int | None = None
    """Events before the damage, that can be read."""
    version: str | None = None
    event_type: str | None = None
    rule: str | None = None
    limit: str | None = None
    paths: Sequence[Path] = field(default=(), hash=False)
    """The files or folders that exclude each other."""
    os: int | None = None
    message: str | None = None
    error: DshError | None = field(default=None, compare=False)
    """What reading the session raises, for the outcomes that are an error; ready to be raised."""
    _json: str = field(default="{}", repr=False, compare=False)

    def to_json(self) -> str:
        """The line of the command ``verify``."""
        return self._json


@dataclass(frozen=True)
class Progress:
    """How far a verification is. Problems count as sessions; bytes are those of log files."""

    sessions_done: int
    sessions: int
    bytes_done: int
    bytes: int


@dataclass(frozen=True)
class LargeRow:
    """One of the largest rows."""

    id: str
    """The session."""
    seq: int
    type: str
    bytes: int


@dataclass(frozen=True)
class TokenSums:
    """Sums of the token usage that assistant messages record."""

    messages: int
    """Messages that record a usage."""
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    """The part of the output that was reasoning, where it is told apart."""


@dataclass(frozen=True)
class Stats:
    """The figures of one session or of several."""

    sessions: int
    unreadable: int
    """Sessions and other things that could not be read to their end; nothing of them is in the other figures."""
    events: int
    events_by_type: Mapping[str, int] = field(hash=False)
    file_bytes: int
    text_bytes: int
    """Headers and rows, newlines included."""
    frames: int
    """Of compressed logs, header frames included."""
    first_time: int | None
    """The smallest time of an event, in milliseconds since 1970: clocks go back."""
    last_time: int | None
    largest_rows: tuple[LargeRow, ...]
    """The largest first, five at most."""
    tokens: TokenSums | None
    """``None`` where no message records any."""
    _json: str = field(default="{}", repr=False, compare=False)

    def to_json(self) -> str:
        """The object of the command ``stats``."""
        return self._json
