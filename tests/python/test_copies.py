"""Copies of a session under another id (P18), as far as whole rows make them: a seeded log that begins with the events of another one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import dsh_session as dsh
from conftest import NOTE


def copy_of(store: dsh.Store, parent: str, child: str, cut: int) -> None:
    """The child begins with the first `cut` events of the parent, byte for byte, then says so."""
    inherited = list(store.events(parent, count=cut))
    assert len(inherited) == cut
    marker = {"type": "session/end-seed", "seq": cut, "time": 5, "data": {"inherited": True}}
    with store.create_log(child, created_at=5, parent_session=parent, is_seeded=True, inherited_event_count=cut) as log:
        log.append([*inherited, marker])


def record(session: dsh.Session, count: int) -> None:
    for step in range(count):
        session.append("plugin:acme/note", {"step": step}, time=1_000 - step)


def is_copy(store: dsh.Store, parent: str, child: str, cut: int) -> None:
    events = list(store.events(child))
    # Each once, in order, with its own time: the rows are those of the parent.
    assert [event.raw for event in events[:cut]] == [event.raw for event in store.events(parent, count=cut)]
    assert len(events) == cut + 1 and events[cut].type == "session/end-seed"
    with store.open_log(child) as log:
        assert log.inherited_event_count() == cut and log.header.parent_session == parent and log.header.is_seeded
    (judged,) = store.verify(child)
    assert judged.outcome == "ok" and judged.inherited_event_count == cut


@pytest.mark.parametrize("cut", [0, 1, 137, 300])
def test_a_copy_has_exactly_the_events_before_its_cut(store: dsh.Store, cut: int) -> None:
    with store.create(id="parent") as session:
        record(session, 300)
    before = [event.raw for event in store.events("parent")]
    copy_of(store, "parent", "child", cut)
    is_copy(store, "parent", "child", cut)
    with store.open_session("child") as session:
        assert session.append(*NOTE).seq == cut + 1
    assert [event.raw for event in store.events("parent")] == before


def test_copies_of_a_session_that_is_being_written_are_prefixes_of_it(root: Path) -> None:
    is_over = threading.Event()
    with dsh.Store(root) as store, store.create(id="parent") as session:
        record(session, 50)
        session.flush()

        def write() -> None:
            while not is_over.is_set():
                record(session, 5)
                session.flush()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(20):
                with store.open_log("parent") as log:
                    cut = log.event_count()
                copy_of(store, "parent", f"child-{number}", cut)
                is_copy(store, "parent", f"child-{number}", cut)
        finally:
            is_over.set()
            writer.join()
    with dsh.Store(root) as store:
        assert {judged.outcome for judged in store.verify()} == {"ok"}


def test_ids_that_are_made_at_the_same_time_never_collide(store: dsh.Store) -> None:
    ids: list[str] = []

    def make() -> None:
        for _ in range(50):
            with store.create() as session:
                ids.append(session.id)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == len(ids) == 200
