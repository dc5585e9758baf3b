"""The exact reads: lists, filters, windows, traces, titles, of live sessions and of stored ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import dsh_session as dsh
from dsh_session import aio

TITLE = {"title": "Ledger port", "messageSeqs": [], "source": {"kind": "user"}}


def record(store: dsh.Store) -> None:
    """A session ``s`` with an open turn and a title, closed in the middle of its turn."""
    with store.create(id="s", cwd="/repo") as session:
        session.append("turn/start", {"turn": 1})
        session.append("session/title", TITLE)


def test_a_live_session_is_read_as_it_is_and_a_stored_one_with_its_turn_closed(store: dsh.Store) -> None:
    with store.create(id="s", cwd="/repo") as session:
        session.append("turn/start", {"turn": 1})
        assert [event.type for event in store.read_session("s")["events"]] == ["turn/start"]
        assert [(it["header"]["id"], it["live"]) for it in store.list_sessions()] == [("s", True)]
    read = store.read_session("s")
    assert [event.type for event in read["events"]] == ["turn/start", "turn/end"]
    assert (read["session"]["cwd"], read["inheritedEventCount"]) == ("/repo", 0)
    assert [(it["live"], it["persisted"]) for it in store.list_sessions()] == [(False, True)]
    # In memory only.
    assert [event.type for event in store.events("s")] == ["turn/start"]


def test_filters_pass_what_their_clauses_say(store: dsh.Store) -> None:
    record(store)
    assert len(store.filter_sessions([{"kind": "cwd", "values": ["/repo", None]}])) == 1
    assert store.filter_sessions([{"kind": "cwd", "values": [None]}]) == []
    assert len(store.filter_sessions(b"[]")) == 1
    found = store.filter_events("s", [{"kind": "text", "text": "INTERRUPTED"}, {"kind": "seq", "from": 1.5}])
    assert found == [
        {"sessionId": "s", "seq": 2, "type": "turn/end", "time": found[0]["time"], "surface": "log-only", "text": "interrupted"}
    ]
    assert [it["surface"] for it in store.list_events("s")] == ["log-only"] * 3


WRONG_FILTERS: list[Any] = [{}, 7, None, [None], [{"kind": "colour"}], [{"kind": "seq", "from": float("nan")}], [{"kind": "id", "values": [1]}]]


@pytest.mark.parametrize("filters", WRONG_FILTERS, ids=repr)
def test_what_is_no_filter_is_refused_before_a_session_is_looked_for(store: dsh.Store, filters: Any) -> None:
    with pytest.raises(dsh.SessionQueryInvalidFilterError) as refused:
        store.filter_sessions(filters)
    assert isinstance(refused.value, ValueError)
    with pytest.raises(dsh.SessionQueryInvalidFilterError):
        store.filter_events("nobody", filters)


def test_a_window_holds_the_events_beside_one_and_says_what_is_wrong_with_a_request(store: dsh.Store) -> None:
    record(store)
    window = store.read_event("s", 1, before=50, after=50)
    assert ([event.seq for event in window["events"]], window["startSeq"], window["endSeq"]) == ([0, 1, 2], 0, 2)
    assert window["target"].type == "session/title"
    wrong: list[Any] = [51, -1, 0.5, "1"]
    for count in wrong:
        with pytest.raises(dsh.SessionQueryInvalidWindowError):
            store.read_event("nobody", 1, before=count)
    for seq in (3, -1):
        with pytest.raises(dsh.SessionQueryEventNotFoundError):
            store.read_event("s", seq)
    with pytest.raises(dsh.SessionQuerySessionNotFoundError) as refused:
        store.read_event("nobody", 0)
    assert isinstance(refused.value, LookupError)


def test_traces_surfaces_titles_and_transcripts_are_the_objects_of_the_other_languages(store: dsh.Store) -> None:
    record(store)
    trace = store.trace_event("s", 0)
    assert (trace["target"]["type"], trace["replacementChain"], "replacedBy" in trace) == ("turn/start", [], False)
    surface = store.read_surface("s")
    assert (surface["events"], surface["capturedThroughSeq"]) == ([], 2)
    assert store.read_title("s")["title"]["title"] == "Ledger port"
    titles = store.read_titles(["nobody", "s", "s"])
    assert [(it["sessionId"], it["status"]) for it in titles] == [("nobody", "rejected"), ("s", "fulfilled")]
    assert titles[0]["reason"]["code"] == "SESSION_QUERY_SESSION_NOT_FOUND"
    assert [entry["outcome"] for entry in store.transcript("s")] == ["interrupted"]


def test_a_lineage_may_be_deeper_than_pythons_stack() -> None:
    depth = 3000
    with dsh.Store(None) as store:
        sessions = [store.create(id="s0")]
        sessions += [store.create(id=f"s{n}", parent_session=f"s{n - 1}") for n in range(1, depth)]
        lineage = store.trace_session("s0")
        found = 0
        children = lineage["descendants"]
        while children:
            found += 1
            children = children[0]["descendants"]
        assert (found, lineage["complete"], lineage["root"]["header"]["id"]) == (depth - 1, True, "s0")
        assert len(store.trace_session(f"s{depth - 1}")["ancestors"]) == depth - 1
        with store.create(id="loop", parent_session="loop"), pytest.raises(dsh.SessionQueryInvalidLineageError):
            store.trace_session("loop")


def test_the_asyncio_twin_gives_the_same(root: Path) -> None:
    async def ask() -> list[Any]:
        async with aio.Store(root) as store:
            filters = [{"kind": "text", "text": "interrupted"}]
            pending = store.filter_events("s", filters)
            found = asyncio.ensure_future(pending)
            with pytest.raises(dsh.SessionQueryInvalidFilterError):
                await store.filter_sessions([{"kind": "seq", "from": float("nan")}])
            return [
                await found,
                await store.filter_sessions([{"kind": "id", "values": ["s"]}]),
                await store.list_sessions(),
                await store.trace_session("s"),
                [event.raw for event in (await store.read_session("s"))["events"]],
                await store.list_events("s"),
                (await store.read_surface("s"))["capturedThroughSeq"],
                (await store.read_event("s", 1, after=1))["endSeq"],
                await store.trace_event("s", 1),
                await store.read_title("s"),
                await store.read_titles(["s"]),
                await store.transcript("s"),
            ]

    with dsh.Store(root) as store:
        record(store)
        expected = [
            store.filter_events("s", [{"kind": "text", "text": "interrupted"}]),
            store.filter_sessions([{"kind": "id", "values": ["s"]}]),
            store.list_sessions(),
            store.trace_session("s"),
            [event.raw for event in store.read_session("s")["events"]],
            store.list_events("s"),
            store.read_surface("s")["capturedThroughSeq"],
            store.read_event("s", 1, after=1)["endSeq"],
            store.trace_event("s", 1),
            store.read_title("s"),
            store.read_titles(["s"]),
            store.transcript("s"),
        ]
    assert asyncio.run(ask()) == expected


def test_a_closed_store_answers_no_question(store: dsh.Store) -> None:
    store.close()
    with pytest.raises(dsh.SessionHandleClosedError):
        store.list_sessions()
