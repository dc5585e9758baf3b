"""The same names for asyncio: what may wait is a coroutine, done on threads of this module.

A store belongs to no event loop: one object may serve any number of loops, one after the other or at once.

A cancelled call that reads ends at once. A cancelled call that changes something ends in ``CancelledError`` once its outcome is known:
done or not done, never half. ``next_seq`` tells which. A session or log that was being opened for a cancelled caller is closed again.

Listeners are called on the event loop that registered them, after the commit, and may be coroutine functions; what they raise is logged.
Flush listeners are waited for, and fail the flush. Validators and projections decide before the commit: they are plain functions, called
on the thread that appends.

What is appended is written down when the method is called, before anything is awaited: changing it later has no effect. For very large
payloads that is work on the event loop's thread; give them as JSON text in ``bytes``.

``UploadExclusions`` and ``DeliveryFold`` wait for nothing, and are those of ``dsh_session``.

>>> import asyncio
>>> async def main():
...     async with Store() as store:
...         async with await store.create(cwd="/repo") as session:
...             await session.append("turn/start", {"turn": 1})
...             await session.flush()
...         return [event.data async for event in store.events(session.id)]
>>> asyncio.run(main())
[{'turn': 1}]
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, overload

from . import _errors, _native
from ._base import DshError
from ._codes import InvalidArgumentError
from ._native import DeliveryFold, Event, Message, ProjectionContext, Subscription, Surface, UploadExclusions, encode_json
from ._records import (
    Listing,
    LogEnd,
    NextUpload,
    Pending,
    Progress,
    RawRow,
    SessionHeader,
    SessionRecord,
    Stats,
    UploadTooLarge,
    Verification,
)

__all__ = [
    "DeliveryFold",
    "EventIterator",
    "RowIterator",
    "SalvageIterator",
    "Session",
    "SessionLog",
    "Store",
    "UploadExclusions",
    "next_upload",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Item = TypeVar("_Item", bound=Event | RawRow)
_Part = TypeVar("_Part", bound=Event | RawRow)
_List: TypeAlias = list[_R]
_Filters: TypeAlias = Sequence[Mapping[str, Any]] | bytes | bytearray
_Access: TypeAlias = Literal["read", "write"]
_Text: TypeAlias = str | bytes | bytearray
_Rows: TypeAlias = Iterable[Event | dict[str, Any] | _Text]
_WriteState: TypeAlias = Literal["independent", "prepared", "entered", "announcing", "live", "failed", "removed"]
_PathLike: TypeAlias = str | os.PathLike[str]


class _Threads:
    """The threads of this module: started when first needed, joined when the interpreter ends, none in a forked child."""

    COUNT_MAX = 32

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # The threads stayed with the parent, and the lock may be held by one of them for ever.
        self._executor = None
        self._lock = threading.Lock()

    def get(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self.COUNT_MAX, thread_name_prefix="dsh_session.aio")
            return self._executor


_threads = _Threads()


def _start(token: _native.CancelToken, call: Callable[[], _R]) -> Future[_R]:
    """Has a thread make the call, stoppable by the token."""
    return _threads.get().submit(lambda: token.run(call))


async def _read(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Calls on a thread; a cancelled caller goes on at once, and the call is told to stop."""
    return await _read_by(_native.CancelToken(), partial(function, *args, **kwargs))


def _written(filters: _Filters) -> _Filters:
    """Filters as they are now: what the caller changes later has no effect. What cannot be written down is refused by the call."""
    with suppress(DshError):
        return encode_json(filters)
    return filters


async def _read_by(token: _native.CancelToken, call: Callable[[], _R]) -> _R:
    """As `_read`, stoppable by a token that several calls share."""
    future = asyncio.wrap_future(_start(token, call))
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        token.cancel()
        future.cancel()
        raise
    return future.result()


