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
    DeliveryFold,
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
    UploadExclusions,
    closers,
    fold,
    fold_surface,
    fork_seed,
    next_upload,
)
from ._records import (
    FoldedSurface,
    Folds,
    LargeRow,
    Listing,
    LogEnd,
    NextUpload,
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
    Upload,
    UploadTooLarge,
    UploadVerdict,
    Verification,
)

__all__ = [
    "CancelToken",
    "DeliveryFold",
    "DshError",
    "Event",
    "EventIterator",
    "FoldedSurface",
    "Folds",
    "LargeRow",
    "Listing",
    "LogEnd",
    "Message",
    "NextUpload",
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
    "Upload",
    "UploadExclusions",
    "UploadTooLarge",
    "UploadVerdict",
    "Verification",
    "__version__",
    "aio",
    "closers",
    "fold",
    "fold_surface",
    "fork_seed",
    "next_upload",
]
__all__ += _codes.__all__
