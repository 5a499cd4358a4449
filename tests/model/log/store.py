"""The numbered log with its floor, snapshots and removal, as ``singerlake.stores.numbered`` and ``object_log`` go
about it: every call to the storage is one step, and anybody may stop for ever between two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.model.log import reads, trims, writes
from tests.model.log.state import DONE, Actor, History, Record, Rules, State, put, read_at_once, renamed

_WRITERS = "abcdefgh"
_CALLS = {**reads.CALLS, **writes.CALLS, **trims.CALLS}


@dataclass(frozen=True, kw_only=True)
class LogStore(Rules):
    """A stream in the store ``log``, as a model to explore."""

    def starts(self) -> Iterator[State]:
        born: History = ("o0",) if self.born else ()
        most = max(1 + self.writers * self.commits, self.replaced + self.writers * self.commits)
        first: tuple[Record | None, ...] = (Record("o0", None),) if self.born else ()
        opening = (
            Actor("append", "commit", self.commits, held=born) if self.born else Actor("load", "open", self.commits)
        )
        actors = [opening] * self.writers
        actors += [Actor("load", "read", self.reads)] * self.readers
        actors += [Actor("load", "trim", self.trims)] * (self.trimmers if self.trims else 0)
        yield State(
            records=first + (None,) * (most - len(first)),
            manifest=born,
            snapshots=(),
            floor=None,
            flying=None,
            lost=self.lost,
            removals=self.removals,
            shown=born,
            actors=tuple(actors),
        )

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for place, actor in enumerate(state.actors):
            call = _CALLS.get(actor.at)
            if call is not None:
                name = self.name(place)
                for label, after in call(self, state, place, actor):
                    yield f"{name} {label}", after
        if state.flying is not None:
            number, record = state.flying
            records = state.records if state.records[number] else put(state.records, number, record)
            yield f"the append of {number} {record.id} lands late", state._replace(records=records, flying=None)
        if state.removals and state.manifest:
            yield "manifest.json is deleted", state._replace(manifest=(), removals=state.removals - 1)
        if self.replaced and "n0" not in state.shown:
            yield "another log takes the place of this one", self._replace(state)

    def wrong(self, state: State) -> str | None:
        for place, actor in enumerate(state.actors):
            if actor.at.startswith("!"):
                return f"{self.name(place)}: {actor.at[1:]}"
        if self.replaced or not state.shown:
            return None
        now = read_at_once(state.records, state.manifest, state.snapshots, state.floor)
        if now is None:
            return "the stream cannot be read"
        if now[: len(state.shown)] != state.shown:
            return f"{', '.join(state.shown)} was shown, and now it is {', '.join(now)}"
        return None

    def like(self, state: State) -> State:
        """Writers are equals: they are put in order of where they stand, and called by their places."""
        count = self.writers
        actors = state.actors
        order = sorted(range(count), key=[_standing(actor) for actor in actors[:count]].__getitem__)
        if order == list(range(count)):
            return state
        names = tuple((_WRITERS[old], _WRITERS[new]) for new, old in enumerate(order))
        return renamed(state._replace(actors=(*(actors[old] for old in order), *actors[count:])), names)

    def name(self, place: int) -> str:
        """What an actor is called: ``a``, ``b``, ``c`` are writers."""
        if place < self.writers:
            return _WRITERS[place]
        return "reader" if place < self.writers + self.readers else "trimmer"

    def go_on(self, place: int, actor: Actor) -> Actor:
        """An actor after what it did for ``then``."""
        if actor.then == "read":
            left = actor.left - 1
            return actor._replace(at="catch up" if actor.held else "load", left=left) if left else DONE
        return {
            "open": writes.opened,
            "birth": writes.commit if actor.at in ("published", "publish") else writes.born,
            "commit": writes.commit,
            "trim": trims.loaded,
            "publish": trims.next_phase,
            "end": lambda *_: DONE,
        }[actor.then](self, place, actor)

    def _replace(self, state: State) -> State:
        ids = tuple(f"n{number}" for number in range(self.replaced))
        records = tuple(Record(id, ids[number - 1] if number else None) for number, id in enumerate(ids))
        return state._replace(
            records=records + (None,) * (len(state.records) - len(records)),
            manifest=ids[:1],
            snapshots=(),
            floor=None,
            shown=ids,
        )


@cache
def _standing(actor: Actor) -> tuple[object, ...]:
    return actor.at, actor.then, actor.left, len(actor.held), len(actor.reading), actor.first, actor.since
