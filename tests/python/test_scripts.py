"""The scripts of the vectors from Python: projections, the store, publication, and the forks without events.

What Python cannot say is named here with its reason, and counted.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

import dsh_session as dsh
from test_session import cases, code, observed

REGISTRY = "prepare, enter and announce are steps of the bare registry; Store.create is all three at once"
INEXPRESSIBLE = {
    "store-lifecycle": REGISTRY,
    "store-independent": "a session belongs to the store that made it; there is none without a store",
    "store-duplicate": REGISTRY,
    "store-minted-ids": "Store.create makes uuids; counted ids are those of the bare registry",
    "store-failed-announce": REGISTRY,
    "store-never-announced": REGISTRY,
    "store-created-readonly": REGISTRY,
}
INEXPRESSIBLE_FORKS = {
    "source object whose id is not live": "Store.fork takes an id; a session of another store cannot be given",
    "source object while another object is live under its id": "Store.fork takes an id, which names one session",
}

# The registry detaches; a program of Python closes, and a closed handle says so before the session is asked.
CLOSED = {"WRITE_REMOVED", "SESSION_NOT_LIVE"}

# A type of the host that does what `image/offload` does, by a projection written in Python: the library's own cannot be taken away.
OFFLOAD = "acme/offload"


class ScriptFailure(Exception):
    """What a listener of a script raises."""


def offloaded(event: dsh.Event, context: dsh.ProjectionContext) -> Iterable[tuple[int, object]]:
    """`image/offload`, as a host would write it."""
    for target in event.data["targets"]:
        message = context.message(target["seq"])
        source = context.event(target["seq"])
        if message is None or source is None or source.type not in ("user/message", "tool/result"):
            raise ValueError("no message on the surface")
        changed = copy.deepcopy(message.data)
        images = [block for block in changed["content"] if block["type"] == "image"]
        last = -1
        for index in target["imageIndexes"]:
            if not last < index < len(images) or images[index].get("offloaded"):
                raise ValueError(f"no image {index} to offload")
            images[index]["offloaded"] = True
            last = index
        yield target["seq"], changed


def in_host_type(value: Any) -> Any:
    """A case with `image/offload` spelt as the host's type."""
    return json.loads(json.dumps(value).replace('"image/offload"', f'"{OFFLOAD}"'))


def append(session: dsh.Session, step: Mapping[str, Any]) -> dict[str, Any]:
    inputs = step["inputs"]
    is_batch = step.get("batch") or step["call"] == "append-batch" or len(inputs) > 1
    events = session.append_many(inputs) if is_batch else [session.append_line(inputs[0])]
    return {"committed": [event.seq for event in events]}


