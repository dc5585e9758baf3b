"""The session model from Python: the vectors of its rules, live sessions, forks, and callables on them."""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

import dsh_session as dsh
from conftest import NOTE

VECTORS = Path(__file__).parents[1] / "vectors"
TURN = ("turn/start", {"turn": 1})
END = ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})


def hello(id: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "content": [], "source": {"kind": "user"}}


def cases(suite: str) -> list[Any]:
    found: list[Any] = json.loads((VECTORS / f"session-{suite}.json").read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id=case["id"]) for case in found]


def code(error: dsh.DshError) -> str | None:
    """The code that the vectors know a refusal by."""
    if error.code in ("EVENT_REFUSED", "SESSION_REFUSED"):
        return error.rule
    # A text that is no JSON at all cannot come back equal from it either.
    return "NOT_LOSSLESS_JSON" if error.code == "INVALID_ARGUMENT" else error.code


def observed(session: dsh.Session) -> dict[str, Any]:
    surface = session.surface
    return {
        "seq": session.next_seq,
        "nodes": surface.nodes,
        "replaceGeneration": surface.replace_generation,
        "contentGeneration": surface.content_generation,
        "derived": [message.data for message in session.messages()],
    }


@pytest.mark.parametrize("case", cases("append"))
def test_appends_are_accepted_and_refused_as_the_vectors_say(case: Any) -> None:
    with dsh.Store(checks_stored_rules=False) as store, store.create(id="s") as session:
        for step in case["steps"]:
            before, inputs = observed(session), step["inputs"]
            try:
                if step["call"] == "append-batch":
                    events = session.append_many(inputs)
                else:
                    events = [session.append_line(json.dumps(inputs[0]))]
                outcome: dict[str, Any] = {"committed": [event.seq for event in events]}
            except dsh.DshError as error:
                outcome = {"refused": code(error)}
                assert observed(session) == before
            assert outcome == step["expect"]
        assert observed(session) == case["after"]


@pytest.mark.parametrize("case", cases("surface"))
def test_free_folds_are_those_of_the_vectors(case: Any) -> None:
    try:
        folded = dsh.fold_surface(case["events"], base_seq=case["baseSeq"])
        outcome: dict[str, Any] = {
            "nodes": list(folded.nodes),
            "replacements": [
                {"seq": one.seq, "start": one.start_seq, "end": one.end_seq, "shadowedSeqs": list(one.shadowed_seqs)}
                for one in folded.replacements
            ],
            "replaceGeneration": folded.replace_generation,
            "contentGeneration": folded.content_generation,
            "derivedIds": [message.id for message in folded.messages],
        }
    except dsh.DshError as error:
        outcome = {"refused": code(error), "atIndex": error.index}
    assert {key: outcome[key] for key in case["expect"]} == case["expect"]


@pytest.mark.parametrize("case", cases("closers"))
def test_closers_are_those_of_the_vectors(case: Any) -> None:
    closers = dsh.closers(case["events"], case["cause"])
    assert [json.loads(event.logical_row) for event in closers] == case["expect"]


@pytest.mark.parametrize("case", cases("folds"))
def test_folds_are_those_of_the_vectors(case: Any) -> None:
    folds = dsh.fold(case["events"])
    by_name = {
        "requestHeader": folds.request_header,
        "requestContext": folds.request_context,
        "toolHistory": folds.tool_history,
        "title": folds.title,
    }
    assert by_name[case["fold"]] == case["expect"]


@pytest.mark.parametrize("case", [case for case in cases("fork") if case.values[0].get("source", {}).get("events")])
def test_forks_are_those_of_the_vectors(case: Any) -> None:
    rows = case["source"]["events"]
    try:
        seed, inherited = dsh.fork_seed(rows, case.get("boundary", len(rows) - 1))
    except dsh.DshError as error:
        assert {"refused": code(error)} == case["expect"]
        return
    expected = case["expect"]
    assert inherited == expected["inheritedEventCount"]
    with dsh.Store(checks_stored_rules=False) as store:
        with store.create(id="kid", seed=seed, inherited_event_count=inherited) as child:
            assert [json.loads(event.row) for event in child.events(from_seq=inherited)] == expected["suffix"]
            assert [message.id for message in child.messages()] == expected["derivedIds"]
            assert child.inherited_event_count == inherited
            assert (child.first_live_seq, child.first_lifecycle_seq) == (
                expected["firstLiveSeq"],
                expected["firstLifecycleSeq"],
            )


