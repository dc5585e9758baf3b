"""Sums an lcov file by the rooms of the core, leaves test code out, and fails where a room is below its aim."""

import pathlib
import sys

LINES_AIM = {"format": 95.0, "persistence": 95.0, "storage": 95.0, "event": 95.0}
TEST_FILES = {"tests.rs", "rule_tests.rs", "laws.rs"}
SOURCES = "core/src/"


def first_test_line(path: str) -> float:
    """Where the tests inside a source file begin: they stand at its end."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    for number, (line, after) in enumerate(zip(lines, lines[1:]), 1):
        if line == "#[cfg(test)]" and after.startswith("mod ") and after.endswith("{"):
            return number
    return float("inf")


def records(lcov: pathlib.Path):
    """Per source file of the core: hits of each line, hits of each branch."""
    path, lines, branches = "", {}, {}
    for entry in lcov.read_text(encoding="utf-8").splitlines():
        kind, _, value = entry.partition(":")
        if kind == "SF":
            path, lines, branches = value, {}, {}
        elif kind == "DA":
            number, hits = value.split(",")[:2]
            lines[int(number)] = lines.get(int(number), 0) + int(hits)
        elif kind == "BRDA":
            number, block, branch, hits = value.split(",")
            taken = 0 if hits == "-" else int(hits)
            branches[int(number), block, branch] = branches.get((int(number), block, branch), 0) + taken
        elif kind == "end_of_record" and SOURCES in path and pathlib.Path(path).name not in TEST_FILES:
            last = first_test_line(path)
            yield (
                path[path.index(SOURCES) + len(SOURCES):],
                {number: hits for number, hits in lines.items() if number < last},
                {branch: hits for branch, hits in branches.items() if branch[0] < last},
            )


def percent(hits: list[int]) -> float:
    return 100.0 * sum(hit > 0 for hit in hits) / len(hits) if hits else 100.0


def main(lcov: str, missing: str) -> int:
    rooms: dict[str, tuple[list[int], list[int]]] = {}
    told = []
    for path, lines, branches in sorted(records(pathlib.Path(lcov)), key=lambda record: record[0]):
        room = rooms.setdefault(path.split("/")[0].removesuffix(".rs"), ([], []))
        room[0].extend(lines.values())
        room[1].extend(branches.values())
        numbers = [str(number) for number, hits in sorted(lines.items()) if not hits]
        told.append(f"{path}: {percent(list(lines.values())):.1f} % of {len(lines)} lines; not covered: {' '.join(numbers) or 'none'}")
    pathlib.Path(missing).write_text("\n".join(told) + "\n", encoding="utf-8")
    is_below = False
    for name, (lines, branches) in sorted(rooms.items()):
        aim = LINES_AIM.get(name)
        below = aim is not None and percent(lines) < aim
        is_below |= below
        verdict = "" if aim is None else f", aim {aim:.0f} %{': BELOW' if below else ''}"
        print(f"coverage {name}: {percent(lines):.1f} % of {len(lines)} lines, {percent(branches):.1f} % of {len(branches)} branches{verdict}")
    return 1 if is_below else 0


sys.exit(main(*sys.argv[1:]))
