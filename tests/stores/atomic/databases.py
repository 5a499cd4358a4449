"""Databases to which atomic runs write, and what they leave undone there, for tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from singerlake.adapters import ATOMIC_STORES, ON_THE_LAKE
from singerlake.format.decision import Decision
from singerlake.stores.atomic.commit_run import RunShare
from tests.fakes import FakeClock
from tests.format.state.test_fold import new_file
from tests.storage.memory import Step
from tests.stores.atomic.runs import Runs, files
from tests.stores.stores import Place, make_place

DATABASES = [kind for kind in ATOMIC_STORES if kind not in ON_THE_LAKE]
Acts = dict[str, Callable[[], object]]
READS = ("get", "head", "list", "read_range", "beginning")
BEFORE, AFTER = {"a": 3, "b": 3}, {"a": 6, "b": 6}


class Killed(BaseException):
    """Nothing behind this is done any more."""


@pytest.fixture(params=DATABASES)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


@pytest.fixture
def runs(place: Place) -> Runs:
    return Runs(place)


def begun(kind: str, request: pytest.FixtureRequest, clock: FakeClock) -> tuple[Place, Runs, list[RunShare]]:
    """A run that is about to commit to two streams that have a file. Places with one clock share a connection."""
    place = replace(make_place(kind, request), clock=clock)
    runs = Runs(place)
    for stream in ("a", "b"):
        runs.append(stream, new_file(f"{stream}0"))
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]
    for part in parts:
        part.writer.open()
    return place, runs, parts


def dead(_: Step) -> None:
    raise Killed


def kill_at(place: Place, wanted: int) -> Callable[[], bool]:
    """Have the storage's user killed at a step and at all behind it; the answer tells whether it came to that. Step 0
    is the first request. The others are the moments before and behind each write: between two writes nothing else
    changes."""
    steps = itertools.count(1)
    came = False

    def hook(step: Step) -> None:
        nonlocal came
        came = came or wanted == 0 or (step.operation not in READS and next(steps) >= wanted)
        if came:
            raise Killed

    place.storage.hook = hook
    return lambda: came


def committed(place: Place) -> bool:
    """Whether the database has the run; it is in both streams then."""
    a, b = place.listed("a"), place.listed("b")
    assert ("a1" in a) == ("b1" in b)
    return "a1" in a


def only_in_the_database(place: Place, runs: Runs, *streams: str) -> str:
    """A run whose writer was killed behind the database's commit; gives its name."""
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in streams]

    def at_the_decision(step: Step) -> None:
        if step.operation == "put" and "/_commits/" in step.key:
            place.storage.hook = dead
            raise Killed

    for part in parts:
        part.writer.open()
    place.storage.hook = at_the_decision
    with pytest.raises(Killed):
        runs.commit(parts)
    place.storage.hook = lambda _: None
    name = place.state(streams[0]).settled
    assert isinstance(name, str)
    return name


def publish(place: Place, stream: str) -> None:
    store = place.store(stream)
    loaded = store.load()
    assert loaded is not None
    store.publish(loaded, run_ended=True)


@pytest.fixture
def before_and_after(monkeypatch: pytest.MonkeyPatch, place: Place) -> Acts:
    """What is done before and behind each transaction of the database that is over several streams."""
    acts: Acts = {}
    kind: Any = type(place.store("a"))
    original = kind.commit_together

    def watched(self: object, *arguments: object) -> object:
        acts.get("before", lambda: None)()
        outcome = original(self, *arguments)
        acts.get("after", lambda: None)()
        return outcome

    monkeypatch.setattr(kind, "commit_together", watched)
    return acts


def kept(place: Place, stream: str, name: str) -> Decision:
    """The decision that the database holds."""
    store: Any = place.store(stream)
    decision = store.completion.kept(name)
    assert isinstance(decision, Decision)
    return decision


def only_in_the_database_now(place: Place, runs: Runs) -> str:
    """A rival's run, of which the lake hears nothing from the rival."""
    part = runs.part("a", *files("x1"), name="rival")

    def at_the_decision(step: Step) -> None:
        if step.operation == "put" and "/_commits/" in step.key:
            raise Killed

    part.writer.open()
    place.storage.hook = at_the_decision
    with pytest.raises(Killed):
        runs.commit([part], "rival")
    place.storage.hook = lambda _: None
    name = place.state("a").settled
    assert isinstance(name, str)
    return name
