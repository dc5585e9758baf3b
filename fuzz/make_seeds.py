"""Makes the seeds of the fuzz targets (fuzz/seeds) from the cases and vectors in tests/. Run again when those change."""

import json
import pathlib
import shutil

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


def main() -> None:
    shutil.rmtree(HERE / "seeds", ignore_errors=True)
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
    # Sequences of calls: each byte is an operation or an argument, so any bytes do.
    for number in range(24):
        put("calls", f"calls-{number:03}", bytes((17 * number + 31 * index + index * index // 7) % 256 for index in range(40 + 8 * number)))


main()