def test_an_interrupted_turn_is_closed_by_resume_and_goes_on_after_open_session(store: dsh.Store) -> None:
    with store.create(id="s") as session:
        session.append(*TURN)
        assert [event.type for event in session.closers()] == ["turn/end"]
    with store.open_session("s") as session:
        assert session.next_seq == 1
        session.append("step/start", {"turn": 1, "step": 1})
    with store.resume("s") as session:
        kinds = [event.type for event in session.events(from_seq=2)]
        assert kinds[-1] == "session/end-seed" and "turn/end" in kinds
        assert session.closers() == [] and session.event_at(99) is None
        last = session.event_at(session.next_seq - 1)
        assert last is not None and last.type == "session/end-seed"
    with pytest.raises(dsh.SessionPersistenceNotFoundError):
        store.resume("nobody")


def test_a_fork_begins_with_the_events_of_its_source_live_or_stored(store: dsh.Store) -> None:
    with store.create(id="s", cwd="/repo") as session:
        session.append_many([TURN, END, ("turn/start", {"turn": 2})])
        with store.fork("s") as child:
            assert [event.type for event in child.events()] == ["turn/start", "turn/end", "session/end-seed"]
            assert child.header.cwd == "/repo" and child.header.is_seeded and child.header.id != "s"
    with store.fork("s", 2, id="kid", cwd="/other", parent_session="s") as child:
        assert (child.id, child.header.cwd, child.header.parent_session) == ("kid", "/other", "s")
        assert child.inherited_event_count == 3 and child.closers() == []
    assert [event.seq for event in store.events("kid")] == [0, 1, 2, 3, 4]
    with pytest.raises(dsh.ForkUnavailableError):
        store.fork("s", at=3)


