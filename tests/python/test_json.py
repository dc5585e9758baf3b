"""Python values become JSON text at the moment of the call, losslessly or not at all (P14)."""

from __future__ import annotations

import enum
import json
import sys
import threading
from collections import OrderedDict
from typing import Any

import pytest

import dsh_session as dsh
from dsh_session._native import encode_json

KIND = "plugin:acme/note"


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        [],
        {},
        {"": {"": [[], {}]}},
        [0, -1, 2**53, -(2**53), 9223372036854776000, 1e300, 5e-324, 0.1, 1.0, 1e21, 123456789012345680000],
        "\x00\x1f\"\\/\u2028\U0001f600 é",
        {"b": 1, "a": 2, "é": [None, True, False]},
    ],
)
def test_a_value_comes_back_equal(value: object) -> None:
    text = encode_json(value)
    assert json.loads(text) == value
    with dsh.Store() as store, store.create() as session:
        assert session.append(KIND, value).data == value


def test_subclasses_and_tuples_are_written_as_what_they_are() -> None:
    class Level(enum.IntEnum):
        HIGH = 7

    class Word(str):
        def __str__(self) -> str:
            return "another"

    value = {Word("k"): Level.HIGH, "t": (1, (2,)), "o": OrderedDict(z=1)}
    assert encode_json(value) == b'{"k":7,"t":[1,[2]],"o":{"z":1}}'


def test_a_lone_surrogate_is_stored_as_its_escape_and_comes_back() -> None:
    value = {"a\ud800": "x\udfff\U0001f600"}
    with dsh.Store() as store, store.create() as session:
        event = session.append(KIND, value)
        assert r'{"a\ud800":"x\udfff😀"}' in event.row
        assert event.data == value
        line = session.append_line('{"type":"%s","data":"\ud800"}' % KIND)
        assert line.data == "\ud800" and r"\ud800" in line.row
    # Two halves that make a pair are that character.
    assert encode_json("\ud83d\ude00") == '"😀"'.encode()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), -0.0, 2**53 + 1, 10**400, -(10**5000)], ids=range(7))
def test_a_number_that_would_not_come_back_is_refused_with_its_place(number: float) -> None:
    with dsh.Store() as store, store.create() as session:
        with pytest.raises(dsh.NotLosslessJsonError) as refused:
            session.append(KIND, {"a": [0, {"b c": number}]})
        assert refused.value.json_path == '$.a[1]["b c"]'
        assert session.next_seq == 0


@pytest.mark.parametrize(
    ("value", "path"), [({1: 2}, "$[\"1\"]"), ({"a": {1, 2}}, "$.a"), ([object()], "$[0]"), ({"a": [b"x"]}, "$.a[0]")]
)
def test_what_has_no_json_form_is_refused_with_its_place(value: object, path: str) -> None:
    with dsh.Store() as store, store.create() as session:
        with pytest.raises(dsh.InvalidArgumentError) as refused:
            session.append(KIND, value)
        assert refused.value.json_path == path


def test_a_value_that_contains_itself_is_refused_and_depth_is_no_recursion() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(dsh.LimitExceededError):
        encode_json(endless)
    deep: list[Any] = []
    for _ in range(sys.getrecursionlimit() * 20):
        deep = [deep]
    text = encode_json(deep)
    assert text == b"[" * (len(text) // 2) + b"]" * (len(text) // 2)
    while deep:  # Taken apart by hand: freeing it would recurse in older interpreters.
        deep = deep[0]


def test_text_that_is_json_already_is_taken_as_it_is() -> None:
    with dsh.Store() as store, store.create() as session:
        assert session.append(KIND, b'{"n": 1.0, "n": 2.50}').data_json == '{"n":2.5}'
        with pytest.raises(dsh.InvalidArgumentError):
            session.append(KIND, b"{")
        assert session.append(KIND, "{").data == "{"


def test_an_argument_changed_after_the_call_has_no_effect() -> None:
    data = {"list": [1], "text": bytearray(b"x").decode()}
    text = bytearray(b'{"n":1}')
    with dsh.Store() as store, store.create() as session:
        session.append(KIND, data)
        session.append(KIND, text)
        data["list"].append(2)  # type: ignore[attr-defined]
        text[:] = b'{"n":2}'
        session.flush()
        assert [event.data for event in session.events()] == [{"list": [1], "text": "x"}, {"n": 1}]


def test_an_argument_changed_by_another_thread_is_stored_as_it_was_at_some_moment_of_the_call() -> None:
    data: dict[str, list[int]] = {"a": [0] * 100}
    is_over = threading.Event()

    def change() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            data["a"] = [number] * 100

    thread = threading.Thread(target=change)
    thread.start()
    try:
        with dsh.Store() as store, store.create() as session:
            for _ in range(500):
                session.append(KIND, data)
            session.flush()
            for event in session.events():
                assert len(event.data["a"]) == 100 and len(set(event.data["a"])) == 1
    finally:
        is_over.set()
        thread.join()
