"""The asyncio twin: the same names, any number of loops (P12), and cancelled changes whose outcome is known (P10)."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import dsh_session as dsh
from conftest import NOTE
from dsh_session import aio


def test_both_faces_have_the_same_names() -> None:
    for name in aio.__all__:
        ours = {word for word in dir(getattr(aio, name)) if not word.startswith("_")}
        theirs = {word for word in dir(getattr(dsh, name)) if not word.startswith("_")}
        assert ours == theirs, name
        for word in ours:
            method, other = getattr(getattr(aio, name), word), getattr(getattr(dsh, name), word)
            if callable(other):
                assert list(inspect.signature(method).parameters) == list(inspect.signature(other).parameters), (name, word)


def test_the_first_path(root: Path) -> None:
    async def main() -> None:
        async with aio.Store(root) as store:
            async with await store.create(id="s1", cwd="/repo") as session:
                event = await session.append(*NOTE)
                assert event.seq == 0 and session.next_seq == 1 and session.pending.events == 1
                await session.append_many([NOTE, {"type": NOTE[0], "data": 1}, '{"type":"plugin:a/b","data":2}'])
                await session.append_line({"type": NOTE[0], "data": 3})
                await session.flush()
                assert [event.seq async for event in session.events(newest=2)] == [3, 4]
            async with await store.open_session("s1") as session:
                assert session.next_seq == 5 and session.id == "s1" and session.header.cwd == "/repo"
            async with await store.open_log("s1") as log:
                assert await log.event_count() == 5 and log.access == "read"
                assert (await log.check()).event_count == 5
                assert [event.seq for event in await log.read(1, 2)] == [1, 2]
            walk = store.events("s1", from_seq=1)
            assert (await walk.__anext__()).seq == 1
            assert [event.seq for event in await walk.next_batch()] == [2, 3, 4]
            assert await walk.next_batch() == []
            record = await store.stat("s1")
            assert record is not None and (await store.list()).sessions == (record,)
            assert await store.stat("s2") is None
            await store.flush()
            with pytest.raises(dsh.SessionPersistenceNotFoundError):
                await store.open_session("s2")

    asyncio.run(main())


def test_an_argument_changed_before_the_call_is_awaited_has_no_effect() -> None:
    async def main() -> None:
        async with aio.Store() as store, await store.create(id="s1") as session:
            data: dict[str, Any] = {"n": 1}
            line = {"type": NOTE[0], "data": data}
            calls = [session.append(NOTE[0], data), session.append_many([(NOTE[0], data), line]), session.append_line(line)]
            data["n"] = 2
            await asyncio.gather(*calls)
            assert [event.data async for event in session.events()] == [{"n": 1}] * 4

    asyncio.run(main())


def test_a_closed_store_says_so_and_a_block_hides_no_exception(root: Path) -> None:
    async def main() -> None:
        store = aio.Store(root)
        with pytest.raises(KeyError):
            async with store, await store.create() as session:
                await session.append(*NOTE)
                raise KeyError
        with pytest.raises(dsh.SessionHandleClosedError):
            await store.list()

    asyncio.run(main())


def test_one_store_serves_many_loops_with_flat_threads_and_files(root: Path) -> None:
    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    store = aio.Store(root)
    session: aio.Session | None = None

    async def turn() -> None:
        nonlocal session
        if session is None:
            session = await store.create(id="s1")
        await session.append(*NOTE)
        await session.flush()

    others = sum(not thread.name.startswith("dsh_session.aio") for thread in threading.enumerate())
    threads, opened = [], []
    for _ in range(200):
        asyncio.run(turn())
        threads.append(threading.active_count())
        opened.append(files())
    assert session is not None and session.next_seq == 200
    # A pool that is shared by all loops makes another thread now and then, when none is idle yet; loops leave none.
    assert max(threads) <= others + aio._threads.COUNT_MAX, threads
    # Once warm, nothing grows.
    assert max(opened[20:]) <= max(opened[:20]), opened
    asyncio.run(store.close())


def test_a_cancelled_append_is_done_or_not_done_and_the_session_goes_on(root: Path) -> None:
    batch = [("plugin:acme/note", b'"' + b"x" * 50_000 + b'"')] * 40

    async def main() -> int:
        cancelled = 0
        async with aio.Store(root) as store, await store.create(id="s1") as session:
            for number in range(40):
                before = session.next_seq
                task = asyncio.ensure_future(session.append_many(batch))
                await asyncio.sleep(0.001 * (number % 4))
                task.cancel()
                try:
                    await task
                    assert session.next_seq == before + len(batch)
                except asyncio.CancelledError:
                    cancelled += 1
                    assert session.next_seq in (before, before + len(batch))
                after = session.next_seq
                # Known at once and for good: nothing of it comes later.
                assert (await session.append(*NOTE)).seq == after
            await session.flush()
            count = session.next_seq
        async with aio.Store(root) as store:
            assert [event.seq async for event in store.events("s1")] == list(range(count))
            async with await store.open_session("s1") as session:
                assert session.next_seq == count
        return cancelled

    assert asyncio.run(main()) > 0


def test_what_was_opened_for_a_cancelled_caller_is_closed_again(root: Path) -> None:
    with dsh.Store(root) as sync, sync.create(id="s1") as session:
        session.append_many([NOTE] * 5000)

    async def main() -> None:
        async with aio.Store(root) as store:
            for step in range(20):
                task = asyncio.ensure_future(store.open_session("s1"))
                await asyncio.sleep(0.0005 * step)
                task.cancel()
                try:
                    await (await task).close()
                except asyncio.CancelledError:
                    pass
                # Not owned by anybody any more.
                async with await store.open_session("s1") as again:
                    assert again.next_seq == 5000

    asyncio.run(main())


def test_a_timeout_around_a_read_ends_it(root: Path) -> None:
    with dsh.Store(root) as sync, sync.create(id="s1") as session:
        session.append("plugin:acme/note", b'"' + b"x" * (32 << 20) + b'"')

    async def main() -> None:
        async with aio.Store(root) as store, await store.open_log("s1") as log:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(log.check(), 0)
            assert await log.event_count() == 1

    asyncio.run(main())


def test_sessions_are_resumed_forked_and_read_as_in_the_sync_face(root: Path) -> None:
    hello = {"id": "m1", "role": "user", "content": [], "source": {"kind": "user"}}

    async def main() -> None:
        async with aio.Store(root, event_types={"acme/usage": False}, checks_stored_rules=True) as store:
            async with await store.create(id="s") as session:
                await session.append("turn/start", {"turn": 1})
                message = await session.append("user/message", hello, surface="append")
                await session.append_record("plugin:acme/state", 7)
                await session.append("acme/usage", {})
                assert session.surface.nodes == [1] and [made.data for made in session.messages()] == [hello]
                assert session.message_of(1) == session.messages()[0] and session.transcript() == [message]
                assert session.event_at(1) == message and session.write_state == "live" and session.title is None
                assert session.request_header is None and session.request_context is None
                assert session.tool_history["tools"] == [] and session.current_batch_publication is None
                assert [event.type for event in session.closers()] == ["turn/end"]
                view = await store.get("s")
                assert view is not None and view.next_seq == 4 and await store.live_ids() == ["s"]
                async with await store.fork("s", at=0, id="kid") as child:
                    assert (child.inherited_event_count, child.first_lifecycle_seq) == (1, 1)
            assert await store.get("s") is None
            async with await store.resume("s") as session:
                assert session.first_live_seq == 5 and session.next_seq == 6
            row = {"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}
            async with await store.create(seed=[row]) as session:
                assert session.next_seq == 2

    asyncio.run(main())


def test_listeners_run_on_the_loop_that_registered_them_after_the_commit(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        me, seen, ended = threading.get_ident(), [], asyncio.Event()

        async def listener(session: aio.Session, event: dsh.Event) -> None:
            seen.append((threading.get_ident(), session.id, event.seq, session.next_seq > event.seq))
            if session.id == "s":
                # The store's gate is free by now.
                await other.append("plugin:acme/seen", event.seq)
            if event.type == "plugin:acme/fail":
                raise LookupError("the listener's own")

        async with aio.Store() as store:
            async with await store.create(id="other") as other:
                subscription = await store.on_event(listener)
                created: list[str] = []
                await store.on_created(lambda session: created.append(session.id))
                await store.on_disposed(lambda session: ended.set())
                async with await store.create(id="s") as session:
                    await session.append(*NOTE)
                    await session.append("plugin:acme/fail", 1)
                await asyncio.wait_for(ended.wait(), 60)
                while other.next_seq < 2:
                    await asyncio.sleep(0)
                assert created == ["s"]
                subscription.cancel()
        assert {thread for thread, *_ in seen} == {me} and all(committed for *_, committed in seen)
        assert [seq for _, id, seq, _ in seen if id == "s"] == [0, 1]

    asyncio.run(main())
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["the listener's own"]


def test_flush_listeners_are_waited_for_and_validators_refuse() -> None:
    reason = LookupError("no")

    async def main() -> None:
        flushed: list[str] = []

        async def listener(session: aio.Session) -> None:
            await asyncio.sleep(0)
            flushed.append(session.id)
            if len(flushed) == 2:
                raise reason

        def validator(session: dsh.Session, event: dsh.Event) -> None:
            raise reason

        async with aio.Store() as store:
            await store.on_flush(listener)
            async with await store.create(id="s") as session:
                await session.flush()
                assert flushed == ["s"]
                with pytest.raises(dsh.FlushFailedError) as failed:
                    await session.flush()
                assert failed.value.__cause__ is reason
                await store.add_validator(validator)
                with pytest.raises(dsh.EventRefusedError) as refused:
                    await session.append(*NOTE)
                assert refused.value.__cause__ is reason and session.next_seq == 0
            with pytest.raises(dsh.InvalidArgumentError):
                await store.on_event(7)  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_listener_of_a_loop_that_ended_holds_nothing_up() -> None:
    store = aio.Store()

    async def register() -> None:
        await store.on_event(print)
        await store.on_flush(print)

    async def use() -> None:
        async with store, await store.create() as session:
            await session.append(*NOTE)
            with pytest.raises(dsh.FlushFailedError) as failed:
                await session.flush()
            assert isinstance(failed.value.__cause__, RuntimeError)

    asyncio.run(register())
    asyncio.run(use())
