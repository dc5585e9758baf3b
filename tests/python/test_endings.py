"""Programs that end in a hurry (P24): Ctrl-C, exceptions, exits and SIGTERM, with a batch that waits to be written.

Whatever ends a program: the log opens and goes on without anybody's help, and holds everything that was flushed and nothing but a
beginning of what was sent. Where Python still runs its own ending, everything that was accepted is there.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import dsh_session as dsh
from conftest import HUNG_AFTER_S

CHILD = """
import asyncio, os, signal, sys, threading, dsh_session as dsh
from dsh_session import aio

def tell(word, count):
    os.write(1, f"{word} {count}\\n".encode())

def note(seq):
    return "plugin:acme/note", {"n": seq}

def next_batch(session):
    return [note(session.next_seq + index) for index in range(3)]

def work(session, rounds=None):
    '''Appends for ever, or for some rounds; at the end some events wait that were not flushed.'''
    session.append("turn/start", {"turn": 1})
    done = 0
    while rounds is None or done < rounds:
        session.append_many(next_batch(session))
        session.append(*note(session.next_seq))
        session.flush()
        tell("flushed", session.next_seq)
        session.append_many(next_batch(session))
        session.append(*note(session.next_seq))
        done += 1
    tell("accepted", session.next_seq)

def work_until_interrupted(session):
    try:
        work(session)
    finally:
        tell("accepted", session.next_seq)

async def work_in_asyncio(root):
    async with aio.Store(root) as store:
        async with await store.create(id="s1") as session:
            try:
                await session.append("turn/start", {"turn": 1})
                while True:
                    await session.append_many(next_batch(session))
                    await session.flush()
                    tell("flushed", session.next_seq)
                    await session.append(*note(session.next_seq))
            finally:
                tell("accepted", session.next_seq)

root = sys.argv[1]
"""

OPEN = "store = dsh.Store(root)\nsession = store.create(id='s1')\n"
WITH = "with dsh.Store(root) as store, store.create(id='s1') as session:\n"
FAIL = "raise KeyError('the program fails')"
ON_SIGTERM = "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(5))\n"


@dataclass(frozen=True)
class Ending:
    """How a program ends."""

    script: str
    code: int
    """What it ends with; the number of a signal, negative."""
    is_drained: bool = True
    """Whether Python runs its ending, and so all that was accepted is there."""
    sent: signal.Signals | None = None
    """What it is sent once it has flushed a few times."""


ENDINGS = {
    "Ctrl-C in a block": Ending(WITH + "    work_until_interrupted(session)", -signal.SIGINT, sent=signal.SIGINT),
    "Ctrl-C without a block": Ending(OPEN + "work_until_interrupted(session)", -signal.SIGINT, sent=signal.SIGINT),
    "Ctrl-C in asyncio": Ending("asyncio.run(work_in_asyncio(root))", -signal.SIGINT, sent=signal.SIGINT),
    "an exception in a block": Ending(WITH + "    work(session, 3)\n    " + FAIL, 1),
    "an exception without a block": Ending(OPEN + "work(session, 3)\n" + FAIL, 1),
    "an exception from a function that held all": Ending(
        f"def main():\n    store = dsh.Store(root)\n    session = store.create(id='s1')\n    work(session, 3)\n    {FAIL}\nmain()", 1
    ),
    "sys.exit in a block": Ending(WITH + "    work(session, 3)\n    sys.exit(3)", 3),
    "sys.exit without a block": Ending(OPEN + "work(session, 3)\nsys.exit(3)", 3),
    "the end of the script": Ending(OPEN + "work(session, 3)", 0),
    "os._exit in a block": Ending(WITH + "    work(session, 3)\n    os._exit(4)", 4, is_drained=False),
    "os._exit without a block": Ending(OPEN + "work(session, 3)\nos._exit(4)", 4, is_drained=False),
    "os._exit while another thread appends": Ending(
        OPEN + "threading.Thread(target=work, args=(session,), daemon=True).start()\n"
        "while session.next_seq < 200:\n    session.flush()\nos._exit(4)",
        4,
        is_drained=False,
    ),
    "SIGTERM as Python leaves it": Ending(WITH + "    work(session)", -signal.SIGTERM, False, signal.SIGTERM),
    "SIGTERM with a handler that exits": Ending(
        ON_SIGTERM + WITH + "    work_until_interrupted(session)", 5, sent=signal.SIGTERM
    ),
    "SIGTERM with a handler that exits, without a block": Ending(
        ON_SIGTERM + OPEN + "work_until_interrupted(session)", 5, sent=signal.SIGTERM
    ),
}

# After which flush the signal is sent: the first one, and once there are frames behind it.
ROUNDS = (1, 20)


def run_to_its_end(root: Path, ending: Ending, rounds: int) -> list[str]:
    """Runs the program, ends it, and gives what it said."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD + ending.script, str(root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    said = []
    if ending.sent is not None:
        said = [child.stdout.readline().strip() for _ in range(rounds)]
        child.send_signal(ending.sent)
    rest, errors = child.communicate(timeout=HUNG_AFTER_S)
    assert child.returncode == ending.code, errors
    assert "panicked" not in errors and "Fatal" not in errors, errors
    return said + rest.splitlines()


def last(said: list[str], word: str) -> int | None:
    counts = [int(line.split()[1]) for line in said if line.startswith(word + " ")]
    return max(counts, default=None)


def assert_is_a_beginning_of_what_was_sent(events: list[dsh.Event]) -> None:
    assert [event.seq for event in events] == list(range(len(events)))
    assert events[0].type == "turn/start"
    for event in events[1:]:
        assert (event.type, event.data) == ("plugin:acme/note", {"n": event.seq})


@pytest.mark.parametrize(
    ("name", "rounds"), [(name, rounds) for name in ENDINGS for rounds in (ROUNDS if ENDINGS[name].sent else ROUNDS[:1])]
)
def test_a_program_that_ends_in_a_hurry_keeps_what_it_flushed(root: Path, name: str, rounds: int) -> None:
    ending = ENDINGS[name]
    said = run_to_its_end(root, ending, rounds)
    flushed, accepted = last(said, "flushed"), last(said, "accepted")
    assert flushed is not None and flushed > 1, said
    with dsh.Store(root) as store:
        events = list(store.events("s1"))
        assert_is_a_beginning_of_what_was_sent(events)
        assert len(events) >= flushed
        if accepted is not None:
            assert len(events) <= accepted
        if ending.is_drained:
            assert len(events) == accepted
        # The next program takes it up as it is.
        with store.resume("s1") as session:
            session.append("plugin:acme/note", {"n": session.next_seq})
            session.flush()
        after = list(store.events("s1"))
        assert after[: len(events)] == events
        assert [event.type for event in after[len(events) :]] == ["turn/end", "session/end-seed", "plugin:acme/note"]
        assert [judged.outcome for judged in store.verify("s1")] == ["ok"]
