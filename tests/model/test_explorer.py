"""The explorer itself, on models whose answers are known."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import comb
from typing import Any

import pytest

from tests.model.explorer import Model, TooLarge, explore
from tests.model.log.store import LogStore
from tests.model.settle.records import Settle

Point = tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """Two counters that go up to ``size``; being at ``forbidden`` is wrong."""

    size: int
    forbidden: Point | None = None

    def starts(self) -> Iterator[Point]:
        yield 0, 0

    def steps(self, state: Point) -> Iterator[tuple[str, Point]]:
        x, y = state
        if x < self.size:
            yield "right", (x + 1, y)
        if y < self.size:
            yield "up", (x, y + 1)

    def wrong(self, state: Point) -> str | None:
        return "forbidden" if state == self.forbidden else None

    def like(self, state: Point) -> Point:
        return min(state), max(state)


def test_every_state_is_reached_once() -> None:
    found = explore(Grid(9), symmetric=False)
    assert (found.states, found.steps, found.depth, found.ends) == (100, 180, 18, 1)
    assert found.found is None


def test_of_equals_one_is_looked_at() -> None:
    assert explore(Grid(9)).states == 55


def test_a_counterexample_is_as_short_as_can_be() -> None:
    found = explore(Grid(9, forbidden=(3, 4)), symmetric=False).found
    assert found is not None
    assert sorted(found.steps) == ["right"] * 3 + ["up"] * 4
    assert found.state == (3, 4)
    assert str(found).splitlines()[-1].strip() == "forbidden"


def test_a_start_may_be_wrong_already() -> None:
    found = explore(Grid(9, forbidden=(0, 0))).found
    assert found is not None
    assert found.steps == ()


def test_too_many_states_prove_nothing_and_say_so() -> None:
    with pytest.raises(TooLarge, match="more than 50 states"):
        explore(Grid(9), limit=50, symmetric=False)
    assert gc.isenabled()


@dataclass(frozen=True)
class ReadBackLock:
    """Two writers that look for a lock, write it, and read it back, with all that happened in the state, so that every
    interleaving is a state of its own."""

    both: list[str] = field(default_factory=list)

    def starts(self) -> Iterator[str]:
        yield ""

    def steps(self, state: str) -> Iterator[tuple[str, str]]:
        for writer in "ab":
            if state.count(writer) < 3:
                yield writer, state + writer

    def wrong(self, state: str) -> str | None:
        if len(state) == 6 and self._holders(state) == {"a", "b"}:
            self.both.append(state)
        return None

    def like(self, state: str) -> str:
        return state

    def _holders(self, order: str) -> set[str]:
        lock, done, waits, holders = "", {"a": 0, "b": 0}, set[str](), set[str]()
        for writer in order:
            done[writer] += 1
            if done[writer] == 1 and lock:
                waits.add(writer)
            elif done[writer] == 2 and writer not in waits:
                lock = writer
            elif done[writer] == 3 and lock == writer:
                holders.add(writer)
        return holders


def test_a_lock_that_is_read_back_is_held_twice_in_4_of_20_interleavings() -> None:
    model = ReadBackLock()
    assert explore(model).ends == comb(6, 3) == 20
    assert len(model.both) == 4


@pytest.mark.parametrize(
    "model",
    [LogStore(writers=2, trims=1, floor_after_append=False), Settle(entries=2, rounds=(1, 1), read_back=False)],
    ids=["log", "merge"],
)
def test_without_symmetry_the_names_in_a_way_are_those_that_lead_there(model: Model[Any]) -> None:
    found = explore(model, symmetric=False).found
    assert found is not None
    (state,) = model.starts()
    for step in found.steps:
        state = next(after for label, after in model.steps(state) if label == step)
    assert state == found.state
    assert model.wrong(state) == found.promise


@pytest.mark.parametrize("model", [LogStore(writers=2, trims=1), Settle(entries=2, trims=1)], ids=["log", "merge"])
def test_what_symmetry_leaves_out_breaks_no_promise_either(model: Model[Any]) -> None:
    alike, apart = explore(model), explore(model, symmetric=False)
    assert apart.found is None
    assert alike.states < apart.states <= 2 * alike.states
    assert alike.depth == apart.depth
