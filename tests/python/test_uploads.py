"""Who keeps a session out of an upload, and which events come next in one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import dsh_session as dsh
from conftest import NOTE
from dsh_session import aio

DELIVERY = "session-log-deepseek/delivery-accepted"


def of_titles(upload: dsh.Upload) -> bool:
    return upload.purpose == "title"


def event(seq: int, type: str = "turn/start", data: Any = None) -> dsh.Event:
    return dsh.Event.from_row({"type": type, "seq": seq, "time": 1, "data": data or {"turn": 1}})


def delivery(seq: int, session_id: str, through_seq: int, **version: int) -> dsh.Event:
    return event(seq, DELIVERY, {"sessionId": session_id, **version, "throughSeq": through_seq})


def test_any_predicate_that_matches_excludes_and_removing_one_leaves_the_others() -> None:
    exclusions = dsh.UploadExclusions()
    seen: list[dsh.Upload] = []
    first, second = exclusions.register(of_titles), exclusions.register(of_titles)
    exclusions.register(seen.append)
    assert exclusions.judge("s", "title") == dsh.UploadVerdict("excluded")
    assert seen == []
    first.cancel()
    first.cancel()
    assert exclusions.judge("s", "title").verdict == "excluded"
    second.cancel()
    assert exclusions.judge("s", purpose="title").verdict == "unmatched"
    assert exclusions.judge("s").verdict == "unmatched"
    assert seen == [dsh.Upload("s", "title"), dsh.Upload("s", None)]


def test_a_failing_predicate_fails_one_upload_and_not_the_next() -> None:
    exclusions = dsh.UploadExclusions()

    def fail(upload: dsh.Upload) -> bool:
        raise LookupError(f"no list for {upload.session_id}")

    with exclusions.register(fail):
        judged = exclusions.judge("s")
    assert judged.verdict == "failed" and judged.error is not None
    assert isinstance(judged.error.__cause__, LookupError) and judged.error.session_id == "s"
    assert "no list for s" in judged.error.message
    assert exclusions.judge("s") == dsh.UploadVerdict("unmatched", None)


def test_ctrl_c_in_a_predicate_is_raised_by_the_judgement() -> None:
    exclusions = dsh.UploadExclusions()

    def interrupt(upload: dsh.Upload) -> bool:
        raise KeyboardInterrupt

    with exclusions.register(interrupt), pytest.raises(KeyboardInterrupt):
        exclusions.judge("s")
    assert exclusions.judge("s").verdict == "unmatched"


def test_a_predicate_may_use_the_registry_that_asks_it() -> None:
    exclusions = dsh.UploadExclusions()

    def add_another(upload: dsh.Upload) -> bool:
        exclusions.register(lambda upload: True)
        return False

    subscription = exclusions.register(add_another)
    assert exclusions.judge("s").verdict == "unmatched"
    assert exclusions.judge("s").verdict == "excluded"
    subscription.cancel()


def test_wrong_arguments_of_a_registry_are_refused() -> None:
    exclusions = dsh.UploadExclusions()
    with pytest.raises(dsh.InvalidArgumentError):
        exclusions.register(None)  # type: ignore[arg-type]
    with pytest.raises(dsh.InvalidArgumentError):
        exclusions.judge("\ud800")
    with pytest.raises(TypeError):
        exclusions.judge(1)  # type: ignore[arg-type]


def test_a_registry_says_that_it_was_made_before_a_fork() -> None:
    exclusions = dsh.UploadExclusions()
    child = os.fork()
    if child == 0:
        try:
            exclusions.judge("s")
        except dsh.ForkedProcessError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_watermark_is_the_largest_of_the_sessions_own_records_of_this_format() -> None:
    fold = dsh.DeliveryFold("s")
    assert fold.watermark is None
    current = {"sessionFormatVersion": 4}
    for seen in (delivery(1, "s", 0, **current), delivery(2, "parent", 80, **current), delivery(3, "s", 90)):
        fold.see(seen)
        assert fold.watermark == 0
    fold.see(delivery(20, "s", 15, **current))
    fold.see(delivery(21, "s", 9, **current))
    assert fold.watermark == 15


EVENTS = [event(seq) for seq in range(4)]
ROW = len(EVENTS[0].raw) + 1

Next = Callable[[list[dsh.Event], int | None, int], object]


def next_async(events: list[dsh.Event], watermark: int | None, bytes_max: int) -> object:
    async def walk() -> AsyncIterator[dsh.Event]:
        for one in events:
            yield one

    async def both() -> object:
        walked = await aio.next_upload(walk(), watermark, bytes_max)
        assert walked == await aio.next_upload(events, watermark, bytes_max)
        return walked

    return asyncio.run(both())


@pytest.mark.parametrize("next_upload", [dsh.next_upload, next_async], ids=["sync", "aio"])
@pytest.mark.parametrize(
    ("watermark", "bytes_max", "expected"),
    [
        (None, 8 << 20, dsh.NextUpload(0, 3, ROW * 4)),
        (None, ROW * 2, dsh.NextUpload(0, 1, ROW * 2)),
        (None, ROW * 2 - 1, dsh.NextUpload(0, 0, ROW)),
        (0, ROW * 2, dsh.NextUpload(1, 2, ROW * 2)),
        (2, ROW * 2, dsh.NextUpload(3, 3, ROW)),
        (3, ROW, None),
        (1, ROW - 1, dsh.UploadTooLarge(2, ROW)),
    ],
)
def test_an_upload_takes_what_fits_to_the_byte_and_no_more(
    next_upload: Next, watermark: int | None, bytes_max: int, expected: object
) -> None:
    assert next_upload(EVENTS, watermark, bytes_max) == expected


def test_no_more_events_are_taken_than_fit_and_one() -> None:
    def walk() -> Iterator[dsh.Event]:
        yield from EVENTS[:3]
        raise AssertionError("one too many")

    assert dsh.next_upload(walk(), None, ROW * 2) == dsh.NextUpload(0, 1, ROW * 2)
    with pytest.raises(AssertionError, match="one too many"):
        dsh.next_upload(walk(), None, ROW * 3)
    with pytest.raises(TypeError):
        dsh.next_upload([1])  # type: ignore[list-item]


def test_an_uploader_goes_on_after_its_own_record(store: dsh.Store) -> None:
    with store.create() as session:
        session.append_record(*NOTE)
        first = dsh.next_upload(session.events())
        assert isinstance(first, dsh.NextUpload) and (first.first_seq, first.last_seq) == (0, 0)
        session.append(DELIVERY, {"sessionId": session.id, "sessionFormatVersion": 4, "throughSeq": first.last_seq})
        fold = dsh.DeliveryFold(session.id)
        for seen in session.events():
            fold.see(seen)
        after = dsh.next_upload(session.events(), fold.watermark)
        assert isinstance(after, dsh.NextUpload) and (after.first_seq, after.last_seq) == (1, 1)
        assert after.bytes == len(session.events().next_batch()[1].raw) + 1
