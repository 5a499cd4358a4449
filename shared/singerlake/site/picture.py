"""Where the boxes and lines of a lineage stand: from left to right where there is room, and from top to bottom as an
outline where there is little, as on a telephone. Pure; all lengths are pixels, so that text keeps its size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from singerlake.humanize import cell_width, counted, cut, shown
from singerlake.site.lineage import Id, Lineage

WIDTH, HEIGHT = 176, 32
"""Size of a box."""
_GAP, _ROW = 40, 42
"""Between two columns of boxes, and from one row to the next. Five columns fit a page."""
_TOP = 30
"""For the words above the columns."""
_OUTLINE, _STEP, _LINE = 326, 20, 40
"""Width of the outline, how far each layer is set in, and from one row to the next."""
_FEW = 8
_CHARACTER = 7.6
"""Width of a character, about."""
_BESIDE = 30
"""Pixels of a box beside its text."""
_NAME = 200
"""Characters of a name in the title of a box that is too small for it."""


@dataclass(frozen=True, slots=True)
class Box:
    """A thing at its place. ``text`` is what of its name there is room for, ``says`` is more of it, and how it stands;
    ``warns``: not well. ``css`` are its classes, ``path`` is the page that it leads to."""

    x: int
    y: int
    width: int
    text: str
    says: str
    css: str
    warns: bool
    path: str | None


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawing. ``lines`` are paths of SVG; ``heads`` are words with the place of each."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    heads: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """The same both ways, and in words."""

    across: Layout
    down: Layout
    says: str


def picture(lineage: Lineage, here: Id | None = None) -> Picture | None:
    """The picture of a lineage; None where there are not two things to connect."""
    if not any(lineage.above.values()):
        return None
    layers = lineage.layers()
    heads = [lineage.things[layer[0]].kind.capitalize() for layer in layers]
    # Of statements over statements one word is enough.
    heads = [head if head not in heads[:number] else "" for number, head in enumerate(heads)]
    at = _places(lineage, layers)
    counts = Counter(lineage.things[id].kind for layer in layers for id in layer)
    says = ", ".join(counted(count, kind) for kind, count in counts.items())
    return Picture(_across(lineage, layers, heads, at, here), _down(lineage, layers, at, here), says)


def _places(lineage: Lineage, layers: Sequence[Sequence[Id]]) -> dict[Id, float]:
    """How far down each thing stands: in the fullest layer one after another, and beside it in the middle of what it
    is connected with, where that is free."""
    base = max(range(len(layers)), key=lambda number: len(layers[number]))
    at: dict[Id, float] = {id: float(_ROW * row) for row, id in enumerate(_in_order(lineage, layers, base))}
    for number in range(base + 1, len(layers)):
        _place(layers[number], lineage.above, at)
    for number in range(base - 1, -1, -1):
        _place(layers[number], lineage.below, at)
    return at


def _in_order(lineage: Lineage, layers: Sequence[Sequence[Id]], base: int) -> Sequence[Id]:
    """The fullest layer so that what comes from one thing stands together."""
    order: dict[Id, int] = {}

    def after(id: Id) -> int:
        return min((order[each] for each in lineage.above.get(id, ()) if each in order), default=len(order))

    for layer in layers[: base + 1]:
        order |= {id: number for number, id in enumerate(sorted(layer, key=after), len(order))}
    return sorted(layers[base], key=order.__getitem__)


def _place(layer: Sequence[Id], connected: Mapping[Id, Sequence[Id]], at: dict[Id, float]) -> None:
    """A layer beside those that are placed; what is connected with nothing comes last."""
    wanted: dict[Id, float] = {}
    for id in layer:
        places = [at[each] for each in connected.get(id, ()) if each in at]
        # In the middle of few, and at the beginning of many, where it is seen.
        wanted[id] = (sum(places) / len(places) if len(places) <= _FEW else min(places)) if places else math.inf
    free = 0.0
    for id in sorted(layer, key=wanted.__getitem__):
        at[id] = max(wanted[id], free) if wanted[id] < math.inf else free
        free = at[id] + _ROW


def _across(
    lineage: Lineage, layers: Sequence[Sequence[Id]], heads: Sequence[str], at: Mapping[Id, float], here: Id | None
) -> Layout:
    left = {id: number * (WIDTH + _GAP) for number, layer in enumerate(layers) for id in layer}
    corner = {id: (x, _TOP + round(at[id])) for id, x in left.items()}
    lines = []
    for above, below in _connections(lineage):
        (x, y), (to_x, to_y) = corner[above], corner[below]
        x, y, to_y = x + WIDTH, y + HEIGHT // 2, to_y + HEIGHT // 2
        half = (x + to_x) // 2
        lines.append(f"M{x} {y}C{half} {y} {half} {to_y} {to_x} {to_y}")
    return Layout(
        width=len(layers) * (WIDTH + _GAP) - _GAP,
        height=max(y for _, y in corner.values()) + HEIGHT + 2,
        boxes=tuple(_box(lineage, id, x, y, WIDTH, here) for id, (x, y) in corner.items()),
        lines=tuple(lines),
        heads=tuple((number * (WIDTH + _GAP), head) for number, head in enumerate(heads) if head),
    )


def _down(lineage: Lineage, layers: Sequence[Sequence[Id]], at: Mapping[Id, float], here: Id | None) -> Layout:
    depth = {id: number for number, layer in enumerate(layers) for id in layer}
    corner = {id: (depth[id] * _STEP, row * _LINE + 1) for row, id in enumerate(_outline(lineage, layers, at))}
    lines = []
    for above, below in _connections(lineage):
        (x, y), (to_x, to_y) = corner[above], corner[below]
        lines.append(f"M{x + _STEP // 2} {y + HEIGHT}V{to_y + HEIGHT // 2}H{to_x}")
    return Layout(
        width=_OUTLINE,
        height=len(corner) * _LINE,
        boxes=tuple(_box(lineage, id, x, y, _OUTLINE - x - 1, here) for id, (x, y) in corner.items()),
        lines=tuple(lines),
    )


def _outline(lineage: Lineage, layers: Sequence[Sequence[Id]], at: Mapping[Id, float]) -> list[Id]:
    """Each thing below the last of what it is made from."""
    waits = {id: len(lineage.above.get(id, ())) for layer in layers for id in layer}
    ordered: dict[Id, None] = {}
    left = sorted((id for id, count in waits.items() if not count), key=at.__getitem__, reverse=True)
    while left:
        id = left.pop()
        ordered[id] = None
        for below in sorted(lineage.below.get(id, ()), key=at.__getitem__, reverse=True):
            waits[below] -= 1
            if not waits[below]:
                left.append(below)
    # What waits for itself, in a circle, comes last.
    return [*ordered, *(id for id in waits if id not in ordered)]


def _connections(lineage: Lineage) -> Iterator[tuple[Id, Id]]:
    for id in lineage.things:
        for above in lineage.above.get(id, ()):
            yield above, id


def _box(lineage: Lineage, id: Id, x: int, y: int, width: int, here: Id | None) -> Box:
    thing = lineage.things[id]
    name = shown(thing.name) if thing.name.strip() else repr(thing.name)
    return Box(
        x=x,
        y=y,
        width=width,
        text=fitting(name, int((width - _BESIDE) / _CHARACTER)),
        says=f"{thing.kind} {cut(name, _NAME)}{f': {thing.word}' if thing.word else ''}",
        css=f"{thing.kind} {thing.tone}{' here' if id == here else ''}",
        warns=thing.tone in ("bad", "warm"),
        path=None if id == here else thing.path,
    )


def fitting(name: str, cells: int) -> str:
    """As much of a name as so many cells have room for; characters of East Asia take two."""
    if cell_width(name) <= cells:
        return name
    taken, kept = 1, 0
    for char in name:
        taken += max(1, cell_width(char))
        if taken > cells:
            break
        kept += 1
    return name[:kept] + "…"
