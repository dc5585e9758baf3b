"""What a border costs: C and Python against Rust, on the same log in the same run. Only ratios are judged, since machines differ.

    python tests/bench/borders.py RUST-LOOPS C-LOOPS

Each language measures its own loop by a monotonic clock, in a process of its own that stays. The languages take turns, round by round;
what is compared is the median of the ratios of the rounds, so that a moment in which the machine did something else decides nothing.
The aim stands beside each ratio, and a miss is marked.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

ROUNDS = 15
APPEND_ROUNDS = 5
APPEND_BATCHES = 2_000
PYTHON = [sys.executable, str(Path(__file__).with_name("loops.py"))]


class Loop:
    """A process that goes round when told to."""

    def __init__(self, stack: ExitStack, command: list[str], *arguments: object) -> None:
        whole = [*command, *map(str, arguments)]
        self._process = stack.enter_context(subprocess.Popen(whole, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def round(self) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def take_turns(loops: dict[str, Loop], rounds: int) -> dict[str, list[float]]:
    """The seconds of every round; the first one, which brings files and code into memory, is left out."""
    times: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(rounds + 1):
        for name, loop in loops.items():
            time = loop.round()
            if number > 0:
                times[name].append(time)
    return times


def ratio(ours: Iterable[float], theirs: Iterable[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, theirs))


def report(name: str, value: float, note: str, at_most: float | None = None, at_least: float | None = None) -> None:
    is_met = (at_most is None or value <= at_most) and (at_least is None or value >= at_least)
    aim = f" (aim at most {at_most})" if at_most else f" (aim at least {at_least})" if at_least else ""
    print(f"{'ok  ' if is_met else 'MISS'} {name}: {value:.3f}{aim} {note}", flush=True)


def reading(rust: list[str], c: list[str], root: Path, threads: int) -> None:
    with ExitStack() as stack:
        commands = {"Rust": [*rust, "read"], "C views": [*c, "read"], "Python raw": [*PYTHON, "read"], "Python data": [*PYTHON, "data"]}
        if sys.version_info >= (3, 11):
            commands["Python views"] = [*PYTHON, "view"]
        else:
            print("SKIPPED: views of events need Python 3.11")
        times = take_turns({name: Loop(stack, command, root, threads) for name, command in commands.items()}, ROUNDS)
    for name, aim in (("C views", 1.05), ("Python views", 1.5), ("Python raw", 1.5), ("Python data", None)):
        if name not in times:
            continue
        medians = [f"{statistics.median(times[one]) * 1e3:.1f} ms" for one in (name, "Rust")]
        value = ratio(times[name], times["Rust"])
        report(f"read, {name}, threads {threads}", value, f"{medians[0]} / Rust {medians[1]}", at_most=aim)


def appending(rust: list[str], c: list[str], folder: Path) -> None:
    with ExitStack() as stack:
        commands = {"Rust": rust, "C": c, "Python": PYTHON}
        loops = {
            name: Loop(stack, [*command, "append"], folder / f"append-{name}", APPEND_BATCHES) for name, command in commands.items()
        }
        times = take_turns(loops, APPEND_ROUNDS)
    for name in ("C", "Python"):
        each = [f"{statistics.median(times[one]) * 1e6 / APPEND_BATCHES:.1f} us" for one in (name, "Rust")]
        report(f"append+flush, {name}", ratio(times[name], times["Rust"]), f"{each[0]} / Rust {each[1]}, fsync included")


def sharing(root: Path) -> None:
    with ExitStack() as stack:
        shares = take_turns({"Python": Loop(stack, [*PYTHON, "share"], root, 1)}, ROUNDS // 2)["Python"]
    note = f"of its speed alone; {len(os.sched_getaffinity(0))} cores, one of which must be idle"
    report("a counting thread beside a reading one", statistics.median(shares), note, at_least=0.8)


def main() -> None:
    rust, c = ([str(Path(program).absolute())] for program in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "sessions"
        subprocess.run([*rust, "make", str(root)], check=True)
        for threads in (1, 2):
            reading(rust, c, root, threads)
        appending(rust, c, folder)
        sharing(root)


if __name__ == "__main__":
    main()
