"""Makes the seeds of the fuzz targets (fuzz/seeds) from the cases and vectors in tests/. Run again when those change."""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
SEED_BYTES_MAX = 3500
LOGS_PER_CASE_MAX = 2
ZSTD, HEADER, TEXT, CUT, ZEROS, SEEDED, BY_SESSION = (1 << bit for bit in range(7))


def put(target: str, name: str, content: bytes) -> None:
    if len(content) <= SEED_BYTES_MAX:
        folder = HERE / "seeds" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def logs():
    seen = {}
    for path in sorted(TESTS.glob("cases/*/**/session.v4.jsonl*")):
        if path.is_file():
            case = path.relative_to(TESTS / "cases").parts
            seen[case[0]] = seen.get(case[0], 0) + 1
            if seen[case[0]] > LOGS_PER_CASE_MAX:
                continue
            yield f"{case[0]}-{case[-2]}"[:60], path.suffix == ".zstd", path.read_bytes()


def vectors(name: str):
    return json.loads((TESTS / "vectors" / f"{name}.json").read_text(encoding="utf-8"))


def text(value: str) -> bytes:
    return value.encode("utf-8", errors="surrogatepass")


def sequences() -> dict[str, bytes]:
    """Calls as `fuzz/src/calls.rs` reads them: operation, slot, arguments, and a byte that asks for the error object."""
    open_store = bytes([0, 0, 0, 0, 0, 0, 1])
    create = bytes([8, 0, 0, 0, 1])
    append = bytes([10, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 0, 1])
    turn = bytes([10, 0, 2, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 0, 1])
    rows = bytes([12, 0, 2, 1])
    flush = bytes([13, 0, 1])
    events = bytes([14, 0, 0, 0, 255, 0, 1])
    take = bytes([22, 0, 1])
    keep = bytes([25, 0, 0, 1])
    batch = bytes([24, 0, 3, 1])
    close = bytes([15, 0, 0, 1])
    reopen = bytes([9, 0, 0, 0, 1])
    open_log = bytes([16, 0, 0, 0, 1, 1])
    log_rows = bytes([18, 0, 1, 1])
    salvage = bytes([6, 0, 0, 1, 1, 1])
    verify = bytes([6, 0, 3, 0, 0, 1, 0, 1])
    stats = bytes([6, 0, 3, 0, 3, 1])
    show_rows = bytes([6, 0, 0, 0, 2, 1])
    lines = bytes([28, 0]) + bytes([1]) * 20
    recorded = open_store + create + turn + append + rows + flush
    return {
        "record": recorded + events + take * 3 + keep + batch + close,
        "reopen": recorded + close + reopen + append + flush + bytes([15, 0, 5, 1]) + close,
        "log": recorded + close + open_log + log_rows + bytes([21, 0, 6, 1, 21, 0, 5, 1]) + bytes([20, 0, 0, 0, 9, 1, 1]) + batch,
        "owned": recorded + open_log + bytes([8, 1, 0, 0, 1]) + close + open_log,
        "look": recorded + bytes([3, 0, 0, 0, 1]) + lines + bytes([2, 0, 0, 1]) + verify + lines + stats + show_rows + lines,
        "salvage": recorded + salvage + bytes([22, 1, 1]) * 9 + bytes([26, 1, 1, 27, 1, 1, 28, 1, 1]),
        "free-store-first": recorded + events + take + bytes([30, 0, 0]) + take + bytes([30, 1, 0]) + take + keep,
        "close-store-first": recorded + bytes([7, 0, 0, 1]) + append + flush + create,
        "remove": recorded + bytes([4, 0, 0, 0, 1]) + close + bytes([4, 0, 0, 1, 1]) + create + flush,
        "cancelled": open_store + bytes([29, 0, 1, 29, 1]) + create + append + flush + open_log + bytes([30, 5, 0]) + flush,
        "null": append + rows + flush + events + take + batch + close + open_log + verify + stats + lines,
    }


def main() -> None:
    # What fuzzing found is kept.
    for old in (HERE / "seeds").glob("*/*"):
        if not old.name.startswith("found-"):
            old.unlink()
    rows, headers = {}, {}
    for number, (name, is_zstd, content) in enumerate(logs()):
        put("files", name, bytes([ZSTD if is_zstd else 0, 0]) + content)
        if is_zstd:
            put("frames", name, content)
            continue
        header, _, rest = content.partition(b"\n")
        headers.setdefault(header, name)
        if number % 3 == 0:
            put("files", f"{name}-framed", bytes([ZSTD | TEXT, 0]) + header + b"\n\x1e" + rest)
        elif number % 3 == 1:
            put("files", f"{name}-torn", bytes([ZSTD | TEXT | HEADER | CUT | BY_SESSION, 5]) + rest)
        else:
            put("files", f"{name}-zeros", bytes([HEADER | CUT | ZEROS, 9]) + rest)
        for row in rest.splitlines():
            kind = row.partition(b'"type":"')[2].partition(b'"')[0]
            rows.setdefault(kind, row)
    turn = b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}\n'
    marker = b'{"type":"session/end-seed","seq":1,"time":1,"data":{"inherited":true}}\n'
    put("files", "seeded", bytes([HEADER | SEEDED, 0]) + turn + marker)
    put("files", "seeded-framed", bytes([ZSTD | HEADER | SEEDED | TEXT, 0]) + turn + b"\x1e" + marker)
    for number, row in enumerate(rows.values()):
        put("rows", f"row-{number:03}", row)
    for case in ("format-row-envelope", "format-row-admission"):
        for number, one in enumerate(vectors(case)["cases"][:30]):
            if "row" in one:
                put("rows", f"{case}-{number:03}", text(json.dumps(one["row"], separators=(",", ":"))))
    for number, one in enumerate(vectors("format-json-text")["cases"]):
        if "in_hex" in one:
            put("rows", f"format-json-text-{number:03}", bytes.fromhex(one["in_hex"]))
    for number, header in enumerate(headers):
        put("headers", f"header-{number:03}", b"\x04" + header)
    for number, one in enumerate(vectors("format-header-lines")["cases"]):
        if isinstance(one.get("line"), str):
            put("headers", f"format-header-lines-{number:03}", b"\x04" + text(one["line"]))
    for number, one in enumerate(vectors("format-historical-headers")["cases"]):
        stored = one["stored"]
        put("headers", f"format-historical-headers-{number:03}", bytes([stored.get("version", 0) % 8]) + text(json.dumps(stored)))
    for name, calls in sequences().items():
        for has_files in (0, 1):
            put("calls", f"{name}-{'memory' if has_files else 'files'}", bytes([has_files]) + calls)
    for number in range(8):
        put("calls", f"any-{number}", bytes((17 * number + 31 * index + index * index // 7) % 256 for index in range(99)))


main()
