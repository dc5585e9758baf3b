"""What a root says about itself: judgements, salvage, raw rows, figures, removal."""

from __future__ import annotations

import asyncio
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import dsh_session as dsh
from conftest import NOTE
from dsh_session import aio

CASES = Path(__file__).parents[1] / "cases"
EXPECTED: dict[str, dict[str, dict[str, Any]]] = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))

# The cases whose verdict belongs to files and frames alone; those of relationships and older formats are judged elsewhere.
NUMBERS = {f"{number:02}" for number in (*range(0, 7), *range(8, 19), 26, *range(28, 38), 39, 40, 41, 45)}
CASE_NAMES = [name for name in EXPECTED if name[:2] in NUMBERS and (CASES / name).is_dir()]

# A GiB of text as one row says nothing that the others do not.
JUDGED_ONLY = "27-zstd-1GiB-from-a-small-file"

# The names of `expected.json` where they differ from those of a `Verification`.
NAMES = {"recovered_from_torn_frame": "recovered", "salvage_events": "salvageable", "inherited": "inherited_event_count"}
FIGURES = ["keep_bytes", *NAMES, "event_type", "line", "frame", "offset", "at", "expected", "got", "version", "seq"]

# The members of `verify --json` that a `Verification` has under another name.
MEMBERS = {
    "inheritedEventCount": "inherited_event_count",
    "keepBytes": "keep_bytes",
    "cutBytes": "cut_bytes",
    "cutRows": "cut_rows",
    "type": "event_type",
}


def the_verdict_on(root: Path, log: str, judgements: list[dsh.Verification]) -> dsh.Verification:
    folder = (root / log).parent
    (judged,) = [judged for judged in judgements if judged.path is not None and judged.path.is_relative_to(folder)]
    return judged


@pytest.mark.parametrize("case", CASE_NAMES)
def test_the_case_roots_give_the_same_verdict_through_python(case: str) -> None:
    with dsh.Store(CASES / case) as store:
        judgements = store.verify()
    for log, figures in EXPECTED[case].items():
        judged = the_verdict_on(CASES / case, log, judgements)
        outcomes = {"ok", "limit"} if figures["outcome"] == "ok-or-limit" else {figures["outcome"]}
        assert judged.outcome in outcomes, (log, judged)
        if judged.outcome in ("ok", "torn-tail"):
            assert judged.events == figures.get("events", judged.events), (log, judged)
        for name in FIGURES:
            # The line of a limit, where there may be one, is no figure of a log that is read.
            if name in figures and (judged.outcome != "ok" or name == "inherited"):
                found = getattr(judged, NAMES.get(name, name))
                assert (int(found) if name == "version" else found) == figures[name], (log, name, judged)
        assert (judged.error is None) == (judged.outcome in ("ok", "torn-tail"))


def test_the_limit_case_gives_the_same_verdict_through_python() -> None:
    with dsh.Store(CASES / JUDGED_ONLY, row_bytes_max=1 << 20) as store:
        (judged,) = store.verify("s")
        assert (judged.outcome, judged.limit, judged.salvageable) == ("limit", "row_bytes_max", 16)
        assert len(list(store.salvage("s"))) == 16


