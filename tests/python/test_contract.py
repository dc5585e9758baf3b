"""The persistence contract as Python sees it, for files and for memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dsh_session as dsh
from conftest import NOTE


def row(seq: int) -> dict[str, Any]:
    return {"type": "plugin:acme/note", "seq": seq, "time": 1, "data": {"n": 1}, "ignorable": True}


def test_a_log_takes_whole_rows_in_every_form(store: dsh.Store) -> None:
    with store.create_log("s1", created_at=1) as log:
        assert (log.id, log.access, log.event_count()) == ("s1", "write", 0)
        text = '{"type":"plugin:acme/note","seq":%d,"time":1,"data":{"n":1},"ignorable":true}'
        log.append([row(0), text % 1, (text % 2).encode(), dsh.Event.from_row(row(3))])
        assert log.event_count() == 4
        log.append([])
        assert [event.seq for event in log.read(1, 2)] == [1, 2]
        assert log.read(4, 10) == []
        assert [event.row for event in log.events()] == [text % seq for seq in range(4)]
        assert log.inherited_event_count() == 0
    with store.open_log("s1") as log:
        assert log.access == "read" and log.check().event_count == 4
        assert log.header == dsh.SessionHeader("s1", 1, delegation_depth=log.header.delegation_depth)


def test_a_batch_that_does_not_continue_the_log_leaves_nothing(store: dsh.Store) -> None:
    with store.create_log("s1", created_at=1) as log:
        log.append([row(0)])
        for batch in ([row(2)], [row(1), row(3)], [row(0)]):
            with pytest.raises(dsh.InvalidArgumentError):
                log.append(batch)
        assert log.event_count() == 1
        with pytest.raises(dsh.InvalidArgumentError) as refused:
            log.append([row(1), "{}"])
        assert refused.value.index == 1
        log.append([row(1)])
    assert len(list(store.events("s1"))) == 2


def test_there_is_one_writer_and_any_number_of_readers(store: dsh.Store) -> None:
    with store.create_log("s1", created_at=1) as writer:
        writer.append([row(0)])
        with pytest.raises(dsh.SessionAlreadyOwnedError):
            store.open_log("s1", "write")
        with store.open_log("s1") as one, store.open_log("s1") as two:
            writer.append([row(1)])
            assert [log.event_count() for log in (one, two)] == [2, 2]
            with pytest.raises(dsh.SessionReadOnlyError):
                one.append([row(2)])
    with store.open_log("s1", "write") as writer:
        assert writer.event_count() == 2


def test_every_call_on_a_closed_handle_says_so(store: dsh.Store) -> None:
    log = store.create_log("s1", created_at=1)
    log.append([row(0)])
    log.close()
    log.close()
    assert log.closed and "closed" in repr(log)
    for call in (lambda: log.append([row(1)]), log.flush, log.event_count, lambda: log.read(0, 1), log.check):
        with pytest.raises(dsh.SessionHandleClosedError):
            call()
    session = store.open_session("s1")
    session.close()
    session.close()
    assert session.closed and "closed" in repr(session)
    for other in (lambda: session.append(*NOTE), session.flush, session.events):
        with pytest.raises(dsh.SessionHandleClosedError):
            other()
    assert session.id == "s1" and session.next_seq == 1, "what is known stays known"


def test_closing_a_store_closes_what_was_opened_from_it(root: Path) -> None:
    store = dsh.Store(root)
    session = store.create(id="s1")
    session.append(*NOTE)
    log = store.open_log("s1") if store.stat("s1") else None
    store.close()
    store.close()
    with pytest.raises(dsh.SessionHandleClosedError):
        session.append(*NOTE)
    with pytest.raises(dsh.SessionHandleClosedError):
        store.create()
    with dsh.Store(root) as again, again.open_session("s1") as session_again:
        assert session_again.next_seq == 1, "closing wrote what waited"
    del log


def test_a_torn_tail_is_told_as_a_notice(root: Path) -> None:
    with dsh.Store(root, encoding="none") as store:
        with store.create(id="s1") as session:
            session.append_many([NOTE] * 2)
            session.flush()
            record = store.stat("s1")
        assert record is not None and record.path is not None
        record.path.write_bytes(record.path.read_bytes() + b'{"type":"turn/sta')
        with store.open_log("s1") as log:
            torn = log.check().torn
            assert torn is not None and torn.cut_bytes == 17
        with store.open_session("s1") as session:
            (notice,) = session.notices
            assert notice["kind"] == "torn-tail" and notice["cutBytes"] == 17


@pytest.mark.parametrize(
    "wrong",
    [{"id": ""}, {"id": "\ud800"}, {"cwd": "relative"}, {"created_at": 2**60}, {"origin": "nobody"}, {"delegation_depth": -1}],
)
def test_a_header_that_no_file_could_hold_is_refused(store: dsh.Store, wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, OverflowError)):
        store.create(**wrong)


def test_settings_are_checked(root: Path) -> None:
    with pytest.raises(dsh.InvalidArgumentError):
        dsh.Store(root, encoding="gzip")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        dsh.Store(root, colour="red")  # type: ignore[call-arg]
    with dsh.Store(root) as store, pytest.raises(dsh.InvalidArgumentError):
        store.open_log("s1", "append")  # type: ignore[arg-type]