class Script:
    """Runs the steps of one case."""

    def __init__(self) -> None:
        self.store = dsh.Store(checks_stored_rules=False, event_types={OFFLOAD: True})
        self.owners: dict[str, dsh.Session] = {}
        # Views, as a part of a program has them that did not make the session.
        self.sessions: dict[str, dsh.Session] = {}
        self.projections: dict[str, dsh.Subscription] = {}
        self.trace: list[str] = []
        self.surprises: list[str] = []
        self.steps = 0
        self.closed_steps = 0

    def run(self, case: Mapping[str, Any]) -> None:
        with self.store:
            for step in case["steps"]:
                self.check(step)
            assert self.surprises == []
            if "trace" in case:
                assert self.trace == case["trace"]

    def check(self, step: Mapping[str, Any]) -> None:
        outcome = self.outcome(step)
        if outcome == {"refused": "HANDLE_CLOSED"} and step["expect"].get("refused") in CLOSED:
            assert self.owners[step["on"]].closed
            self.closed_steps += 1
            outcome = step["expect"]
        if outcome != step["expect"]:
            self.surprises.append(f"{step} gave {outcome}")
        self.steps += 1

    def outcome(self, step: Mapping[str, Any]) -> Any:
        try:
            return getattr(self, step["call"])(step)
        except dsh.DshError as error:
            return {"refused": "LISTENER" if isinstance(error.__cause__, ScriptFailure) and error.rule is None else code(error)}

    def create(self, step: Mapping[str, Any]) -> Any:
        return self.named(step, self.store.create(id=step["id"], seed=step.get("seed")))

    def fork(self, step: Mapping[str, Any]) -> Any:
        source = self.sessions[step["source"]]
        # The registry's default is the whole log; that of `Store.fork` the last finished turn.
        return self.named(step, self.store.fork(source.id, source.next_seq - 1, id=step["child"]))

    def named(self, step: Mapping[str, Any], session: dsh.Session) -> Any:
        name = step.get("as") or step.get("id") or step["child"]
        view = self.store.get(session.id)
        assert view is not None
        self.owners[name], self.sessions[name] = session, view
        return "ok" if step["expect"] == "ok" else {"id": session.id}

    def detach(self, step: Mapping[str, Any]) -> Any:
        self.owners[step["on"]].close()
        return "ok"

    def append(self, step: Mapping[str, Any]) -> Any:
        return append(self.sessions[step["on"]], step)

    def record(self, step: Mapping[str, Any]) -> Any:
        return {"committed": [self.sessions[step["on"]].append_record(step["type"], step["data"]).seq]}

    def list(self, step: Mapping[str, Any]) -> Any:
        return {"ids": self.store.live_ids()}

    def flush(self, step: Mapping[str, Any]) -> Any:
        # `flush` tells nothing; that listeners took part is seen in what they trace.
        told = len(self.trace)
        try:
            self.sessions[step["on"]].flush()
        except dsh.DshError as error:
            assert isinstance(error.__cause__, ScriptFailure) == (error.code == "FLUSH_FAILED")
            return {"refused": error.code}
        return {"participated": len(self.trace) > told}

    def listen(self, step: Mapping[str, Any]) -> Any:
        listener, word = step["listener"], step["event"]

        def act(session: dsh.Session, event: dsh.Event | None = None) -> None:
            line = f"{word}:{listener['name']}:{session.id}"
            if event is not None:
                batch = session.current_batch_publication
                line += f":{event.seq}:{session.next_seq}:{'none' if batch is None else batch.seq}"
            self.trace.append(line)
            for action in listener["do"]:
                if "onSeq" in action and (event is None or action["onSeq"] != event.seq):
                    continue
                if action["call"] == "fail":
                    raise ScriptFailure
                self.check(action)
            if listener.get("fail"):
                raise ScriptFailure

        getattr(self.store, f"on_{word}")(act)
        return "ok"

    def validate(self, step: Mapping[str, Any]) -> Any:
        def refuse(session: dsh.Session, event: dsh.Event) -> None:
            if event.type == step["type"]:
                raise ScriptFailure

        self.store.add_validator(refuse)
        return "ok"

    def registerProjection(self, step: Mapping[str, Any]) -> Any:
        self.projections[step["definition"]] = self.store.register_projection(step["type"], offloaded)
        return "ok"

    def unregisterProjection(self, step: Mapping[str, Any]) -> Any:
        self.projections[step["definition"]].cancel()
        return "ok"

    def deriveMessages(self, step: Mapping[str, Any]) -> Any:
        return {"ids": [message.id for message in self.sessions[step["on"]].messages()]}

    def surfaceNodes(self, step: Mapping[str, Any]) -> Any:
        return {"nodes": self.sessions[step["on"]].surface.nodes}


def named(*suites: str) -> dict[str, Any]:
    return {case.values[0]["id"]: case.values[0] for suite in suites for case in cases(suite)}


SCRIPTS = named("store", "publication")
INDEPENDENT = [case for case in named("projection").values() if case["session"] == "independent"]


def test_every_script_is_run_or_named_with_its_reason() -> None:
    assert INEXPRESSIBLE.keys() <= SCRIPTS.keys()
    assert (len(SCRIPTS), len(INEXPRESSIBLE)) == (18, 7)
    assert (len(named("projection")), len(INDEPENDENT)) == (11, 10)
    # Nothing is named that could be run.
    runnable = {"create", "fork", "detach", "append", "record", "list", "flush", "listen", "validate"}
    for id, case in SCRIPTS.items():
        bare = {step["call"] for step in case["steps"]} - runnable
        minted = any(step["call"] == "create" and "id" not in step for step in case["steps"])
        assert (id in INEXPRESSIBLE) == bool(bare or minted), id


@pytest.mark.parametrize("id", [id for id in SCRIPTS if id not in INEXPRESSIBLE])
def test_stores_publish_and_refuse_as_the_scripts_say(id: str) -> None:
    script = Script()
    script.run(SCRIPTS[id])
    assert script.steps >= len(SCRIPTS[id]["steps"])
    assert script.closed_steps == (id in ("store-flush", "publish-detach-deferred"))


