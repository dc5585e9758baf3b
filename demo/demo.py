"""A program records an agent session and is killed in the middle; nothing it had flushed is lost.

Takes a session that the original program wrote, lets a writer process append its events one by one with a flush every ten, kills it
with SIGKILL at a random moment, opens the log again, compares what was promised with what is there, goes on, and at the end reads the
whole session back, through Python and through C, and compares it with the original.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dsh_session as dsh

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
ORIGINAL_ROOT = PROJECT / "tests/fixtures/peer/v4-agent-multi-turn/root"
SESSION = "session-dev-multi-turn"
FLUSH_EVERY = 10
KILLS = 3
# The writer gets its events as an agent would produce them, some milliseconds apart; the demo is not a test of speed.
PAUSE_SECONDS = 0.004


def say(text: str = "") -> None:
    print(text, flush=True)


class Writer:
    """The writer process: the command line's `append`, fed through a pipe."""

    def __init__(self, program: Path, root: Path, create: bool) -> None:
        command = [program, "--root", root, "--json", "append", SESSION, "--flush-every", str(FLUSH_EVERY)]
        if create:
            command += ["--create", "--cwd", "/home/user/project"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def feed(self, rows: list[str], kill_after: int | None) -> None:
        """Writes rows one by one; the process dies while it works on the one after `kill_after`."""
        assert self.process.stdin
        try:
            for count, row in enumerate(rows):
                if count == kill_after:
                    time.sleep(random.random() * PAUSE_SECONDS)
                    self.process.send_signal(signal.SIGKILL)
                    break
                self.process.stdin.write(row + "\n")
                self.process.stdin.flush()
                time.sleep(PAUSE_SECONDS)
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def promised(self) -> int:
        """How many events the writer said were on the disk, by what it printed before it died."""
        assert self.process.stdout
        answers = [json.loads(line) for line in self.process.stdout if line.endswith("\n")]
        self.process.wait()
        return max((answer["flushed"] + 1 for answer in answers if "flushed" in answer), default=0)


def stored_events(root: Path) -> list[dsh.Event]:
    with dsh.Store(root) as store:
        try:
            return list(store.events(SESSION))
        except dsh.SessionPersistenceNotFoundError:
            return []


def record(program: Path, root: Path, rows: list[str]) -> None:
    for round_number in range(1, KILLS + 1):
        before = len(stored_events(root))
        rest = rows[before:]
        kill_after = random.randrange(1, max(2, len(rest)))
        writer = Writer(program, root, create=before == 0)
        writer.feed(rest, kill_after)
        promised = max(before, writer.promised())
        there = len(stored_events(root))
        say(f"{round_number}. The writer got {kill_after} more events and was killed (SIGKILL, signal {-writer.process.returncode}).")
        say(f"   Promised before it died: {promised} events. Found in the log: {there}.")
        if there < promised:
            sys.exit(f"LOST: {promised - there} events that were promised are not there")
        if values([event.row for event in stored_events(root)]) != values(rows[:there]):
            sys.exit("DAMAGED: what is there is not a prefix of what was sent")
        say("   Everything promised is there, in order, and nothing else.")
    before = len(stored_events(root))
    say(f"{KILLS + 1}. A last writer goes on at event {before} and is left alone.")
    writer = Writer(program, root, create=before == 0)
    writer.feed(rows[before:], None)
    writer.promised()
    if writer.process.returncode != 0:
        sys.exit(f"the writer ended with {writer.process.returncode}")


def values(rows: list[str]) -> list[object]:
    return [json.loads(row) for row in rows]


def main() -> None:
    program = PROJECT / "target/release/dsh-session"
    seed = int(os.environ.get("DSH_SEED", random.randrange(1 << 32)))
    random.seed(seed)
    with dsh.Store(ORIGINAL_ROOT) as store:
        original = [event.row for event in store.events(SESSION)]
    say(f"A session of a real agent run: {len(original)} events, in the project's own fixtures. Seed {seed}.")
    say(f"A writer process appends them one by one and flushes every {FLUSH_EVERY}. It will be killed {KILLS} times.")
    say()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "sessions"
        record(program, root, original)
        say()
        through_python = [event.row for event in stored_events(root)]
        compare("Python", through_python, original)
        reader = subprocess.run([PROJECT / "build/demo-read", root, SESSION], check=True, capture_output=True, text=True)
        with dsh.Store(ORIGINAL_ROOT) as store:
            logical = [event.logical_row for event in store.events(SESSION)]
        compare("C", reader.stdout.splitlines(), logical)
    say("Done: a process that is killed loses nothing that it had flushed.")


def compare(language: str, got: list[str], original: list[str]) -> None:
    if values(got) != values(original):
        sys.exit(f"DIFFERENT: read through {language}, the session is not the original")
    same = sum(one == other for one, other in zip(got, original))
    say(f"Read back through {language}: {len(got)} events, equal to the original ({same} of them byte for byte).")


if __name__ == "__main__":
    main()
