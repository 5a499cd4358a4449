"""Which tests answer within minutes, and which are for a look at everything.

``make test`` runs what is marked neither ``thorough`` nor ``soak``, ``make test-thorough`` what is ``thorough`` and not
``soak``, and ``make test-soak`` the rest: seeds and products that take long and find little. A test with a cluster, a
server or a Spark session of its own is marked by hand. Where a test has many cases, one of these marks says which of
them stay; the others go to the next command: from ``make test`` to ``thorough``, and from there to ``soak``. Of several
marks the closest one counts.

``crossed("store", "fault")``
    A diagonal of the product of these parameters stays: each value of each is in one case at least.
``sampled(step=3)``
    Three values of this parameter stay, the first one, the last one, and one between them.
``in_turn("store")``
    One value stays, the next one for each test of a module: all tests together have each value.

What is not named in the mark stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

import pytest

MARKS = ("crossed", "sampled", "in_turn")

Place = Mapping[str, int]
"""Which value a case has of each of its parameters, counted from 0."""


def mark_tiers(items: Iterable[pytest.Item]) -> None:
    """Mark the cases that a command leaves to the next one; the cases of one test stand side by side in ``items``."""
    turns: dict[object, int] = {}
    for (parent, _), same in groupby(items, lambda item: (item.parent, getattr(item, "originalname", item.name))):
        cases = list(same)
        mark = next((mark for mark in cases[0].iter_markers() if mark.name in MARKS), None)
        if mark is not None:
            turns[parent] = turns.get(parent, -1) + 1
            places = _places(cases)
            stays = _stays(mark, places, turns[parent])
            for case, place in zip(cases, places, strict=True):
                if not stays(place):
                    thorough = case.get_closest_marker("thorough")
                    case.add_marker(pytest.mark.soak if thorough else pytest.mark.thorough)


def _places(cases: Sequence[pytest.Item]) -> list[Place]:
    """Values are told apart by identity, since not all of them can be compared."""
    order: dict[str, dict[int, int]] = {}
    found = []
    for case in cases:
        callspec = getattr(case, "callspec", None)
        values = {} if callspec is None else callspec.params
        known = {name: order.setdefault(name, {}) for name in values}
        found.append({name: known[name].setdefault(id(value), len(known[name])) for name, value in values.items()})
    return found


def _stays(mark: pytest.Mark, places: Sequence[Place], turn: int) -> Callable[[Place], bool]:
    sizes = {name: 1 + max(place.get(name, 0) for place in places) for name in (*mark.args, *mark.kwargs)}
    if mark.name == "sampled":
        spread = {name: _spread(sizes[name], count) for name, count in mark.kwargs.items()}
        return lambda place: all(place.get(name, 0) in kept for name, kept in spread.items())
    steps = range(max(sizes.values())) if mark.name == "crossed" else (turn,)
    chosen = {tuple(step % size for size in sizes.values()) for step in steps}
    return lambda place: tuple(place.get(name, 0) for name in sizes) in chosen


def _spread(size: int, count: int) -> set[int]:
    """``count`` numbers below ``size``, as far apart as can be; all of them where there are no more."""
    count = min(count, size)
    return {step * (size - 1) // max(count - 1, 1) for step in range(count)}
