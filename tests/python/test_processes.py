"""Processes that fork, end and are interrupted (P08, P13, Ctrl-C): nothing is lost, nothing hangs, nothing is released by the wrong one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import dsh_session as dsh
from conftest import HUNG_AFTER_S, NOTE

RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


def in_child(work: Callable[[], None]) -> int:
    """Runs the work in a forked child and gives its exit status; a child that hangs is killed and counted as failed."""
    child = os.fork()
    if child == 0:
        signal.alarm(HUNG_AFTER_S)
        try:
            work()
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def every_call_is_refused(store: dsh.Store, session: dsh.Session, log: dsh.SessionLog, walk: dsh.EventIterator) -> None:
    calls: list[Callable[[], object]] = [
        lambda: session.append(*NOTE),
        session.flush,
        lambda: session.next_seq,
        lambda: session.pending,
        lambda: session.notices,
        session.events,
        session.close,
        lambda: log.read(0, 1),
        log.event_count,
        log.close,
        lambda: next(walk),
        store.list,
        store.create,
        store.flush,
        store.close,
    ]
    for call in calls:
        with pytest.raises(dsh.ForkedProcessError):
            call()


def test_a_forked_child_is_refused_and_leaves_the_parent_its_session(root: Path) -> None:
    with dsh.Store(root) as store, store.create(id="s1") as session:
        session.append_many([NOTE] * 300)
        session.flush()
        with store.open_log("s1") as log:
            walk = log.events()
            next(walk)
            session.append(*NOTE)

            def child() -> None:
                every_call_is_refused(store, session, log, walk)
                # Still owned: by the parent.
                with dsh.Store(root) as own, pytest.raises(dsh.SessionAlreadyOwnedError):
                    own.open_session("s1")
                with dsh.Store(root) as own, own.create(id="of-the-child") as other:
                    other.append(*NOTE)

            assert in_child(child) == 0
            with dsh.Store(root) as other, pytest.raises(dsh.SessionAlreadyOwnedError):
                other.open_session("s1")
            session.append(*NOTE)
            session.flush()
        assert [event.seq for event in store.events("s1")] == list(range(302))
        assert [record.id for record in store.list()].count("of-the-child") == 1


def test_a_forked_child_that_drops_its_copies_releases_nothing(root: Path) -> None:
    store = dsh.Store(root)
    session = store.create(id="s1")
    session.append(*NOTE)
    session.flush()
    handles: list[object] = [session, store.open_log("s1"), store]

    def child() -> None:
        import gc

        nonlocal session, store
        del session, store
        handles.clear()
        gc.collect()

    assert in_child(child) == 0
    with dsh.Store(root) as other, pytest.raises(dsh.SessionAlreadyOwnedError):
        other.open_session("s1")
    session.append(*NOTE)
    session.close()
    assert len(list(store.events("s1"))) == 2
    handles.clear()
    store.close()


def test_forking_while_other_threads_are_inside_the_library_never_deadlocks(root: Path) -> None:
    is_over = threading.Event()
    with dsh.Store(root) as store, store.create(id="s1") as session:
        session.append(*NOTE)
        session.flush()

        def work() -> None:
            while not is_over.is_set():
                session.append(*NOTE)
                session.flush()
                list(store.events("s1", newest=10))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(15):

                def child() -> None:
                    with pytest.raises(dsh.ForkedProcessError):
                        session.append(*NOTE)
                    with pytest.raises(dsh.ForkedProcessError):
                        session.close()
                    with dsh.Store(root) as own:
                        assert own.stat("s1") is not None

                assert in_child(child) == 0
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        count = session.next_seq
    with dsh.Store(root) as store:
        assert [event.seq for event in store.events("s1")] == list(range(count))


FORGOTTEN = {
    "dropped": "del session, store",
    "left to the interpreter": "",
    "dropped by an exception": "raise KeyError('the script fails')",
    "left by sys.exit": "import sys; sys.exit(3)",
    "kept in a module": "import json; json.kept = session",
    "kept in a cycle": "class Node: pass\nnode = Node(); node.itself = node; node.session = session; del session, node",
    "with a thread in the background": (
        "import threading\nthreading.Thread(target=lambda: [session.flush() for _ in range(20)]).start()"
    ),
    "in asyncio": "import asyncio\nfrom dsh_session import aio\nasyncio.run(aio.Session(session).flush())",
}


@pytest.mark.parametrize("ending", FORGOTTEN.values(), ids=FORGOTTEN.keys())
def test_what_was_accepted_survives_a_forgotten_close(root: Path, run_python: RunPython, ending: str) -> None:
    script = "import sys, dsh_session as dsh\nstore = dsh.Store(sys.argv[1])\nsession = store.create(id='s1')\n"
    script += "session.append('plugin:acme/note', {'turn': 1})\n" + ending + "\n"
    done = run_python(script, root, options=("-X", "dev"))
    assert done.returncode in (0, 1, 3), done.stderr
    assert "panicked" not in done.stderr and "Fatal" not in done.stderr, done.stderr
    with dsh.Store(root) as store, store.open_session("s1") as session:
        assert session.next_seq == 1, done.stderr
    if ending.startswith("del"):
        assert "ResourceWarning: unclosed session" in done.stderr


# What a thread may be doing in the library when the interpreter ends. Each goes on for ever and counts its rounds.
INSIDE = {
    "appending and flushing": "session.append('plugin:acme/note', {}); session.flush(); tell(session.next_seq)",
    "reading": "list(store.events('big'))",
    "checking": "log.check()",
    "listing": "store.list()",
    "verifying with progress": "store.verify(progress=lambda progress: None)",
    "opening and dropping": "store.open_log('big')",
    "taking views": "views = [memoryview(event) if buffers else event.raw for event in store.events('big', newest=50)]",
    "waiting in asyncio": "asyncio.run(aio.SessionLog(log).check())",
}

# Ways for the main thread to end while they are inside.
ENDINGS = {"falls off its end": "", "leaves by sys.exit": "sys.exit()", "fails": "raise KeyError('the script fails')"}

FINALIZATION = """
import asyncio, os, sys, threading, dsh_session as dsh
from dsh_session import aio