def as_json(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    return [as_json(member) for member in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("case", CASE_NAMES)
def test_a_verification_has_every_member_of_its_json(case: str) -> None:
    with dsh.Store(CASES / case) as store:
        judgements = store.verify()
    for judged in judgements:
        for key, value in json.loads(judged.to_json()).items():
            found = as_json(getattr(judged, MEMBERS.get(key, key)))
            assert found == (str(value) if key == "version" else value), (key, judged)
        if judged.error is not None:
            assert json.loads(judged.error.to_json())["code"] == judged.error.code
            assert json.loads(judged.error.to_json())["message"] == judged.message


@pytest.mark.parametrize("case", [name for name in EXPECTED if (CASES / name).is_dir()])
def test_rows_and_salvage_of_damaged_files_never_raise_and_agree(case: str) -> None:
    with dsh.Store(CASES / case, row_bytes_max=1 << 20) as store:
        for log, figures in EXPECTED[case].items():
            id = log.split("/")[1]
            if figures["outcome"] == "conflict":
                with pytest.raises(dsh.SessionConflictError):
                    store.rows(id)
                continue
            rows = list(store.rows(id))
            assert all(json.loads(row.to_json())["text"] == row.text for row in rows)
            if figures["outcome"] == "unsupported":
                continue
            salvage = store.salvage(id)
            events = [event.row for event in salvage]
            assert events == [row.text for row in rows if row.is_event][: len(events)], log
            (judged,) = store.verify(id)
            assert (salvage.damage is None) == (judged.error is None), log
            if salvage.damage is not None:
                assert salvage.damage.code == judged.error.code  # type: ignore[union-attr]
                assert salvage.damage.salvageable in (None, len(events)), log


def test_salvage_of_everything_gives_rows_after_the_damage() -> None:
    with dsh.Store(CASES / "31-zstd-damaged-complete-frame") as store:
        events = list(store.salvage("bad-checksum"))
        parts = list(store.salvage("bad-checksum", all=True))
        whole = list(store.salvage("bad-checksum", all=False))
    assert parts[: len(events)] == events == whole
    after = [part for part in parts[len(events) :] if isinstance(part, dsh.RawRow)]
    assert len(after) == len(parts) - len(events) > 0
    assert all(row.is_event for row in after) and after[-1].seq == 15


def test_progress_is_told_after_each_judgement(files: dsh.Store) -> None:
    for number in range(3):
        with files.create(id=f"s{number}") as session:
            session.append(*NOTE)
    told: list[dsh.Progress] = []
    judgements = files.verify(progress=told.append)
    assert [judged.id for judged in judgements] == ["s0", "s1", "s2"]
    assert [(one.sessions_done, one.sessions) for one in told] == [(1, 3), (2, 3), (3, 3)]
    assert told[-1].bytes_done == told[-1].bytes > 0

    class Enough(Exception):
        pass

    def stop(progress: dsh.Progress) -> None:
        raise Enough

    with pytest.raises(Enough):
        files.verify(progress=stop)


def test_stats_count_what_was_appended(store: dsh.Store) -> None:
    for id in ("a", "b"):
        with store.create(id=id) as session:
            session.append_many([NOTE, NOTE, ("turn/start", {"turn": 1})])
    one, both = store.stats("a"), store.stats()
    assert (one.sessions, both.sessions, both.unreadable) == (1, 2, 0)
    assert (one.events, both.events) == (3, 6)
    assert dict(both.events_by_type) == {NOTE[0]: 4, "turn/start": 2}
    assert len(both.largest_rows) == 5 and both.largest_rows[0].bytes >= both.largest_rows[4].bytes
    assert both.tokens is None and both.first_time is not None
    told = json.loads(both.to_json())
    assert told["eventsByType"] == both.events_by_type and told["textBytes"] == both.text_bytes
    assert pickle.loads(pickle.dumps([one, both])) == [one, both] and hash(one) != hash(both)


def test_a_store_without_files_is_judged_and_read_alike(store: dsh.Store) -> None:
    with store.create(id="s1") as session:
        session.append_many([NOTE] * 600)
    (judged,) = store.verify()
    assert (judged.id, judged.outcome, judged.events, judged.inherited_event_count) == ("s1", "ok", 600, 0)
    rows = list(store.rows("s1"))
    assert [row.line for row in rows] == list(range(1, 602)) and rows[0].type == "session"
    assert [row.seq for row in rows[1:]] == [event.seq for event in store.salvage("s1")]
    assert pickle.loads(pickle.dumps([judged, rows])) == [judged, rows]


def test_a_removed_session_is_gone_or_in_the_trash(root: Path, store: dsh.Store) -> None:
    for id in ("gone", "moved", "open"):
        with store.create(id=id) as session:
            session.append(*NOTE)
    with store.open_session("open"), pytest.raises(dsh.SessionAlreadyOwnedError):
        store.remove("open")
    assert store.remove("gone") is None
    moved = store.remove("moved", trash=True)
    if store.root is not None:
        assert moved is not None and moved.is_dir() and root not in moved.parents
    assert [record.id for record in store.list()] == ["open"]
    for call in (store.remove, store.stats, store.verify, store.salvage, store.rows):
        with pytest.raises(dsh.SessionPersistenceNotFoundError):
            call("gone")


def test_a_closed_store_answers_nothing(root: Path) -> None:
    store = dsh.Store(root)
    store.close()
    for call in (store.remove, store.stats, store.verify, store.salvage, store.rows):
        with pytest.raises(dsh.SessionHandleClosedError):
            call("s1")


def test_the_asyncio_twin_answers_alike(root: Path) -> None:
    async def main() -> None:
        async with aio.Store(CASES / "31-zstd-damaged-complete-frame") as store:
            told: list[dsh.Progress] = []
            judgements = await store.verify(progress=told.append)
            with dsh.Store(CASES / "31-zstd-damaged-complete-frame") as other:
                assert judgements == other.verify()
                assert [row async for row in store.rows("bad-checksum")] == list(other.rows("bad-checksum"))
                parts = [part async for part in store.salvage("bad-checksum", all=True)]
                assert parts == list(other.salvage("bad-checksum", all=True))
            assert len(told) == len(judgements)
            salvage = store.salvage("bad-checksum")
            assert salvage.damage is None
            assert len(await salvage.next_batch()) == 4 and await salvage.next_batch() == []
            assert isinstance(salvage.damage, dsh.SessionPersistenceCorruptionError)
        async with aio.Store(root) as store:
            async with await store.create(id="s1") as session:
                await session.append(*NOTE)
            assert (await store.stats()).events == 1
            assert await store.remove("s1") is None
            with pytest.raises(dsh.SessionPersistenceNotFoundError):
                await store.verify("s1")

    asyncio.run(main())
