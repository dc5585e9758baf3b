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
from ._native import (
    CancelToken,
    Event,
    EventIterator,
    Message,
    ProjectionContext,
    RowIterator,
    SalvageIterator,
    Session,
    SessionLog,
    Store,
    Subscription,
    Surface,
    closers,
    fold,
    fold_surface,
    fork_seed,
)
from ._records import (
    FoldedSurface,
    Folds,
    LargeRow,
    Listing,
    LogEnd,
    Pending,
    Problem,
    Progress,
    RawRow,
    Replace,
    Replacement,
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
    "FoldedSurface",
    "Folds",
    "LargeRow",
    "Listing",
    "LogEnd",
    "Message",
    "Pending",
    "Problem",
    "Progress",
    "ProjectionContext",
    "RawRow",
    "Replace",
    "Replacement",
    "RowIterator",
    "SalvageIterator",
    "Session",
    "SessionHeader",
    "SessionLog",
    "SessionRecord",
    "Stats",
    "Store",
    "Subscription",
    "Surface",
    "TokenSums",
    "TornTail",
    "Verification",
    "__version__",
    "aio",
    "closers",
    "fold",
    "fold_surface",
    "fork_seed",
]
__all__ += _codes.__all__
