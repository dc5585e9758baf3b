"""Durable session logs for AI agents.

Append the events of an agent run; when ``flush`` has returned, no crash, full disk or second program loses them.

>>> import dsh_session as dsh
>>> with dsh.Store() as store:                     # a folder, or nothing for memory
...     with store.create(cwd="/repo") as session:
...         _ = session.append("turn/start", {"turn": 1})
...         session.flush()
...     [event.data for event in store.events(session.id, newest=100)]
[{'turn': 1}]

``dsh_session.aio`` has the same names for asyncio.
"""

from __future__ import annotations

from . import _codes, aio
from ._base import DshError
from ._codes import *  # noqa: F403
from ._native import VERSION as __version__
from ._native import CancelToken, Event, EventIterator, RowIterator, SalvageIterator, Session, SessionLog, Store
from ._records import (
    LargeRow,
    Listing,
    LogEnd,
    Pending,
    Problem,
    Progress,
    RawRow,
    Replace,
    SessionHeader,
    SessionRecord,
    Stats,
    TokenSums,
    TornTail,
    Verification,
)

__all__ = [
    "CancelToken",
    "DshError",
    "Event",
    "EventIterator",
    "LargeRow",
    "Listing",
    "LogEnd",
    "Pending",
    "Problem",
    "Progress",
    "RawRow",
    "Replace",
    "RowIterator",
    "SalvageIterator",
    "Session",
    "SessionHeader",
    "SessionLog",
    "SessionRecord",
    "Stats",
    "Store",
    "TokenSums",
    "TornTail",
    "Verification",
    "__version__",
    "aio",
]
__all__ += _codes.__all__
