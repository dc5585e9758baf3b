"""The root of the exceptions, with the facts that every one of them may carry."""

from __future__ import annotations

from pathlib import Path


class DshError(Exception):
    """Why a call of the library failed: what happened, where, and what to do.

    ``str()`` gives all of it in one line. Facts that are not known are ``None``. Instances can be pickled.
    """

    code: str = "INTERNAL"
    """The code's name, the same in every language."""

    message: str = ""
    """What happened, without place and advice."""

    advice: str = ""
    """What to do next, in one sentence."""

    path: Path | None = None
    """The file or folder concerned."""

    paths: list[Path] = []
    """The files or folders that exclude each other."""

    session_id: str | None = None
    """The session concerned."""

    event_type: str | None = None
    """The event type concerned."""

    version: str | None = None
    """The format version found."""

    owner: str | None = None
    """Who owns the session: process id and program name."""

    json_path: str | None = None
    """Where in a JSON value the offending part stands: ``$.items[3]``."""

    at: str | None = None
    """The part of the log: ``header``, ``first-frame``, ``row``, ``seed-marker``, ``relationship``, ``identity``."""

    line: int | None = None
    """The line in the decompressed text, from 1 (the header)."""

    frame: int | None = None
    """The frame of a compressed log, from 0 (the header's)."""

    offset: int | None = None
    """The byte offset in the file, from 0."""

    seq: int | None = None
    """The position of the event in its log, from 0."""

    expected: int | None = None
    """The number that should have stood where ``got`` stands."""

    got: int | None = None
    """The number found."""

    rule: str | None = None
    """The rule that was broken."""

    limit: str | None = None
    """The name of the limit that was passed."""

    index: int | None = None
    """Which member of a batch was refused, from 0."""

    salvageable: int | None = None
    """How many events before the damage can be read."""

    os: int | None = None
    """The operating system's error number; ``errno`` too, where the class is an ``OSError``."""

    causes: tuple[DshError, ...] = ()
    """The errors that this one sums up or was caused by."""

    _json: str = "{}"

    def to_json(self) -> str:
        """Every fact that is known, as one JSON object: the same members as on the command line and in C."""
        return self._json

    def __str__(self) -> str:
        # OSError would put "[Errno 28]" in front, and its text has said so already.
        return str(self.args[-1]) if self.args else self.message
