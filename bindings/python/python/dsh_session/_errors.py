"""From the native module's errors to exceptions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ._base import DshError
from ._codes import BY_CODE


def from_native(
    code: str,
    text: str,
    message: str,
    advice: str,
    facts: Mapping[str, object],
    causes: Sequence[DshError],
    raised: BaseException | None = None,
) -> DshError:
    """The exception of a code with its facts. A code newer than the table is still a ``DshError``.

    ``raised`` is what a callable of the program raised, where that is the reason.
    """
    kind = BY_CODE.get(code, DshError)
    error = kind(facts.get("os"), text) if issubclass(kind, OSError) else kind(text)
    vars(error).update(facts, code=code, message=message, advice=advice, causes=tuple(causes))
    if raised is not None:
        error.__cause__ = raised
    elif causes:
        error.__cause__ = causes[0]
    return error


def close_failed(exception: BaseException, failure: BaseException) -> None:
    """Tells of a failed close while another exception leaves the block: that one stays the one that is raised."""
    logging.getLogger("dsh_session").error("closing failed after an exception: %s", failure)
    add_note = getattr(exception, "add_note", None)  # Python 3.11
    if add_note is not None:
        add_note(f"closing failed too: {failure}")
