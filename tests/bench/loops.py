"""The loops of the border bench in Python: each goes round once for each line on standard input and prints what it measured by a
monotonic clock. ``borders.py`` runs it.

    view ROOT THREADS      seconds for a view of every event, where it lies (Python 3.11 or later)
    read ROOT THREADS      seconds for `raw` of every event, a copy
    data ROOT THREADS      seconds for `data` of every event
    append ROOT BATCHES    seconds for small batches, each flushed
    share ROOT THREADS     what part of its speed a counting thread keeps while another one reads
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import dsh_session as dsh

EVENTS = 40_000


def read(root: str, threads: int) -> None:
    with dsh.Store(root, threads=threads) as store:
        count = size = 0
        for event in store.events("bench"):
            size += len(event.raw)
            count += 1
    assert count == EVENTS


def view(root: str, threads: int) -> None:
    with dsh.Store(root, threads=threads) as store:
        count = size = 0
        for event in store.events("bench"):
            size += len(memoryview(event))
            count += 1
    assert count == EVENTS


def data(root: str, threads: int) -> None:
    with dsh.Store(root, threads=threads) as store:
        assert sum(event.data["ok"] for event in store.events("bench")) == EVENTS


def append(root: str, batches: int) -> float:
    with dsh.Store(root) as store, store.create(cwd="/bench") as session:
        session.flush()
        start = time.perf_counter()
        for step in range(batches):
            session.append("plugin:bench/note", {"step": step, "text": "a small event"})
            session.flush()
        return time.perf_counter() - start


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def counts_a_second(while_busy: Callable[[], object]) -> float:
    """How fast another thread counts while this one does something."""
    stop, count = threading.Event(), 0

    def run() -> None:
        nonlocal count
        while not stop.is_set():
            count += 1

    counter = threading.Thread(target=run)
    counter.start()
    took = seconds(while_busy)
    stop.set()
    counter.join()
    return count / took


def share(root: str, threads: int) -> float:
    alone = counts_a_second(lambda: time.sleep(0.5))
    return counts_a_second(lambda: read(root, threads)) / alone


def main() -> None:
    what, root, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    once: dict[str, Callable[[], float]] = {
        "view": lambda: seconds(lambda: view(root, number)),
        "read": lambda: seconds(lambda: read(root, number)),
        "data": lambda: seconds(lambda: data(root, number)),
        "append": lambda: append(root, number),
        "share": lambda: share(root, number),
    }
    for _ in sys.stdin:
        print(once[what](), flush=True)


if __name__ == "__main__":
    main()
