"""Every state a small model can reach, breadth first, so that a counterexample is a shortest one."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)


class Model(Protocol[S]):
    """What there is to explore. States are hashable and never change; a step is what happens without interruption.

    Whoever stops for ever at any step is covered without a step of its own: it is a path on which only others go on.
    """

    def starts(self) -> Iterable[S]:
        """The states it begins in."""
        ...

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """What can happen next: what to call it, and the state after it."""
        ...

    def wrong(self, state: S) -> str | None:
        """Which promise the state breaks; None where it keeps them all."""
        ...

    def like(self, state: S) -> S:
        """One of the states that differ from this one only in the names of equals, where possible always the same."""
        ...


@dataclass(frozen=True)
class Counterexample(Generic[S]):
    """A broken promise, and a shortest way to it."""

    promise: str
    steps: tuple[str, ...]
    state: S

    def __str__(self) -> str:
        lines = [f"{number:3}  {step}" for number, step in enumerate(self.steps, 1)]
        return "\n".join([*lines, f"     {self.promise}"])


class TooLarge(Exception):
    """More states than the limit: nothing is proved."""


@dataclass(frozen=True)
class Explored(Generic[S]):
    """``states`` distinct ones (up to the symmetry that ``Model.like`` knows), by ``steps`` transitions, none further
    than ``depth`` steps from a start. With ``found`` the search ended there; without, these are all there are."""

    states: int
    steps: int
    depth: int
    ends: int
    found: Counterexample[S] | None


def explore(model: Model[S], *, limit: int = 1_000_000, symmetric: bool = True) -> Explored[S]:
    """All states of ``model``, or a shortest way to one that breaks a promise. Raises ``TooLarge`` above ``limit``.

    ``symmetric``: of states that differ only in the names of equals, one is looked at. The names in the steps of a
    counterexample then change on the way; without it they are right, at the price of more states.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _explore(model, limit, model.like if symmetric else lambda state: state)
    finally:
        if collecting:
            gc.enable()


def _explore(model: Model[S], limit: int, like: Callable[[S], S]) -> Explored[S]:
    came: dict[S, tuple[S, str] | None] = {}
    waiting: deque[tuple[S, int]] = deque()
    taken = depth = ends = 0

    for start in model.starts():
        state = like(start)
        if state not in came:
            came[state] = None
            waiting.append((state, 0))
            broken = model.wrong(state)
            if broken is not None:
                return Explored(len(came), taken, depth, ends, Counterexample(broken, (), state))
    while waiting:
        state, depth = waiting.popleft()
        before = taken
        for label, after in model.steps(state):
            taken += 1
            reached = like(after)
            if reached in came:
                continue
            came[reached] = (state, label)
            broken = model.wrong(reached)
            if broken is not None:
                found = Counterexample(broken, _way(came, reached), reached)
                return Explored(len(came), taken, depth + 1, ends, found)
            if len(came) > limit:
                raise TooLarge(f"more than {limit} states, {depth} steps deep")
            waiting.append((reached, depth + 1))
        ends += taken == before
    return Explored(len(came), taken, depth, ends, None)


def _way(came: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    labels = []
    while (step := came[state]) is not None:
        state, label = step
        labels.append(label)
    return tuple(reversed(labels))
