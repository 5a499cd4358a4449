"""Which tests answer within minutes, and which are for a look at everything.

``make test`` runs what is marked neither ``thorough`` nor ``soak``, ``make test-thorough`` what is ``thorough`` and not
``soak``, and ``make test-soak`` the rest: seeds and products that take long and find little. A test with a cluster, a
server or a Spark session of its own is marked by hand. Where a test has many cases, one of these marks says which of
them stay, which go to the next command, and which to the one after it. Commands follow each other as above, and the
first one of a test that is marked ``thorough`` is ``make test-thorough``. Of several marks the closest one counts.

``crossed("store", "fault")``
    A diagonal of the product of these parameters stays: each value of each is in one case at least. The diagonal beside
    it goes to the next command, the others to the last one.
``sampled(step=3)``
    Three values of this parameter stay, the first one, the last one, and one between them. The others go to the next
    command.
``in_turn("store")``
    One value stays, the next one for each test of a module: all tests together have each value. The value after it goes
    to the next command, of several parameters a diagonal, and the others to the last one.

What is not named in the mark stays whole. A test of random examples is also marked ``property``: ``make test-soak``
runs it once more with many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

import pytest

MARKS = ("crossed", "sampled", "in_turn")

Place = Mapping[str, int]
"""Which value a case has of each of its parameters, counted from 0."""


def mark_tiers(items: Iterable[pytest.Item]) -> None:
    """Mark the cases that a command leaves to another one; the cases of one test stand side by side in ``items``."""
    turns: dict[object, int] = {}
    items = list(items)
    for item in items:
        if hasattr(getattr(item, "obj", None), "hypothesis"):
            item.add_marker(pytest.mark.property)
    for (parent, _), same in groupby(items, lambda item: (item.parent, getattr(item, "originalname", item.name))):
        cases = list(same)
        mark = next((mark for mark in cases[0].iter_markers() if mark.name in MARKS), None)
        if mark is not None:
            turns[parent] = turns.get(parent, -1) + 1
            places = _places(cases)
            later = _later(mark, places, turns[parent])
            for case, place in zip(cases, places, strict=True):
                first = 1 if case.get_closest_marker("thorough") else 0
                if late := later(place):
                    case.add_marker(pytest.mark.thorough if first + late == 1 else pytest.mark.soak)


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


def _later(mark: pytest.Mark, places: Sequence[Place], turn: int) -> Callable[[Place], int]:
    """How many commands after a test's first one run a case."""
    sizes = {name: 1 + max(place.get(name, 0) for place in places) for name in (*mark.args, *mark.kwargs)}
    if mark.name == "sampled":
        spread = {name: _spread(sizes[name], count) for name, count in mark.kwargs.items()}
        return lambda place: 0 if all(place.get(name, 0) in kept for name, kept in spread.items()) else 1

    def diagonal(shift: int = 0) -> set[tuple[int, ...]]:
        return {
            tuple((step + shift * at) % size for at, size in enumerate(sizes.values()))
            for step in range(max(sizes.values()))
        }

    if mark.name == "crossed":
        chosen = [diagonal(), diagonal(1)]
    else:
        here = [{tuple((turn + shift) % size for size in sizes.values())} for shift in range(2)]
        chosen = [here[0], here[1] if len(sizes) == 1 else diagonal()]

    def later(place: Place) -> int:
        found = tuple(place.get(name, 0) for name in sizes)
        return next((late for late, cases in enumerate(chosen) if found in cases), len(chosen))

    return later


def _spread(size: int, count: int) -> set[int]:
    """``count`` numbers below ``size``, as far apart as can be; all of them where there are no more."""
    count = min(count, size)
    return {step * (size - 1) // max(count - 1, 1) for step in range(count)}
