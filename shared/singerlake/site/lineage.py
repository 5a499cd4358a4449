"""What is made from what: tap, stream, table, statement. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from singerlake.humanize import counted

Kind = Literal["tap", "stream", "table", "statement"]
Id = tuple[str, ...]
"""What a thing is known by: its kind, and its names."""
DEPTH = 5
"""Statements over statements that have columns of their own; whatever is deeper shares the last."""


@dataclass(frozen=True, slots=True)
class Thing:
    """A tap, a stream or a table, or several of a kind as one. ``path`` is None where it has no page. ``word`` and
    ``tone`` are how it stands, see ``Finding``."""

    kind: Kind
    name: str
    path: str | None = None
    word: str = ""
    tone: str = "plain"


@dataclass(slots=True)
class Lineage:
    """Things, in an order that a reader expects, and which is made from which: ``above`` it is what it is made from,
    ``below`` what is made from it; ``order`` numbers them."""

    things: dict[Id, Thing] = field(default_factory=dict)
    above: dict[Id, list[Id]] = field(default_factory=lambda: defaultdict(list))
    below: dict[Id, list[Id]] = field(default_factory=lambda: defaultdict(list))
    order: dict[Id, int] = field(default_factory=dict)

    def add(self, id: Id, thing: Thing, made_from: Iterable[Id] = ()) -> None:
        """One more thing; what it is made from is there, or will be."""
        self.things[id] = thing
        self.order[id] = len(self.order)
        for each in dict.fromkeys(made_from):
            self.above[id].append(each)
            self.below[each].append(id)

    def reached(self, start: Iterable[Id], steps: Mapping[Id, Sequence[Id]]) -> set[Id]:
        """All that is reached from ``start``, which is part of it, by ``steps``: ``above`` or ``below``. A circle,
        which only a broken state can have, ends."""
        found: set[Id] = set()
        left = list(start)
        while left:
            each = left.pop()
            if each not in found:
                found.add(each)
                left += steps.get(each, ())
        return found

    def around(self, *ids: Id) -> Lineage:
        """These things with all that they are made from, and all that is made from them."""
        return self.only(self.reached(ids, self.above) | self.reached(ids, self.below))

    def only(self, ids: set[Id]) -> Lineage:
        """Some of it; takes as long as what is kept is large."""
        made = Lineage()
        for id in sorted(ids, key=self.order.__getitem__):
            made.add(id, self.things[id], (each for each in self.above.get(id, ()) if each in ids))
        return made

    def joined(self, into: Callable[[Id], Id], things: Mapping[Id, Thing]) -> Lineage:
        """The same with each thing as part of ``into(it)``, one of ``things``."""
        made = Lineage()
        made_from: dict[Id, list[Id]] = {id: [] for id in things}
        for id in self.things:
            mine = into(id)
            made_from[mine] += [each for each in map(into, self.above.get(id, ())) if each != mine]
        for id, thing in things.items():
            made.add(id, thing, made_from[id])
        return made

    def by_tap(self, path_of: Callable[[Kind, Sequence[str]], str | None]) -> Lineage:
        """Of each tap all streams as one thing, and so all tables, and statements, that are made from the same taps.
        ``path_of`` says where the page of such a thing is, by its kind and the names of the taps."""
        members: dict[Id, list[Id]] = defaultdict(list)
        group: dict[Id, Id] = {}
        for id, thing in self.things.items():
            taps = sorted(name for kind, name, *_ in self.reached([id], self.above) if kind == "tap")
            group[id] = id if thing.kind == "tap" else (f"{thing.kind}s", *taps)
            members[group[id]].append(id)
        things = {id: self._together(id, each, path_of) for id, each in members.items()}
        return self.joined(group.__getitem__, things)

    def at_most(self, most: int, first: Id | None = None) -> Lineage:
        """The same with at most so many things of a kind, ``first`` among them; the last of them stands for all
        others."""
        kinds: dict[Kind, list[Id]] = defaultdict(list)
        for id in sorted(self.things, key=lambda id: id != first):
            kinds[self.things[id].kind].append(id)
        rest: dict[Id, Id] = {}
        things = dict(self.things)
        for kind, ids in kinds.items():
            if len(ids) > most:
                others = ids[most - 1 :]
                worst = self._worst(others)
                more: Id = (f"more {kind}s",)
                rest |= dict.fromkeys(others, more)
                things[more] = Thing(kind, f"{len(others):,} more {kind}s", None, worst.word, worst.tone)
        if not rest:
            return self
        return self.joined(lambda id: rest.get(id, id), {id: each for id, each in things.items() if id not in rest})

    def _together(self, group: Id, ids: Sequence[Id], path_of: Callable[[Kind, Sequence[str]], str | None]) -> Thing:
        first = self.things[ids[0]]
        if len(ids) == 1:
            return first
        worst = self._worst(ids)
        return Thing(first.kind, counted(len(ids), first.kind), path_of(first.kind, group[1:]), worst.word, worst.tone)

    def _worst(self, ids: Sequence[Id]) -> Thing:
        tones = ("bad", "warm", "plain", "good")
        return min((self.things[id] for id in ids), key=lambda thing: tones.index(thing.tone))

    def layers(self) -> list[list[Id]]:
        """Taps, streams, tables, and statements by how many statements lie between them and tables. Layers in which
        nothing is are left out."""
        at: dict[Id, int] = {}
        for id, thing in self.things.items():
            at[id] = {"tap": 0, "stream": 1, "table": 2, "statement": 3}[thing.kind]
        deepest = 3 + DEPTH
        for _ in range(DEPTH):
            for id, thing in self.things.items():
                if thing.kind == "statement":
                    above = (at[each] for each in self.above.get(id, ()) if each != id)
                    at[id] = max(at[id], min(max(above, default=0) + 1, deepest))
        found: list[list[Id]] = [[] for _ in range(deepest + 1)]
        for id in self.things:
            found[at[id]].append(id)
        return [layer for layer in found if layer]