def test_a_seed_that_breaks_a_rule_is_refused_with_its_place(store: dsh.Store) -> None:
    rows = [{"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}]
    with store.create(id="s", seed=rows) as session:
        assert (session.first_live_seq, session.next_seq) == (1, 2)
    with pytest.raises(dsh.SessionRefusedError) as refused:
        store.create(id="t", seed=[*rows, {"type": "turn/end", "seq": 5, "time": 1, "data": {}}])
    assert (refused.value.rule, refused.value.index) == ("SEQ_NOT_CONTIGUOUS", 1)
    assert store.stat("t") is None


def test_what_is_live_is_found_as_a_view_that_keeps_nothing_open(store: dsh.Store) -> None:
    with store.create(id="s") as session:
        view = store.get("s")
        assert view is not None and store.live_ids() == ["s"]
        view.append(*TURN)
        assert session.next_seq == 1 and view.write_state == "live"
        del view
        assert session.append(*END).seq == 1
        view = store.get("s")
    assert store.get("s") is None and store.live_ids() == []
    assert view is not None and view.write_state == "removed"
    with pytest.raises(dsh.SessionHandleClosedError):
        view.append(*NOTE)


def test_what_the_model_sees_follows_the_session(store: dsh.Store) -> None:
    with store.create() as session:
        surface = session.surface
        first = session.append("user/message", hello("m1"), surface="append")
        second = session.append("user/message", hello("m2"), surface="append")
        third = session.append("user/message", hello("m3"), surface=(first.seq, second.seq), sources=[0, 1])
        assert surface.nodes == [third.seq] and surface.events == [third]
        assert (surface.replace_generation, surface.content_generation) == (1, 1)
        (message,) = session.messages()
        assert message == session.message_of(2) and hash(message) == hash(session.message_of(2))
        assert (message.seq, message.id, message.data, json.loads(message.raw)) == (2, "m3", hello("m3"), hello("m3"))
        assert message.data is message.data and message.raw == message.data_json.encode()
        assert [event.seq for event in session.transcript()] == [0, 1]
        assert session.message_of(99) is None
        session.append("session/title", {"title": "Work", "messageSeqs": [], "source": {"kind": "user"}})
        title = session.title
        assert title is not None and (title["title"], title["eventSeq"]) == ("Work", 3)
        assert session.request_header is None and session.request_context is None
        assert session.tool_history == {"tools": [], "updates": []}


def test_a_plugin_record_may_hold_any_value(store: dsh.Store) -> None:
    with store.create() as session:
        event = session.append_record("plugin:acme/state", 7)
        assert event.ignorable and event.data == 7
        with pytest.raises(dsh.EventRefusedError) as refused:
            session.append_record("acme", 7)
        assert refused.value.rule == "PLUGIN_RECORD_TYPE_INVALID"


def test_registered_types_are_known_to_their_store(root: Path) -> None:
    with dsh.Store(root, event_types={"acme/usage": False}) as store, store.create(id="s") as session:
        session.append("acme/usage", {"tokens": 1})
    with dsh.Store(root) as store, pytest.raises(dsh.SessionFormatUnsupportedError):
        list(store.events("s"))


def test_listeners_see_each_member_with_the_whole_batch_committed(store: dsh.Store) -> None:
    seen: list[tuple[Any, ...]] = []

    def listener(session: dsh.Session, event: dsh.Event) -> None:
        seen.append((session.id, event.seq, session.next_seq, session.current_batch_publication, threading.get_ident()))

    subscription = store.on_event(listener)
    me = threading.get_ident()
    with store.create(id="s") as session:
        one, two = session.append_many([NOTE, NOTE])
        session.append(*NOTE)
        subscription.cancel()
        subscription.cancel()
        session.append(*NOTE)
    assert seen == [("s", 0, 2, one, me), ("s", 1, 2, two, me), ("s", 2, 3, None, me)]


def test_a_failing_listener_is_logged_and_changes_nothing(store: dsh.Store, caplog: pytest.LogCaptureFixture) -> None:
    def fails(session: dsh.Session, event: dsh.Event) -> None:
        raise LookupError("the listener's own")

    def fails_at_the_end(session: dsh.Session) -> None:
        raise LookupError("at the end")

    later: list[int] = []
    store.on_event(fails)
    store.on_event(lambda session, event: later.append(event.seq))
    store.on_disposed(fails_at_the_end)
    with caplog.at_level(logging.ERROR, "dsh_session"), store.create() as session:
        assert session.append(*NOTE).seq == 0
        session.close()
    assert later == [0]
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["the listener's own", "at the end"]


def test_a_validator_refuses_with_its_exception_as_the_cause(store: dsh.Store) -> None:
    reason = RuntimeError("not this one")

    def validator(session: dsh.Session, event: dsh.Event) -> None:
        if event.seq == 1:
            raise reason

    with store.add_validator(validator), store.create() as session:
        with pytest.raises(dsh.EventRefusedError) as refused:
            session.append_many([NOTE, NOTE])
        assert (refused.value.rule, refused.value.index) == ("DISPATCH_REJECTED", 1)
        assert refused.value.__cause__ is reason and session.next_seq == 0
        session.append(*NOTE)
    with store.create() as session:
        session.append_many([NOTE, NOTE])


def test_a_creation_listener_refuses_with_its_exception_as_the_cause(store: dsh.Store) -> None:
    reason = RuntimeError("no")
    states: list[str | None] = []

    def listener(session: dsh.Session) -> None:
        states.append(session.write_state)
        with pytest.raises(dsh.EventRefusedError) as refused:
            session.append(*NOTE)
        states.append(refused.value.rule)
        raise reason

    gone: list[str] = []
    store.on_disposed(lambda session: gone.append(session.id))
    with store.on_created(listener), pytest.raises(dsh.SessionRefusedError) as refused:
        store.create(id="s")
    assert refused.value.__cause__ is reason and refused.value.session_id == "s"
    assert states == ["announcing", "WRITE_NOT_PUBLISHED"] and gone == ["s"] and store.live_ids() == []
    store.create(id="s2").close()
    assert gone == ["s", "s2"]


def test_a_failing_flush_listener_fails_the_flush(store: dsh.Store) -> None:
    reason, threads = OSError(28, "full"), []

    def listener(session: dsh.Session) -> None:
        threads.append(threading.get_ident())
        assert session.pending.events == 0
        raise reason

    with store.create() as session:
        session.append(*NOTE)
        with store.on_flush(listener), pytest.raises(dsh.FlushFailedError) as failed:
            session.flush()
        assert failed.value.__cause__ is reason and threads == [threading.get_ident()]
        session.flush()


def test_a_projection_changes_earlier_messages(root: Path) -> None:
    seen: list[Any] = []

    def tag(event: dsh.Event, context: dsh.ProjectionContext) -> dict[int, Any]:
        first = context.event(0)
        assert first is not None and context.event(1) is None and context.message(1) is None
        seen.append((context.nodes, context.base_seq, context.is_on_surface(0), first.type))
        if event.data.get("fail"):
            raise LookupError("no tag")
        return {seq: {**message.data, "tag": event.data["tag"]} for seq in context.nodes if (message := context.message(seq))}

    with dsh.Store(root, event_types={"acme/tag": True}) as store, store.create(id="s") as session:
        session.append("user/message", hello("m1"), surface="append")
        with pytest.raises(dsh.EventRefusedError) as refused:
            session.append("acme/tag", {"tag": 1})
        assert refused.value.rule == "PROJECTION_MISSING"
        registered = store.register_projection("acme/tag", tag)
        with pytest.raises(dsh.EventRefusedError) as refused:
            session.append("acme/tag", {"fail": True})
        assert refused.value.rule == "PROJECTION_REJECTED" and session.next_seq == 1
        assert isinstance(refused.value.__cause__, LookupError)
        session.append("acme/tag", {"tag": "new"})
        assert session.messages()[0].data["tag"] == "new" and session.surface.content_generation == 1
        with pytest.raises(dsh.SessionRefusedError) as twice:
            store.register_projection("acme/tag", tag)
        assert twice.value.rule == "PROJECTION_ALREADY_REGISTERED"
        registered.cancel()
        with pytest.raises(dsh.EventRefusedError) as refused:
            session.messages()
        assert refused.value.rule == "PROJECTION_REMOVED"
    assert seen[0] == ([0], 0, True, "user/message")


@pytest.mark.parametrize("answer", [7, [3], [(0, "no message")], {"0": {}}, [(0, {"id": "another"})]])
def test_what_is_no_decision_refuses(answer: Any) -> None:
    with dsh.Store(event_types={"acme/tag": True}) as store, store.create() as session:
        store.register_projection("acme/tag", lambda event, context: answer)
        session.append("user/message", hello("m1"), surface="append")
        with pytest.raises(dsh.EventRefusedError) as refused:
            session.append("acme/tag", {})
        assert refused.value.rule == "PROJECTION_REJECTED" and session.next_seq == 1


def test_what_cannot_be_called_cannot_be_registered(store: dsh.Store) -> None:
    for register in (store.on_event, store.on_created, store.on_disposed, store.on_flush, store.add_validator):
        with pytest.raises(dsh.InvalidArgumentError):
            register(7)  # type: ignore[arg-type]


def test_a_listener_may_use_other_sessions_but_not_append_to_its_own(store: dsh.Store) -> None:
    refusals: list[str | None] = []
    with store.create(id="other") as other, store.create(id="s") as session:

        def listener(seen: dsh.Session, event: dsh.Event) -> None:
            if seen.id != "s":
                return
            other.append("plugin:acme/seen", event.seq)
            other.flush()
            # Would wait for ever, were it done by another thread than this one.
            with store.create(id=f"made-{event.seq}") as made:
                made.append(*NOTE)
            with pytest.raises(dsh.EventRefusedError) as refused:
                seen.append(*NOTE)
            refusals.append(refused.value.rule)

        store.on_event(listener)
        session.append_many([NOTE, NOTE])
        assert [event.data for event in other.events()] == [0, 1]
    assert refusals == ["APPEND_REENTRANT", "APPEND_REENTRANT"]
    assert sorted(record.id for record in store.list()) == ["made-0", "made-1", "other", "s"]


def test_other_threads_run_and_append_while_a_listener_is_called(store: dsh.Store) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def listener(session: dsh.Session, event: dsh.Event) -> None:
        if event.seq == 0:
            begun.set()
            assert go_on.wait(60)

    store.on_event(listener)
    with store.create() as session, store.create() as other:
        appending = threading.Thread(target=session.append, args=NOTE)
        appending.start()
        assert begun.wait(60)
        # The gate of the store is taken, the interpreter is not: this one waits without its lock.
        waiting = threading.Thread(target=other.append, args=NOTE)
        waiting.start()
        assert session.next_seq == 1 and [event.seq for event in session.events()] == [0]
        go_on.set()
        for thread in (appending, waiting):
            thread.join(60)
            assert not thread.is_alive()
        assert other.next_seq == 1


def test_threads_that_append_lose_no_call_of_a_listener(store: dsh.Store) -> None:
    seen: list[tuple[str, int]] = []
    store.on_event(lambda session, event: seen.append((session.id, event.seq)))
    with store.create(id="a") as a, store.create(id="b") as b:
        threads = [
            threading.Thread(target=lambda session=session: [session.append(*NOTE) for _ in range(100)])
            for session in (a, b, a, b)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for id in ("a", "b"):
        assert [seq for seen_id, seq in seen if seen_id == id] == list(range(200))


def test_ctrl_c_in_a_listener_is_raised_by_the_append_which_is_committed(store: dsh.Store) -> None:
    store.on_event(lambda session, event: signal.raise_signal(signal.SIGINT))
    with store.create() as session:
        with pytest.raises(KeyboardInterrupt):
            session.append(*NOTE)
        assert session.next_seq == 1


def test_ctrl_c_in_a_creation_listener_leaves_no_session(store: dsh.Store) -> None:
    def listener(session: dsh.Session) -> None:
        raise KeyboardInterrupt

    with store.on_created(listener), pytest.raises(KeyboardInterrupt):
        store.create(id="s")
    assert store.live_ids() == []
    store.create(id="s").close()


def test_a_closed_store_forgets_its_listeners() -> None:
    import gc
    import weakref

    class Watcher:
        def __call__(self, session: dsh.Session, event: dsh.Event) -> None: ...

    watcher = Watcher()
    gone = weakref.ref(watcher)
    with dsh.Store() as store:
        store.on_event(watcher)
        store.create().close()
    del watcher
    gc.collect()
    assert gone() is None
    with pytest.raises(dsh.SessionHandleClosedError):
        store.on_event(print)


RunPython = Callable[..., CompletedProcess[str]]


def test_a_failed_write_in_the_background_is_logged(run_python: RunPython, root: Path) -> None:
    done = run_python(
        """
        import logging, os, sys, threading
        import dsh_session as dsh

        told = threading.Event()
        class Tell(logging.Handler):
            def emit(self, record):
                print(record.name, threading.current_thread() is threading.main_thread())
                told.set()
        logging.getLogger("dsh_session").addHandler(Tell())
        root = sys.argv[1]
        with open(root, "w"):
            pass
        os.remove(root)
        with dsh.Store(root) as store:
            session = store.create()
            session.append("plugin:acme/note", 1)
            # What should be a folder is a file by the time the event is written.
            with open(root, "w"):
                pass
            assert told.wait(60)
            try:
                session.close()
            except OSError:
                pass
        """,
        root,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "dsh_session False"


def test_a_listener_that_never_returns_keeps_no_interpreter_from_ending(run_python: RunPython, root: Path) -> None:
    done = run_python(
        """
        import atexit, sys, threading

        held = []
        # Runs after the library's own exit hook, which is registered later: a session that is collected while the interpreter ends.
        atexit.register(held.clear)
        import dsh_session as dsh

        begun = threading.Event()
        def listener(session, event):
            begun.set()
            threading.Event().wait()
        store = dsh.Store(sys.argv[1])
        held.append(store.create(id="s"))
        held[0].append("plugin:acme/note", 1)
        store.on_event(listener)
        # It is stopped inside the listener, with the gate of the store.
        threading.Thread(target=store.get("s").append, args=("plugin:acme/note", 2), daemon=True).start()
        begun.wait()
        """,
        root,
    )
    assert done.returncode == 0, done.stderr
    with dsh.Store(root) as store:
        assert [event.data for event in store.events("s")] == [1, 2]


def test_a_forgotten_store_ends_while_its_thread_logs(run_python: RunPython, root: Path) -> None:
    done = run_python(
        """
        import logging, sys, threading
        import dsh_session as dsh

        inside = threading.Event()
        class Slow(logging.Handler):
            def emit(self, record):
                inside.set()
                for _ in range(200_000):
                    pass
        logging.getLogger("dsh_session").addHandler(Slow())
        store = dsh.Store(sys.argv[1])
        session = store.create()
        session.append("plugin:acme/note", 1)
        with open(sys.argv[1], "w"):
            pass
        inside.wait()
        try:
            session.close()
        except OSError:
            pass
        del session, store
        print("ended")
        """,
        root,
    )
    assert done.returncode == 0 and done.stdout == "ended\n", done.stderr