store = dsh.Store(sys.argv[1])
session = store.create(id="s1")
log = store.open_log("big")
buffers = sys.version_info >= (3, 11)
rounds = [0, 0, 0]
has_begun = threading.Barrier(len(rounds) + 1)

def tell(next_seq):
    os.write(1, b"%d\\n" % next_seq)

def work(index):
    while True:
        {inside}
        rounds[index] += 1
        if rounds[index] == 3:
            has_begun.wait()

class Last:
    # Collected while the interpreter is taken down: the library lets go of the interpreter here, so a thread whose call ends meanwhile
    # tries to come back to an interpreter that is no more.
    def __del__(self, log=log, os=os, is_finalizing=sys.is_finalizing):
        for _ in range(20):
            assert log.event_count() == 500
        os.write(2, b"finalizing: %d\\n" % is_finalizing())

# Not among the names of the script, which the threads keep alive: modules are emptied.
threading.last = Last()
for index in range(len(rounds)):
    threading.Thread(target=work, args=(index,), daemon=True).start()
has_begun.wait()
{ending}
"""


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
@pytest.mark.parametrize("inside", INSIDE.values(), ids=INSIDE.keys())
def test_threads_inside_the_library_neither_crash_nor_hold_an_interpreter_that_ends(
    root: Path, run_python: RunPython, inside: str, ending: str
) -> None:
    with dsh.Store(root) as store, store.create(id="big") as session:
        session.append_many([("plugin:acme/note", "x" * 2_000)] * 500)
    script = FINALIZATION.replace("{inside}", inside).replace("{ending}", ending)
    for _ in range(2):
        # `run_python` fails if the process hangs.
        done = run_python(script, root)
        assert done.returncode == ("KeyError" in ending), (done.returncode, done.stderr)
        for word in ("panicked", "Fatal", "fatal", "terminate called"):
            assert word not in done.stderr, done.stderr
        assert "finalizing: 1\n" in done.stderr, done.stderr
        acknowledged = max(map(int, done.stdout.split()), default=0)
        with dsh.Store(root) as store:
            if store.stat("s1") is not None:
                # Owned by nobody, and what a flush told of is there.
                with store.open_session("s1") as session:
                    assert session.next_seq >= acknowledged
                store.remove("s1")
            else:
                assert acknowledged == 0


@pytest.mark.filterwarnings("always::ResourceWarning")
def test_a_forgotten_handle_is_told_once_and_a_closed_one_never(root: Path, recwarn: pytest.WarningsRecorder) -> None:
    with dsh.Store(root) as store:
        session = store.create(id="s1")
        session.append(*NOTE)
        del session
        assert ["s1" in str(warning.message) for warning in recwarn.list] == [True]
        recwarn.clear()
        with store.open_session("s1") as session:
            assert session.next_seq == 1
        log = store.open_log("s1")
        log.close()
        del session, log
        assert recwarn.list == []


def interrupted(script: str, *arguments: object) -> tuple[str, float]:
    """Runs a script, interrupts it once it says "now", and gives its output and how long it went on, in seconds."""
    child = subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line == "now\n", line + child.stdout.read()
    child.send_signal(signal.SIGINT)
    began = time.monotonic()
    rest = child.communicate(timeout=HUNG_AFTER_S)[0]
    return rest, time.monotonic() - began


def test_ctrl_c_stops_a_long_read_and_the_program_goes_on(root: Path) -> None:
    with dsh.Store(root) as store, store.create(id="s1") as session:
        for _ in range(8):
            session.append_many([("plugin:acme/note", "x" * 100_000)] * 80)
        session.flush()
    rest, _ = interrupted(
        """
        import sys, dsh_session as dsh
        with dsh.Store(sys.argv[1]) as store, store.open_log("s1") as log:
            rounds = 0
            try:
                print("now")
                while True:
                    log.check()
                    rounds += 1
            except KeyboardInterrupt:
                print("interrupted")
            print(log.event_count())
            with store.open_session("s1") as session:
                session.append("plugin:acme/note", {})
                print(session.next_seq)
        """,
        root,
    )
    assert rest.splitlines() == ["interrupted", "640", "641"], rest


def test_ctrl_c_does_not_wait_for_a_read_of_a_huge_row(root: Path) -> None:
    with dsh.Store(root) as store, store.create(id="s1") as session:
        session.append("plugin:acme/note", b'"' + b"x" * (64 << 20) + b'"')
    rest, _ = interrupted(
        """
        import sys, signal, time, dsh_session as dsh
        with dsh.Store(sys.argv[1]) as store:
            began = time.monotonic()
            whole = 0.0
            for _ in store.events("s1"):
                whole = time.monotonic() - began
            came = []
            def handler(number, frame):
                came.append(time.monotonic())
                raise KeyboardInterrupt
            signal.signal(signal.SIGINT, handler)
            try:
                print("now")
                while True:
                    for _ in store.events("s1"):
                        pass
            except KeyboardInterrupt:
                late = time.monotonic() - came[0]
            # Relative: what is left of a read is not waited for.
            print("at once" if late < whole / 2 else f"{late} of {whole}")
            print(store.stat("s1").id)
        """,
        root,
    )
    assert rest.splitlines() == ["at once", "s1"], rest


def test_ctrl_c_in_a_flush_waits_for_its_outcome(root: Path) -> None:
    rest, _ = interrupted(
        """
        import sys, dsh_session as dsh
        store = dsh.Store(sys.argv[1])
        session = store.create(id="s1")
        try:
            print("now")
            while True:
                session.append("plugin:acme/note", {})
                session.flush()
        except KeyboardInterrupt:
            pass
        accepted = session.next_seq
        session.append("plugin:acme/note", {})
        session.close()
        print(accepted + 1 == len(list(store.events("s1"))))
        """,
        root,
    )
    assert rest.splitlines() == ["True"], rest
