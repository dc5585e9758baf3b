"""The first path: create, append, flush, reopen, read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

import pytest

import dsh_session as dsh
from conftest import NOTE


def test_what_was_flushed_is_read_by_another_store(root: Path) -> None:
    with dsh.Store(root) as store, store.create(id="s1", cwd="/repo") as session:
        session.append("turn/start", {"turn": 1})
        session.append_line('{"type":"plugin:acme/note","data":{"text":"é"}}')
        session.flush()
        with dsh.Store(root) as other:
            events = list(other.events("s1"))
    assert [(event.seq, event.type, event.data) for event in events] == [
        (0, "turn/start", {"turn": 1}),
        (1, "plugin:acme/note", {"text": "é"}),
    ]
    assert [event.ignorable for event in events] == [False, True]


def test_a_reopened_session_goes_on_where_its_log_ends(store: dsh.Store) -> None:
    with store.create(id="s1") as session:
        session.append(*NOTE)
    with store.open_session("s1") as session:
        assert session.next_seq == 1
        assert session.append(*NOTE).seq == 1
        assert session.id == "s1"
        assert session.header.id == "s1"
    assert [event.seq for event in store.events("s1")] == [0, 1]


def test_accepted_events_are_seen_in_the_session_before_they_are_written(store: dsh.Store) -> None:
    with store.create() as session:
        session.append_many([NOTE] * 3)
        assert session.pending.events == 3
        assert [event.seq for event in session.events(from_seq=1)] == [1, 2]
        assert [event.seq for event in session.events(newest=1)] == [2]
        session.flush()
        assert session.pending == dsh.Pending(events=0, bytes=0)
        assert [event.seq for event in session.events(from_seq=1, count=1)] == [1]


def test_a_batch_with_a_refused_member_leaves_nothing(store: dsh.Store) -> None:
    with store.create() as session:
        with pytest.raises(dsh.EventRefusedError) as refused:
            session.append_many([NOTE, ("no/such-type", {})])
        assert refused.value.index == 1
        assert session.next_seq == 0
        with pytest.raises(dsh.NotLosslessJsonError) as refused_json:
            session.append_many([NOTE, NOTE, ("plugin:acme/note", float("nan"))])
        assert refused_json.value.index == 2
        assert session.next_seq == 0


def message(number: int) -> dict[str, object]:
    content = [{"type": "text", "text": "hello"}]
    return {"id": f"m{number}", "role": "user", "content": content, "source": {"kind": "user"}}


def test_surface_sources_and_time_are_stored_as_given(store: dsh.Store) -> None:
    with store.create() as session:
        first = session.append("user/message", message(1), surface="append", time=7)
        second = session.append("user/message", message(2), surface=dsh.Replace(0, 0), sources=[0], time=8)
        third = session.append("user/message", message(3), surface=(1, 1), sources=[0, 1], time=9)
        for wrong in ("replace", (1,), (1, 2, 3), (-1, 2), 5):
            with pytest.raises(dsh.InvalidArgumentError):
                session.append("user/message", message(4), surface=wrong)  # type: ignore[arg-type]
    assert (first.surface_op, first.source_event_seqs, first.time) == ("append", None, 7)
    assert (second.surface_op, second.source_event_seqs, second.time) == (dsh.Replace(0, 0), [0], 8)
    assert third.surface_op == (1, 1)
    assert list(store.events(session.id)) == [first, second, third]
    stored = json.loads(second.raw)
    assert stored["surfaceOp"] == {"op": "replace", "startSeq": 0, "endSeq": 0}


def test_events_may_be_given_in_every_form(store: dsh.Store) -> None:
    line = '{"type":"plugin:acme/note","data":{"turn":1},"time":5}'
    with store.create() as session:
        events = session.append_many([json.loads(line), line, line.encode(), bytearray(line.encode())])
        events.append(session.append("plugin:acme/note", b'{ "turn" : 1 }', time=5))
    assert {event.row.replace(f'"seq":{event.seq}', "") for event in events} == {
        '{"type":"plugin:acme/note",,"time":5,"data":{"turn":1},"ignorable":true}'
    }


def test_a_listing_names_sessions_and_problems(root: Path, files: dsh.Store) -> None:
    files.create(id="s1", cwd=Path("/repo"), created_at=1).close()
    assert len(files.list()) == 0, "a session that was never written has never existed"
    for number in (1, 2):
        with files.create(id=f"s{number}", cwd="/repo", created_at=number) as session:
            session.append(*NOTE)
    (root / "stray.jsonl").write_text("nothing\n")
    listing = files.list()
    assert [record.id for record in listing] == ["s2", "s1"]
    assert listing[0].header.cwd == "/repo"
    assert listing[0].size_bytes == os.path.getsize(listing[0].path or "")
    assert listing[1:] == listing.sessions[1:]
    for problem in listing.problems:
        assert problem.code == problem.error.code
        assert isinstance(problem.error, dsh.DshError)


def test_stat_knows_a_session_and_its_absence(store: dsh.Store) -> None:
    assert store.stat("s1") is None
    with store.create(id="s1", agent_preset="minimal", parent_session="s0") as session:
        session.append(*NOTE)
    record = store.stat("s1")
    assert record is not None
    assert (record.header.agent_preset, record.header.parent_session) == ("minimal", "s0")
    assert record.format_status == "current"


@pytest.mark.parametrize("encoding", ["zstd", "none"])
def test_new_sessions_take_the_encoding_that_was_asked_for(root: Path, encoding: Literal["zstd", "none"]) -> None:
    with dsh.Store(root, encoding=encoding) as store, store.create(id="s1") as session:
        session.append(*NOTE)
        session.flush()
        record = store.stat("s1")
    assert record is not None and record.path is not None
    assert record.path.name == "session.v4.jsonl" + (".zstd" if encoding == "zstd" else "")
    # Left unset, a store follows the root.
    with dsh.Store(root) as store, store.create(id="s2") as session:
        session.append(*NOTE)
        session.flush()
        second = store.stat("s2")
    assert second is not None and second.path is not None and second.path.name == record.path.name


def test_flushing_the_store_writes_what_waits_in_every_session(store: dsh.Store) -> None:
    with store.create(id="a") as one, store.create(id="b") as other:
        for session in (one, other):
            session.append_many([NOTE] * 3)
        store.flush()
        assert one.pending.events == other.pending.events == 0
        assert [len(list(store.events(id))) for id in ("a", "b")] == [3, 3]
