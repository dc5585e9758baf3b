"""What a border costs: C and Python against Rust, on the same log in the same run. Only ratios are judged, since machines differ.

    python tests/bench/borders.py RUST-LOOPS C-LOOPS

Each language measures its own loop by a monotonic clock. The languages take turns, round by round, each round in a process of its own;
the medians of some rounds are compared. The aim stands beside each ratio, and a miss is marked.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 7
APPEND_ROUNDS = 3
APPEND_BATCHES = 2_000
PYTHON = [sys.executable, str(Path(__file__).with_name("loops.py"))]


def run(command: list[str], *arguments: object) -> float:
    done = subprocess.run([*command, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def report(name: str, ratio: float, note: str, at_most: float | None = None, at_least: float | None = None) -> None:
    is_met = (at_most is None or ratio <= at_most) and (at_least is None or ratio >= at_least)
    aim = f" (aim at most {at_most})" if at_most else f" (aim at least {at_least})" if at_least else ""
    print(f"{'ok  ' if is_met else 'MISS'} {name}: {ratio:.3f}{aim} {note}", flush=True)


def reading(loops: dict[str, list[str]], root: Path, threads: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(ROUNDS):
        for name, loop in loops.items():
            times[name].append(run(loop, root, threads))
    medians = {name: statistics.median(values) for name, values in times.items()}
    rust = medians["rust"]
    for name, aim in (("C views", 1.05), ("Python raw", 1.5), ("Python data", None)):
        note = f"{medians[name] * 1e3:.1f} ms / Rust {rust * 1e3:.1f} ms"
        report(f"read, {name}, threads {threads}", medians[name] / rust, note, at_most=aim)


def appending(loops: dict[str, list[str]], folder: Path) -> None:
    times: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(APPEND_ROUNDS):
        for name, loop in loops.items():
            times[name].append(run(loop, folder / f"append-{name}-{number}", APPEND_BATCHES))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name in ("C", "Python"):
        each = [f"{medians[one] * 1e6 / APPEND_BATCHES:.1f} us" for one in (name, "rust")]
        report(f"append+flush, {name}", medians[name] / medians["rust"], f"{each[0]} / Rust {each[1]}, fsync included")


def main() -> None:
    rust, c = ([str(Path(program).absolute())] for program in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "sessions"
        subprocess.run([*rust, "make", str(root)], check=True)
        reads = {"rust": [*rust, "read"], "C views": [*c, "read"], "Python raw": [*PYTHON, "read"], "Python data": [*PYTHON, "data"]}
        for threads in (1, 2):
            reading(reads, root, threads)
        appending({"rust": [*rust, "append"], "C": [*c, "append"], "Python": [*PYTHON, "append"]}, folder)
        cores = len(os.sched_getaffinity(0))
        shares = [run(PYTHON, "share", root, 1) for _ in range(ROUNDS)]
        note = f"of its speed alone, median of {ROUNDS}; {cores} cores, one of them must be idle"
        report("a counting thread beside a reading one", statistics.median(shares), note, at_least=0.8)


if __name__ == "__main__":
    main()
