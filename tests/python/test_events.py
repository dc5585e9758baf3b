"""Events and records: values that are equal, can be kept, hashed and pickled; iterators that end where the log does."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import pickle
import sys
import weakref
from pathlib import Path

import pytest

import dsh_session as dsh
from conftest import NOTE

ROW = '{"type":"turn/start","seq":4,"time":-3,"data":{"turn":1},"sourceEventSeqs":[[0,2]],"ignorable":true}'


def test_an_event_is_a_frozen_value() -> None:
    event = dsh.Event.from_row(ROW)
    same = dsh.Event.from_row(ROW.encode())
    other = dsh.Event.from_row(ROW.replace("-3", "3"))
    assert event == same and hash(event) == hash(same)
    assert event != other and event != ROW
    assert len({event, same, other}) == 2
    assert repr(event) == 'Event(seq=4, type="turn/start", time=-3)'
    with pytest.raises(AttributeError):
        event.seq = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        event < other  # type: ignore[operator]


def test_an_event_shows_its_row_and_its_fields() -> None:
    event = dsh.Event.from_row(ROW)
    assert event.raw == ROW.encode() and event.row == ROW
    assert event.data_json == '{"turn":1}'
    assert event.data is event.data
    assert event.source_event_seqs == [0, 1, 2]
    assert event.logical_row == ROW.replace("[[0,2]]", "[0,1,2]")
    assert event.surface_op is None and event.ignorable
    assert dsh.Event.from_row({"type": "turn/end", "seq": 0, "time": 1, "data": {}}).source_event_seqs is None


class PyBuffer(ctypes.Structure):
    """The `Py_buffer` of Python's stable interface: tells where a view points, which Python code cannot ask."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def address(view: memoryview) -> int:
    buffer = PyBuffer()
    assert ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), 0) == 0
    where = buffer.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    assert isinstance(where, int)
    return where


if sys.version_info >= (3, 11):

    def test_views_of_events_lie_where_the_library_read_them(root: Path) -> None:
        with dsh.Store(root) as store:
            with store.create(id="s1") as session:
                session.append_many([NOTE] * 3)
            events = list(store.events("s1"))
        views = [memoryview(event) for event in events]
        assert [bytes(view) for view in views] == [event.raw for event in events]
        assert [view.obj for view in views] == events
        # The same bytes each time, and those of neighbours one newline apart, as in the log: nobody has copied them.
        assert [address(view) for view in views] == [address(memoryview(event)) for event in events]
        assert [address(view) + len(view) + 1 for view in views[:-1]] == [address(view) for view in views[1:]]

    def test_a_view_outlives_its_event_its_walk_and_its_store(root: Path) -> None:
        store = dsh.Store(root)
        with store.create(id="s1") as session:
            session.append_many([NOTE] * 300)
        walk = store.events("s1")
        view = memoryview(next(walk))
        whole = bytes(view)
        dropped = weakref.ref(store)
        store.remove("s1")
        store.close()
        del walk, store
        gc.collect()
        assert dropped() is None and bytes(view) == whole and whole.startswith(b'{"type":')

    def test_a_view_is_read_only_and_counts_as_bytes() -> None:
        event = dsh.Event.from_row(ROW)
        view = memoryview(event)
        assert view.readonly and (view.format, view.ndim, view.shape) == ("B", 1, (len(ROW),))
        with pytest.raises(TypeError):
            view[0] = 0
        with pytest.raises(TypeError):
            ctypes.c_char.from_buffer(event)
        file = io.BytesIO()
        assert file.write(event) == len(ROW) and file.getvalue() == event.raw and hash(view) == hash(event.raw)

else:

    def test_an_event_is_no_buffer_where_python_has_no_stable_ones() -> None:
        with pytest.raises(TypeError):
            memoryview(dsh.Event.from_row(ROW))  # type: ignore[arg-type]


def test_numbers_of_a_stored_row_keep_what_they_are(root: Path) -> None:
    row = b'{"type":"plugin:acme/n","seq":0,"time":1,"data":{"n":9007199254740993,"z":-0.0,"s":"\\ud800"},"ignorable":true}'
    with dsh.Store(root, encoding="none") as store:
        with store.create(id="s1") as session:
            session.flush()
            record = store.stat("s1")
        assert record is not None and record.path is not None
        record.path.write_bytes(record.path.read_bytes() + row + b"\n")
        (event,) = store.events("s1")
    assert event.raw == row
    assert event.data["n"] == 9007199254740993 and str(event.data["z"]) == "-0.0" and event.data["s"] == "\ud800"
    # What no append would take is pickled all the same.
    assert pickle.loads(pickle.dumps(event)).raw == row


def test_events_and_records_come_back_from_pickle_and_copy(root: Path, files: dsh.Store) -> None:
    with files.create(id="s1", cwd="/repo") as session:
        event = session.append(*NOTE)
    values = [event, files.stat("s1"), files.list(), dsh.Replace(1, 2), dsh.Pending(1, 2)]
    for value in values:
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(value, protocol)) == value
        assert copy.deepcopy(value) == value


def test_a_walk_over_many_batches_gives_every_event_once(store: dsh.Store) -> None:
    count = 1000
    with store.create(id="s1") as session:
        session.append_many([NOTE] * count)
    assert [event.seq for event in store.events("s1")] == list(range(count))
    assert [event.seq for event in store.events("s1", from_seq=300, count=400)] == list(range(300, 700))
    assert [event.seq for event in store.events("s1", newest=7)] == list(range(count - 7, count))
    walk = store.events("s1")
    first = next(walk)
    batches = [batch for batch in iter(walk.next_batch, [])]
    assert [first.seq, *(event.seq for batch in batches for event in batch)] == list(range(count))
    assert next(walk, None) is None and walk.next_batch() == []


def test_a_range_is_given_one_way_or_the_other(store: dsh.Store) -> None:
    with store.create(id="s1") as session:
        session.append(*NOTE)
        with pytest.raises(dsh.InvalidArgumentError):
            session.events(newest=1, count=1)
        with pytest.raises(dsh.InvalidArgumentError):
            store.events("s1", newest=1, from_seq=1)


def test_damage_is_raised_after_the_events_before_it(root: Path) -> None:
    with dsh.Store(root, encoding="none") as store, store.create(id="s1") as session:
        session.append_many([NOTE] * 400)
        session.append_many([("turn/start", {"turn": 1}), ("turn/end", {"turn": 1, "reason": {"kind": "completed"}})])
        session.flush()
        record = store.stat("s1")
    assert record is not None and record.path is not None
    rows = record.path.read_bytes().splitlines(keepends=True)
    rows[301] = b"no row\n"
    record.path.write_bytes(b"".join(rows))
    seen = []
    with dsh.Store(root) as store:
        walk = store.events("s1")
        with pytest.raises(dsh.SessionPersistenceCorruptionError) as damage:
            for event in walk:
                seen.append(event.seq)
        assert seen == list(range(300)) and damage.value.line == 302
        assert next(walk, None) is None