async def _change(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Calls on a thread; a cancelled caller learns the outcome first."""
    token = _native.CancelToken()
    started = _start(token, partial(function, *args, **kwargs))
    future = asyncio.wrap_future(started)
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        token.cancel()
        # Succeeds only while no thread has begun: then nothing is done, ever.
        started.cancel()
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        if not future.cancelled() and future.exception() is None:
            await _give_back(future.result())
        raise
    return future.result()


async def _give_back(opened: object) -> None:
    """Closes what was opened for a caller who is not there any more."""
    if isinstance(opened, Subscription):
        opened.cancel()
    if isinstance(opened, (_native.Session, _native.SessionLog)):
        closing = asyncio.wrap_future(_threads.get().submit(opened.close))
        while not closing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([closing])
        # A failure to close is known to nobody but the log of the program.
        if (failure := closing.exception()) is not None:
            _errors.close_failed(asyncio.CancelledError(), failure)


class _Loop:
    """The event loop that registers a listener, and how the listener is called on it."""

    def __init__(self, listener: Callable[..., object]) -> None:
        if not callable(listener):
            raise InvalidArgumentError("what is registered is not callable")
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        # The loop itself holds tasks only weakly.
        self._tasks: set[asyncio.Task[None]] = set()

    async def _call(self, *arguments: object) -> None:
        result = self._listener(*arguments)
        if inspect.isawaitable(result):
            await result

    def tell(self, what: str, *arguments: object) -> None:
        """Has the loop call the listener, in the order of these calls. Called on any thread."""

        def start() -> None:
            result: object = None
            try:
                result = self._listener(*arguments)
            except Exception:
                logging.getLogger("dsh_session").exception("a listener for %s failed", what)
            if inspect.isawaitable(result):
                task = self._loop.create_task(_logged(what, result))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        # A loop that was closed has nobody to tell.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(start)

    def ask(self, *arguments: object) -> None:
        """Waits until the loop has called the listener, and raises what it raised. Called on threads of this module."""
        calling = self._call(*arguments)
        try:
            asked = asyncio.run_coroutine_threadsafe(calling, self._loop)
        except RuntimeError:
            calling.close()
            raise
        asked.result()


async def _logged(what: str, result: Awaitable[object]) -> None:
    try:
        await result
    except Exception:
        logging.getLogger("dsh_session").exception("a listener for %s failed", what)


class _Handle:
    """Leaving an ``async with`` block closes; a failure to close never hides the exception that left the block."""

    async def close(self) -> None:
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except Exception as failure:
            if exception is None:
                raise
            _errors.close_failed(exception, failure)


class _Walk(Generic[_Item]):
    """Items in order, read in batches on a thread."""

    def __init__(self, start: Callable[[], Callable[[], list[_Item]]]) -> None:
        self._start = start
        self._read: Callable[[], list[_Item]] | None = None
        self._ready: list[_Item] = []

    def _next_batch(self) -> list[_Item]:
        if self._read is None:
            self._read = self._start()
        return self._read()

    async def next_batch(self) -> list[_Item]:
        """What the next batch holds, at least one; an empty list at the end."""
        if self._ready:
            ready, self._ready = self._ready[::-1], []
            return ready
        return await _read(self._next_batch)

    async def __anext__(self) -> _Item:
        if not self._ready:
            # Kept backwards, so that the next one is taken from the end.
            self._ready = (await _read(self._next_batch))[::-1]
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.pop()


class EventIterator(_Walk[Event]):
    """Events in order, read in batches on a thread. Use it from one task at a time."""

    def __init__(self, start: Callable[[], _native.EventIterator]) -> None:
        super().__init__(lambda: start().next_batch)

    def __aiter__(self) -> EventIterator:
        return self


async def next_upload(
    events: AsyncIterable[Event] | Iterable[Event], watermark: int | None = None, bytes_max: int = 8 << 20
) -> NextUpload | UploadTooLarge | None:
    """What an upload takes next of events in order; see ``dsh_session.next_upload``. No more of them are taken than fit, and one."""
    if not isinstance(events, AsyncIterable):
        return _native.next_upload(events, watermark, bytes_max)
    taken: list[Event] = []
    row_bytes = 0
    async for event in events:
        if watermark is None or event.seq > watermark:
            taken.append(event)
            row_bytes += len(event.raw) + 1
            if row_bytes > bytes_max:
                break
    return _native.next_upload(taken, watermark, bytes_max)


class RowIterator(_Walk[RawRow]):
    """The rows of a log as text; see ``dsh_session.RowIterator``. Use it from one task at a time."""

    def __init__(self, start: Callable[[], _native.RowIterator]) -> None:
        super().__init__(lambda: start().next_batch)

    def __aiter__(self) -> RowIterator:
        return self


class SalvageIterator(_Walk[_Part], Generic[_Part]):
    """The events of a log up to its damage; see ``dsh_session.SalvageIterator``. Use it from one task at a time."""

    def __init__(self, start: Callable[[], _native.SalvageIterator[_Part]]) -> None:
        self._salvage: _native.SalvageIterator[_Part] | None = None

        def begin() -> Callable[[], list[_Part]]:
            self._salvage = start()
            return self._salvage.next_batch

        super().__init__(begin)

    def __aiter__(self) -> SalvageIterator[_Part]:
        return self

    @property
    def damage(self) -> DshError | None:
        """Why there are no further events, once the iterator has given the last one; ``None`` where the log is whole."""
        return None if self._salvage is None else self._salvage.damage


class Session(_Handle):
    """One session, open for appending; see ``dsh_session.Session``."""

    def __init__(self, session: _native.Session) -> None:
        self._session = session

    @property
    def id(self) -> str:
        """The session's id."""
        return self._session.id

    @property
    def header(self) -> SessionHeader:
        """What the session is, fixed when it was created."""
        return self._session.header

    @property
    def next_seq(self) -> int:
        """The seq that the next event gets: how many events the session has."""
        return self._session.next_seq

    @property
    def inherited_event_count(self) -> int:
        """How many events at the beginning were inherited by a fork."""
        return self._session.inherited_event_count

    @property
    def first_live_seq(self) -> int:
        """Where events begin that were appended to this object."""
        return self._session.first_live_seq

    @property
    def first_lifecycle_seq(self) -> int:
        """The first event that was made for this object's life."""
        return self._session.first_lifecycle_seq

    @property
    def write_state(self) -> _WriteState:
        """Whether the session may be written; see ``dsh_session.Session.write_state``."""
        return self._session.write_state

    @property
    def current_batch_publication(self) -> Event | None:
        """The member of a batch that is being published, while it is: for validators' threads; listeners here run after that."""
        return self._session.current_batch_publication

    @property
    def surface(self) -> Surface:
        """What the model sees, as a list of events; it follows the session."""
        return self._session.surface

    @property
    def request_header(self) -> dict[str, Any] | None:
        """The request header in force, a new dict; ``None`` before the first."""
        return self._session.request_header

    @property
    def request_context(self) -> dict[str, Any] | None:
        """The request context in force, a new dict; ``None`` before the first."""
        return self._session.request_context

    @property
    def tool_history(self) -> dict[str, Any]:
        """Which tools the model was told of, and how they changed: a new dict."""
        return self._session.tool_history

    @property
    def title(self) -> dict[str, Any] | None:
        """The newest title, a new dict; ``None`` where there is none."""
        return self._session.title

    def event_at(self, seq: int) -> Event | None:
        """The event with this seq; ``None`` if there is none."""
        return self._session.event_at(seq)

    def messages(self) -> list[Message]:
        """The messages that the model sees, in order; they are in memory, so nothing is awaited."""
        return self._session.messages()

    def message_of(self, seq: int) -> Message | None:
        """The message that one event makes now."""
        return self._session.message_of(seq)

    def transcript(self) -> list[Event]:
        """The conversation as a person would read it."""
        return self._session.transcript()

    def closers(self, cause: Literal["interrupted", "forked"] = "interrupted") -> list[Event]:
        """What a resume would append now if the session ended here."""
        return self._session.closers(cause)

    @property
    def pending(self) -> Pending:
        """What is accepted and not on the disk yet, and why, if writing has failed."""
        return self._session.pending

    @property
    def notices(self) -> list[dict[str, Any]]:
        """What opening and writing have found so far."""
        return self._session.notices

    @property
    def closed(self) -> bool:
        """Whether ``close`` has begun."""
        return self._session.closed

    def append(
        self,
        type: str,
        data: object,
        *,
        surface: Literal["append"] | tuple[int, int] | None = None,
        sources: Iterable[int] | None = None,
        time: int | None = None,
    ) -> Coroutine[Any, Any, Event]:
        """Accepts one event and gives it back with its seq; see ``dsh_session.Session.append``."""
        text = encode_json(data)
        sources = None if sources is None else list(sources)
        return _change(self._session.append, type, text, surface=surface, sources=sources, time=time)

    def append_many(
        self, events: Iterable[tuple[str, object] | dict[str, Any] | _Text]
    ) -> Coroutine[Any, Any, list[Event]]:
        """Accepts several events together: all of them or none; see ``dsh_session.Session.append_many``."""
        return _change(self._session.append_many, [_written_down(event) for event in events])

    def append_record(self, name: str, data: object) -> Coroutine[Any, Any, Event]:
        """Accepts a plugin record; see ``dsh_session.Session.append_record``."""
        return _change(self._session.append_record, name, encode_json(data))

    def append_line(self, line: _Text | dict[str, Any]) -> Coroutine[Any, Any, Event]:
        """Accepts one event given as a line of JSON."""
        text = line if isinstance(line, str) else encode_json(line)
        return _change(self._session.append_line, text)

    async def flush(self) -> None:
        """The durability barrier: on return every accepted event is on the disk."""
        await _change(self._session.flush)

    def events(self, *, from_seq: int = 0, count: int | None = None, newest: int | None = None) -> EventIterator:
        """The session's events, those included that are not on the disk yet."""
        return EventIterator(lambda: self._session.events(from_seq=from_seq, count=count, newest=newest))

    async def close(self) -> None:
        """Writes what waits and gives up ownership. A second close does nothing."""
        await _change(self._session.close)

    async def __aenter__(self) -> Session:
        return self


def _written_down(event: tuple[str, object] | dict[str, Any] | _Text) -> tuple[str, bytes] | _Text:
    if isinstance(event, tuple) and len(event) == 2:
        return event[0], encode_json(event[1])
    if isinstance(event, (dict, bytearray)):
        return encode_json(event)
    # What is of no known form is refused where it is judged, with its index.
    return event


class SessionLog(_Handle):
    """An open channel onto a stored log; see ``dsh_session.SessionLog``."""

    def __init__(self, log: _native.SessionLog) -> None:
        self._log = log

    @property
    def id(self) -> str:
        """The session's id."""
        return self._log.id

    @property
    def header(self) -> SessionHeader:
        """What the session is, fixed when it was created."""
        return self._log.header

    @property
    def access(self) -> _Access:
        """``"read"`` or ``"write"``."""
        return self._log.access

    @property
    def notices(self) -> list[dict[str, Any]]:
        """What opening and writing have found so far."""
        return self._log.notices

    @property
    def closed(self) -> bool:
        """Whether ``close`` has begun."""
        return self._log.closed

    async def event_count(self) -> int:
        """How many events the log has."""
        return await _read(self._log.event_count)

    async def inherited_event_count(self) -> int:
        """How many events at the beginning were inherited by a fork."""
        return await _read(self._log.inherited_event_count)

    def append(self, rows: Iterable[Event | dict[str, Any] | _Text]) -> Coroutine[Any, Any, None]:
        """Adds a batch of whole rows: all of them or none, on the disk on return."""
        batch = [encode_json(row) if isinstance(row, (dict, bytearray)) else row for row in rows]
        return _change(self._log.append, batch)

    async def read(self, offset: int, length: int) -> list[Event]:
        """``length`` events from ``offset`` on, all at once."""
        return await _read(self._log.read, offset, length)

    def events(self, *, from_seq: int = 0, count: int | None = None, newest: int | None = None) -> EventIterator:
        """Events in bounded memory: ``count`` of them from ``from_seq`` on, or the ``newest`` ones."""
        return EventIterator(lambda: self._log.events(from_seq=from_seq, count=count, newest=newest))

    async def check(self) -> LogEnd:
        """Reads and checks everything, keeps nothing, and tells what the end of the log looks like."""
        return await _read(self._log.check)

    async def flush(self) -> None:
        """The durability barrier."""
        await _change(self._log.flush)

    async def close(self) -> None:
        """Ends the work and gives up ownership. A second close does nothing."""
        await _change(self._log.close)

    async def __aenter__(self) -> SessionLog:
        return self


class Store(_Handle):
    """A root of sessions; see ``dsh_session.Store``. It is opened by its first call, or on entering its ``async with`` block."""

    def __init__(
        self,
        root: _PathLike | None = None,
        *,
        encoding: Literal["zstd", "none"] | None = None,
        row_bytes_max: int | None = None,
        header_bytes_max: int | None = None,
        depth_max: int | None = None,
        threads: int | None = None,
        event_types: dict[str, bool] | None = None,
        checks_stored_rules: bool = True,
    ) -> None:
        # Absolute now, whatever the working directory is when the first call comes.
        self._root = None if root is None else Path(root).absolute()
        self._lock = threading.Lock()
        self._store: _native.Store | None = None
        self._make: Callable[[], _native.Store] = lambda: _native.Store(
            self._root,
            encoding=encoding,
            row_bytes_max=row_bytes_max,
            header_bytes_max=header_bytes_max,
            depth_max=depth_max,
            threads=threads,
            event_types=event_types,
            checks_stored_rules=checks_stored_rules,
        )

    def _open(self) -> _native.Store:
        """The store, opened. Called on threads only: it may wait."""
        if self._store is None:
            with self._lock:
                if self._store is None:
                    self._store = self._make()
        return self._store

    @property
    def root(self) -> Path | None:
        """The root, absolute; ``None`` for a store in memory."""
        return self._root

    async def create(
        self,
        *,
        id: str | None = None,
        cwd: _PathLike | None = None,
        parent_session: str | None = None,
        created_at: int | None = None,
        agent_preset: str | None = None,
        origin: Literal["subagent"] | None = None,
        delegation_depth: int | None = None,
        seed: _Rows | None = None,
        inherited_event_count: int | None = None,
    ) -> Session:
        """A new session, open for appending; see ``dsh_session.Store.create``."""
        rows = None if seed is None else [encode_json(row) if isinstance(row, (dict, bytearray)) else row for row in seed]
        session = await _change(
            lambda: self._open().create(
                id=id,
                cwd=cwd,
                parent_session=parent_session,
                created_at=created_at,
                agent_preset=agent_preset,
                origin=origin,
                delegation_depth=delegation_depth,
                seed=rows,
                inherited_event_count=inherited_event_count,
            )
        )
        return Session(session)

    async def resume(self, id: str) -> Session:
        """Resumes a stored session, closing a turn that was interrupted; see ``dsh_session.Store.resume``."""
        return Session(await _change(lambda: self._open().resume(id)))

    async def fork(
        self,
        source_id: str,
        at: int | None = None,
        *,
        id: str | None = None,
        cwd: _PathLike | None = None,
        parent_session: str | None = None,
        created_at: int | None = None,
        agent_preset: str | None = None,
        origin: Literal["subagent"] | None = None,
        delegation_depth: int | None = None,
    ) -> Session:
        """A new session that begins with the events of another; see ``dsh_session.Store.fork``."""
        session = await _change(
            lambda: self._open().fork(
                source_id,
                at,
                id=id,
                cwd=cwd,
                parent_session=parent_session,
                created_at=created_at,
                agent_preset=agent_preset,
                origin=origin,
                delegation_depth=delegation_depth,
            )
        )
        return Session(session)

    async def get(self, id: str) -> Session | None:
        """The live session of an id, as a view that does not keep it open; ``None`` if it is not live in this store."""
        # Not `_change`: what it gives belongs to somebody else, and is not closed for a cancelled caller.
        session = await _read(lambda: self._open().get(id))
        return None if session is None else Session(session)

    async def live_ids(self) -> _List[str]:
        """The ids of the live sessions, in the order in which they were opened."""
        return await _read(lambda: self._open().live_ids())

    async def on_event(self, listener: Callable[[Session, Event], object]) -> Subscription:
        """Has ``listener(session, event)`` called on this event loop with each event that was committed.

        Calls begin in the order of the events; those of a coroutine function may overlap.
        """
        loop = _Loop(listener)
        tell = lambda session, event: loop.tell("events", Session(session), event)  # noqa: E731
        return await _change(lambda: self._open().on_event(tell))

    async def on_created(self, listener: Callable[[Session], object]) -> Subscription:
        """Has ``listener(session)`` called on this event loop when a session was announced. It cannot refuse the session."""
        loop = _Loop(listener)
        return await _change(lambda: self._open().on_created(lambda session: loop.tell("creation", Session(session))))

    async def on_disposed(self, listener: Callable[[Session], object]) -> Subscription:
        """Has ``listener(session)`` called on this event loop when a session has left the store."""
        loop = _Loop(listener)
        return await _change(lambda: self._open().on_disposed(lambda session: loop.tell("the disposal", Session(session))))

    async def on_flush(self, listener: Callable[[Session], object]) -> Subscription:
        """Has ``listener(session)`` called on this event loop by every flush, which waits for it and fails with it."""
        loop = _Loop(listener)
        return await _change(lambda: self._open().on_flush(lambda session: loop.ask(Session(session))))

    async def add_validator(self, validator: Callable[[_native.Session, Event], object]) -> Subscription:
        """Asks ``validator(session, event)`` before each event is accepted, on the thread that appends; the session is a sync one."""
        return await _change(lambda: self._open().add_validator(validator))

    async def register_projection(
        self,
        event_type: str,
        projection: Callable[[Event, ProjectionContext], Mapping[int, object] | Iterable[tuple[int, object]]],
    ) -> Subscription:
        """Has ``projection`` decide what events of a type do to earlier messages; see ``dsh_session.Store.register_projection``."""
        return await _change(lambda: self._open().register_projection(event_type, projection))

    async def open_session(self, id: str) -> Session:
        """A stored session, open for appending where its log ends."""
        return Session(await _change(lambda: self._open().open_session(id)))

    async def open_log(self, id: str, access: _Access = "read") -> SessionLog:
        """A channel onto a stored log."""
        return SessionLog(await _change(lambda: self._open().open_log(id, access)))

    async def create_log(
        self,
        id: str,
        *,
        created_at: int,
        cwd: _PathLike | None = None,
        parent_session: str | None = None,
        agent_preset: str | None = None,
        origin: Literal["subagent"] | None = None,
        delegation_depth: int | None = None,
        is_seeded: bool = False,
        inherited_event_count: int | None = None,
    ) -> SessionLog:
        """A log of a new session, for importers; see ``dsh_session.Store.create_log``."""
        log = await _change(
            lambda: self._open().create_log(
                id,
                created_at=created_at,
                cwd=cwd,
                parent_session=parent_session,
                agent_preset=agent_preset,
                origin=origin,
                delegation_depth=delegation_depth,
                is_seeded=is_seeded,
                inherited_event_count=inherited_event_count,
            )
        )
        return SessionLog(log)

    def events(
        self, id: str, *, from_seq: int = 0, count: int | None = None, newest: int | None = None
    ) -> EventIterator:
        """The events of a stored session, in bounded memory."""
        return EventIterator(lambda: self._open().events(id, from_seq=from_seq, count=count, newest=newest))

    async def stat(self, id: str) -> SessionRecord | None:
        """One session without its events; ``None`` if there is none."""
        return await _read(lambda: self._open().stat(id))

    async def list(self, *, strict: bool = False) -> Listing:
        """Every session, and in ``problems`` everything in the root that is not usable."""
        return await _read(lambda: self._open().list(strict=strict))

    async def verify(
        self, id: str | None = None, *, progress: Callable[[Progress], object] | None = None
    ) -> _List[Verification]:
        """Judges every session, or one; see ``dsh_session.Store.verify``. ``progress`` is called on the event loop."""
        token = _native.CancelToken()
        verifier = await _read_by(token, lambda: self._open()._verifier(id))
        judgements = []
        while (step := await _read_by(token, verifier.step)) is not None:
            judgements.append(step[0])
            if progress is not None:
                progress(step[1])
        return judgements

    @overload
    def salvage(self, id: str, *, all: Literal[False] = False) -> SalvageIterator[Event]: ...
    @overload
    def salvage(self, id: str, *, all: bool) -> SalvageIterator[Event | RawRow]: ...
    def salvage(self, id: str, *, all: bool = False) -> SalvageIterator[Event] | SalvageIterator[Event | RawRow]:
        """The events of a session up to its damage; with ``all`` also the rows that are readable after it."""
        return SalvageIterator(lambda: self._open().salvage(id, all=all))

    def rows(self, id: str) -> RowIterator:
        """Every row of a session's log as text, whatever is wrong with it."""
        return RowIterator(lambda: self._open().rows(id))

    async def stats(self, id: str | None = None) -> Stats:
        """Counts, bytes, frames, the largest rows and tokens of one session, or of all."""
        return await _read(lambda: self._open().stats(id))

    async def list_sessions(self) -> _List[dict[str, Any]]:
        """Every session, live or stored, most recently created first; see ``dsh_session.Store.list_sessions``."""
        return await _read(lambda: self._open().list_sessions())

    async def filter_sessions(self, filters: _Filters) -> _List[dict[str, Any]]:
        """The sessions that pass every filter; see ``dsh_session.Store.filter_sessions``."""
        return await _read(partial(self._open().filter_sessions, _written(filters)))

    async def trace_session(self, id: str) -> dict[str, Any]:
        """Where a session came from and what came from it; see ``dsh_session.Store.trace_session``."""
        return await _read(lambda: self._open().trace_session(id))

    async def read_session(self, id: str) -> dict[str, Any]:
        """A whole session as it was at one moment; see ``dsh_session.Store.read_session``."""
        return await _read(lambda: self._open().read_session(id))

    async def list_events(self, id: str) -> _List[dict[str, Any]]:
        """One dictionary for each event of a session; see ``dsh_session.Store.list_events``."""
        return await _read(lambda: self._open().list_events(id))

    async def filter_events(self, id: str, filters: _Filters) -> _List[dict[str, Any]]:
        """What the events say that pass every filter; see ``dsh_session.Store.filter_events``."""
        return await _read(partial(self._open().filter_events, id, _written(filters)))

    async def read_surface(self, id: str) -> dict[str, Any]:
        """The events that the model sees; see ``dsh_session.Store.read_surface``."""
        return await _read(lambda: self._open().read_surface(id))

    async def read_event(
        self, id: str, seq: int, *, before: int | None = None, after: int | None = None
    ) -> dict[str, Any]:
        """An event and its neighbours; see ``dsh_session.Store.read_event``."""
        return await _read(lambda: self._open().read_event(id, seq, before=before, after=after))

    async def trace_event(self, id: str, seq: int) -> dict[str, Any]:
        """Where an event came from and what became of it; see ``dsh_session.Store.trace_event``."""
        return await _read(lambda: self._open().trace_event(id, seq))

    async def read_title(self, id: str) -> dict[str, Any]:
        """The header and the title of a session; see ``dsh_session.Store.read_title``."""
        return await _read(lambda: self._open().read_title(id))

    async def read_titles(self, ids: Sequence[str]) -> _List[dict[str, Any]]:
        """Headers and titles of many sessions; see ``dsh_session.Store.read_titles``."""
        ids = list(ids)
        return await _read(lambda: self._open().read_titles(ids))

    async def transcript(self, id: str) -> _List[dict[str, Any]]:
        """What a person would read of a session; see ``dsh_session.Store.transcript``."""
        return await _read(lambda: self._open().transcript(id))

    async def remove(self, id: str, *, trash: bool = False) -> Path | None:
        """Takes a session away for good, or moves its folder aside; see ``dsh_session.Store.remove``."""
        return await _change(lambda: self._open().remove(id, trash=trash))

    async def flush(self) -> None:
        """Writes what waits in every open session, and makes every open session and log durable."""
        await _change(lambda: self._open().flush())

    async def close(self) -> None:
        """Closes the sessions and logs opened from this store, and the store. A second close does nothing."""
        if self._store is not None:
            await _change(self._store.close)

    async def __aenter__(self) -> Store:
        await _change(self._open)
        return self
