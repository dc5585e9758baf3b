"""Every failure is an exception with the core's code, the builtin a Python person would catch, and its facts."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dsh_session as dsh
from conftest import NOTE
from dsh_session import _codes, _errors, _native

GENERATOR = Path(__file__).parents[2] / "bindings" / "python" / "generate_errors.py"


def test_the_committed_table_is_the_one_of_the_library() -> None:
    printed = subprocess.run([sys.executable, GENERATOR, "--print"], capture_output=True, text=True, check=True)
    assert printed.stdout == Path(_codes.__file__).read_text(encoding="utf-8"), "run bindings/python/generate_errors.py"


def test_every_code_has_one_class() -> None:
    names = [name for name, *_ in _native.error_table()]
    assert list(_codes.BY_CODE) == names
    for name, kind in _codes.BY_CODE.items():
        assert kind.code == name
        assert issubclass(kind, dsh.DshError)
        assert getattr(dsh, kind.__name__) is kind
    assert len(set(_codes.BY_CODE.values())) == len(names)


def write_log(root: Path, events: int = 3, encoding: str = "none") -> Path:
    with dsh.Store(root, encoding=encoding) as store, store.create(id="s1") as session:  # type: ignore[arg-type]
        session.append_many([NOTE] * events)
        # A finished turn is proof that what stands before it was complete: damage there is no torn tail.
        session.append_many([("turn/start", {"turn": 1}), ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})])
        session.flush()
        record = store.stat("s1")
    assert record is not None and record.path is not None
    return record.path


def not_found(root: Path) -> None:
    dsh.Store(root).open_session("nobody")


def exists(root: Path) -> None:
    write_log(root)
    dsh.Store(root).create(id="s1")


def owned(root: Path) -> None:
    write_log(root)
    with dsh.Store(root) as store, store.open_session("s1"):
        dsh.Store(root).open_session("s1")


def read_only(root: Path) -> None:
    write_log(root)
    with dsh.Store(root) as store, store.open_log("s1") as log:
        log.append([{"type": "turn/start", "seq": 5, "time": 1, "data": {"turn": 2}}])


def closed(root: Path) -> None:
    session = dsh.Store(root).create()
    session.close()
    session.append(*NOTE)


def store_closed(root: Path) -> None:
    store = dsh.Store(root)
    store.close()
    store.list()


def lost(root: Path) -> None:
    path = write_log(root)
    with dsh.Store(root) as store:
        session = store.open_session("s1")
        with path.open("ab") as other:
            other.write(b'{"type":"turn/start","seq":5,"time":1,"data":{"turn":2}}\n')
        session.append(*NOTE)
        try:
            session.flush()
        finally:
            with pytest.raises(dsh.SessionOwnershipLostError):
                session.close()


def corrupt(root: Path) -> None:
    path = write_log(root)
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*rows[:2], b"no row\n", *rows[3:]]))
    dsh.Store(root).open_session("s1")


def unsupported(root: Path) -> None:
    path = write_log(root)
    path.write_bytes(path.read_bytes().replace(b'"version":4', b'"version":99', 1))
    dsh.Store(root).open_session("s1")


def conflict(root: Path) -> None:
    write_log(root, encoding="none")
    dsh.Store(root, encoding="zstd").create()


def system(root: Path) -> None:
    root.write_text("no folder")
    dsh.Store(root)


def too_deep(root: Path) -> None:
    endless: list[object] = []
    endless.append(endless)
    with dsh.Store() as store, store.create() as session:
        session.append("plugin:acme/note", endless)


def unknown_type(root: Path) -> None:
    with dsh.Store() as store, store.create() as session:
        session.append("no/such-type", {})


def argument(root: Path) -> None:
    dsh.Store(root, encoding="gzip")  # type: ignore[arg-type]


def lossy(root: Path) -> None:
    with dsh.Store() as store, store.create() as session:
        session.append("plugin:acme/note", {"turn": [1, float("inf")]})


def cancelled(root: Path) -> None:
    token = dsh.CancelToken()
    token.cancel()
    token.run(dsh.Store(root).open_session, "s1")


CASES: list[tuple[Callable[[Path], None], type[dsh.DshError], type[Exception], dict[str, object]]] = [
    (not_found, dsh.SessionPersistenceNotFoundError, LookupError, {"session_id": "nobody"}),
    (exists, dsh.SessionAlreadyExistsError, ValueError, {"session_id": "s1"}),
    (owned, dsh.SessionAlreadyOwnedError, PermissionError, {"session_id": "s1"}),
    (read_only, dsh.SessionReadOnlyError, PermissionError, {"session_id": "s1"}),
    (closed, dsh.SessionHandleClosedError, ValueError, {}),
    (store_closed, dsh.SessionHandleClosedError, ValueError, {}),
    (lost, dsh.SessionOwnershipLostError, dsh.DshError, {"session_id": "s1"}),
    (corrupt, dsh.SessionPersistenceCorruptionError, dsh.DshError, {"line": 3, "salvageable": 1, "session_id": "s1"}),
    (unsupported, dsh.SessionFormatUnsupportedError, dsh.DshError, {"version": "99"}),
    (conflict, dsh.SessionConflictError, dsh.DshError, {}),
    (system, dsh.DshIOError, OSError, {"os": errno.ENOTDIR, "errno": errno.ENOTDIR}),
    (too_deep, dsh.LimitExceededError, dsh.DshError, {"limit": "depth_max"}),
    (unknown_type, dsh.EventRefusedError, ValueError, {"rule": "UNKNOWN_EVENT_TYPE", "index": 0}),
    (argument, dsh.InvalidArgumentError, ValueError, {}),
    (lossy, dsh.NotLosslessJsonError, ValueError, {"json_path": "$.turn[1]"}),
    (cancelled, dsh.CancelledError, dsh.DshError, {}),
]


@pytest.mark.parametrize(("fail", "kind", "builtin", "facts"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_failure_has_its_class_its_builtin_and_its_facts(
    root: Path,
    fail: Callable[[Path], None],
    kind: type[dsh.DshError],
    builtin: type[Exception],
    facts: dict[str, object],
) -> None:
    with pytest.raises(builtin) as caught:
        fail(root)
    error = caught.value
    assert type(error) is kind
    assert error.code == kind.code
    assert error.message and error.message in str(error)
    for name, value in facts.items():
        assert getattr(error, name) == value, name
    for name in ("path",):
        assert getattr(error, name) is None or isinstance(getattr(error, name), Path)


@pytest.mark.parametrize(("fail", "kind", "builtin", "facts"), CASES, ids=[case[0].__name__ for case in CASES])
def test_an_exception_comes_back_whole_from_a_pickle(
    root: Path, fail: Callable[[Path], None], kind: type[dsh.DshError], builtin: type[Exception], facts: dict[str, object]
) -> None:
    with pytest.raises(kind) as caught:
        fail(root)
    error = caught.value
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert getattr(again, "errno", None) == getattr(error, "errno", None)


def number_of(call: str, number: int) -> Callable[[dsh.Store, dsh.Session], object]:
    calls: dict[str, Callable[[dsh.Store, dsh.Session], object]] = {
        "newest": lambda store, session: store.events("s1", newest=number),
        "from_seq": lambda store, session: session.events(from_seq=number),
        "count": lambda store, session: store.open_log("s1").events(count=number),
        "offset": lambda store, session: store.open_log("s1").read(number, 1),
        "created_at": lambda store, session: store.create(created_at=number),
        "delegation_depth": lambda store, session: store.create(delegation_depth=number),
        "inherited": lambda store, session: store.create_log("s2", created_at=1, inherited_event_count=number, is_seeded=True),
        "threads": lambda store, session: dsh.Store(threads=number),
        "sources": lambda store, session: session.append(*NOTE, sources=[number]),
    }
    return calls[call]


@pytest.mark.parametrize("number", [-1, 2**64])
@pytest.mark.parametrize(
    "call", ["newest", "from_seq", "count", "offset", "created_at", "delegation_depth", "inherited", "threads", "sources"]
)
def test_a_number_out_of_range_is_an_invalid_argument(root: Path, call: str, number: int) -> None:
    with dsh.Store(root) as store, store.create(id="s1") as session:
        session.append(*NOTE)
        session.flush()
        with pytest.raises(dsh.InvalidArgumentError, match=str(number)):
            number_of(call, number)(store, session)
        with pytest.raises(dsh.InvalidArgumentError):
            session.append(*NOTE, time=2**63)


LONE = "a\ud800"

SURROGATES: dict[str, Callable[[dsh.Store], object]] = {
    "create": lambda store: store.create(id=LONE),
    "create, cwd": lambda store: store.create(cwd=LONE),
    "create, parent": lambda store: store.create(parent_session=LONE),
    "create_log": lambda store: store.create_log(LONE, created_at=1),
    "open_session": lambda store: store.open_session(LONE),
    "open_log": lambda store: store.open_log(LONE),
    "events": lambda store: store.events(LONE),
    "stat": lambda store: store.stat(LONE),
    "verify": lambda store: store.verify(LONE),
    "salvage": lambda store: store.salvage(LONE),
    "rows": lambda store: store.rows(LONE),
    "stats": lambda store: store.stats(LONE),
    "remove": lambda store: store.remove(LONE),
    "append": lambda store: store.create().append(LONE, {}),
    "root": lambda store: dsh.Store(LONE),
    "encoding": lambda store: dsh.Store(encoding=LONE),  # type: ignore[arg-type]
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("call", SURROGATES.values(), ids=SURROGATES.keys())
def test_a_lone_surrogate_in_a_name_is_an_invalid_argument(call: Callable[[dsh.Store], object]) -> None:
    with dsh.Store() as store, pytest.raises(dsh.InvalidArgumentError, match="surrogate"):
        call(store)


def test_a_root_that_is_no_path_is_an_invalid_argument(root: Path) -> None:
    with pytest.raises(dsh.InvalidArgumentError, match="fsdecode"):
        dsh.Store(b"sessions")  # type: ignore[arg-type]
    with pytest.raises(dsh.InvalidArgumentError, match="NUL"):
        dsh.Store("a\0b")
    # What is of no fitting type at all stays what Python calls it.
    with pytest.raises(TypeError, match="id"):
        dsh.Store(root).open_session(1)  # type: ignore[arg-type]


def test_a_root_that_is_a_link_to_nothing_is_told(root: Path) -> None:
    root.symlink_to(root.with_name("gone"))
    with pytest.raises(dsh.DshIOError, match="symbolic link") as caught:
        dsh.Store(root)
    assert caught.value.errno == errno.ENOENT and caught.value.path == root


def test_the_owner_is_named(root: Path) -> None:
    write_log(root)
    with dsh.Store(root) as store, store.open_session("s1") as session:
        # The note that names the owner is written with the first bytes.
        session.append(*NOTE)
        session.flush()
        with pytest.raises(dsh.SessionAlreadyOwnedError) as caught, dsh.Store(root) as other:
            other.open_session("s1")
    assert caught.value.owner is not None and str(os.getpid()) in caught.value.owner


def test_several_failures_come_together_with_their_causes() -> None:
    one = _errors.from_native("IO", "one text", "one", "", {"os": errno.ENOSPC}, [])
    error = _errors.from_native("SEVERAL", "two text", "two", "look", {}, [one])
    assert isinstance(error, dsh.SeveralError)
    assert error.causes == (one,) and error.__cause__ is one
    assert isinstance(one, OSError) and one.errno == errno.ENOSPC


def test_a_code_that_the_table_does_not_know_is_still_an_error() -> None:
    error = _errors.from_native("FROM_THE_FUTURE", "text", "message", "", {}, [])
    assert type(error) is dsh.DshError and error.code == "FROM_THE_FUTURE"


def test_an_exception_inside_a_block_is_not_hidden_by_a_failed_close(root: Path) -> None:
    path = write_log(root)
    store = dsh.Store(root)
    with pytest.raises(KeyError, match="mine") as caught, store.open_session("s1") as session:
        session.append(*NOTE)
        path.write_bytes(path.read_bytes() + b"x")
        raise KeyError("mine")
    if sys.version_info >= (3, 11):
        assert "closing failed too" in caught.value.__notes__[0]


def test_a_failed_close_is_raised_where_nothing_else_is(root: Path) -> None:
    path = write_log(root)
    with pytest.raises(dsh.SessionOwnershipLostError), dsh.Store(root) as store, store.open_session("s1") as session:
        session.append(*NOTE)
        path.write_bytes(path.read_bytes() + b"x")