def test_a_projection_that_was_taken_away_is_missed_as_the_script_says() -> None:
    Script().run(in_host_type(named("projection")["projection-unregister"]))


def run_independent(case: Any, session: dsh.Session) -> None:
    for step in case["steps"]:
        before = observed(session)
        try:
            outcome = append(session, step)
        except dsh.DshError as error:
            outcome = {"refused": code(error)}
            assert observed(session) == before
        assert outcome == step["expect"]
    assert observed(session) == case["after"]


@pytest.mark.parametrize("case", [case for case in INDEPENDENT if "projections" in case], ids=lambda case: case["id"])
def test_the_librarys_projection_decides_as_the_vectors_say(case: Any) -> None:
    with dsh.Store(checks_stored_rules=False) as store, store.create(id="s") as session:
        run_independent(case, session)


@pytest.mark.parametrize("case", INDEPENDENT, ids=lambda case: case["id"])
def test_a_projection_of_the_host_decides_as_the_vectors_say(case: Any) -> None:
    with dsh.Store(checks_stored_rules=False, event_types={OFFLOAD: True}) as store, store.create(id="s") as session:
        if "projections" in case:
            store.register_projection(OFFLOAD, offloaded)
        run_independent(in_host_type(case), session)


FORKS = {id: case for id, case in named("fork").items() if not case.get("source", {}).get("events")}


def test_every_fork_without_events_is_run() -> None:
    assert set(FORKS) == {"fork-empty", "fork-boundary-empty", "fork-codes"}
    assert len(INEXPRESSIBLE_FORKS) == 2


def test_an_empty_source_gives_an_empty_seeded_child() -> None:
    case = FORKS["fork-empty"]
    source, expected = case["source"]["header"], case["expect"]
    with dsh.Store(checks_stored_rules=False) as store:
        # `fork_seed` needs an event to end at; the seed of an empty log is empty.
        made = store.create(id="kid", seed=[], inherited_event_count=0, cwd=source["cwd"], created_at=case["clock"])
        with made as child:
            header = child.header
            assert header.is_seeded and header.parent_session is None
            assert (header.id, header.cwd, header.created_at) == tuple(
                expected["header"][key] for key in ("id", "cwd", "createdAt")
            )
            assert child.inherited_event_count == expected["inheritedEventCount"]
            assert child.first_live_seq == expected["firstLiveSeq"]
            assert child.first_lifecycle_seq == expected["firstLifecycleSeq"]
            assert [message.id for message in child.messages()] == expected["derivedIds"]
            # The store's clock cannot be set from Python.
            suffix = [{**json.loads(event.row), "time": case["clock"]} for event in child.events()]
            assert suffix == expected["suffix"]


def test_a_boundary_in_an_empty_source_is_refused() -> None:
    case = FORKS["fork-boundary-empty"]
    with pytest.raises(dsh.InvalidBoundaryError) as refused:
        dsh.fork_seed(case["source"]["events"], case["boundary"])
    assert {"refused": code(refused.value)} == case["expect"]


def test_forks_are_refused_with_the_codes_of_the_vectors() -> None:
    # Not in their order, which is the registry's: `Store.fork` reads its source first (`controller.md` 7).
    with dsh.Store(checks_stored_rules=False) as store, store.create(id="live") as live:
        live.append("turn/start", {"turn": 1})
        rows = list(live.events())
        given: dict[str, Callable[[], object]] = {
            "child id already live": lambda: store.fork("live", 0, id="live"),
            "source id not live": lambda: store.fork("nobody"),
            "boundary -1, 0.5 or above 2^53-1": lambda: dsh.fork_seed(rows, 2**53),
        }
        steps = FORKS["fork-codes"]["steps"]
        assert {step["given"] for step in steps} == given.keys() | INEXPRESSIBLE_FORKS.keys()
        for step in steps:
            if step["given"] in given:
                with pytest.raises(dsh.DshError) as refused:
                    given[step["given"]]()
                assert {"refused": code(refused.value)} == step["expect"], step["given"]
        # What is no number of an event at all never comes as far as the fork.
        with pytest.raises(dsh.InvalidArgumentError):
            dsh.fork_seed(rows, -1)
        with pytest.raises(TypeError):
            dsh.fork_seed(rows, 0.5)  # type: ignore[arg-type]
        assert store.live_ids() == ["live"]
