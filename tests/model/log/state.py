"""What the model of the numbered log is made of: its storage, and everybody who calls it.

A state of the stream is its history: the transaction ids in order, so that its number is its length less one. Writer
``a`` gives birth as ``a0`` and commits ``a1``, ``a2``; ``o0`` is a birth from before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

History = tuple[str, ...]
Floor = tuple[int, int]
"""The floor, and the number of the snapshot that it names."""


class Record(NamedTuple):
    """What lies under a number: a transaction and the id of the one before it."""

    id: str
    after: str | None


class Actor(NamedTuple):
    """Where one writer, reader or trimmer stands.

    ``at`` is its next call to the storage, or ``!`` and what went wrong; ``then`` what that call is for, where it does
    not say so itself; ``left`` what it has yet to do. ``held`` is the state it goes on from; ``reading`` the one it
    puts together (or saw published), from number ``first`` on, through the numbers ``listed``, begun when ``since``
    transactions had been shown; ``doubt`` is what speaks against it. ``floor`` is the one it saw, ``goal`` the one it
    raises it to.
    """

    at: str
    then: str
    left: int
    held: History = ()
    reading: History = ()
    first: int = -1
    listed: tuple[int, ...] = ()
    doubt: str = ""
    since: int = 0
    floor: Floor | None = None
    goal: int = -1


class State(NamedTuple):
    """The storage, the network, and everybody. ``snapshots`` are those kept, in order of their numbers; ``flying`` is
    an append whose sender has given up on it; ``lost`` and ``removals`` are faults that may yet happen; ``shown`` is
    the longest history that anybody was shown, or told is committed."""

    records: tuple[Record | None, ...]
    manifest: History
    snapshots: tuple[History, ...]
    floor: Floor | None
    flying: tuple[int, Record] | None
    lost: int
    removals: int
    shown: History
    actors: tuple[Actor, ...]


Steps = Iterator[tuple[str, State]]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The bounds, and the rules. With a rule off, or in another ``trim_order``, it is a faulty variant.

    ``born``: the stream has its birth already; else everybody begins on an empty storage. ``commits`` for each writer,
    ``reads`` for each reader (a load, then catching up), ``trims`` for each
    trimmer, which keep the last ``keep``.
    ``lost``: how many appends may go without an answer: done, not done, or landing at any later time. ``removals``:
    how often ``manifest.json`` may be deleted. ``publishes``: writers publish at their end. ``replaced``: at any time
    somebody may put another log, of so many transactions, in the place of this one.
    """

    writers: int = 2
    commits: int = 1
    readers: int = 0
    reads: int = 1
    trimmers: int = 1
    trims: int = 0
    keep: int = 0
    lost: int = 0
    removals: int = 0
    replaced: int = 0
    born: bool = True
    publishes: bool = False
    floor_after_append: bool = True
    floor_after_tail: bool = True
    floor_before_doubt: bool = True
    continues: bool = True
    trim_order: tuple[str, ...] = ("snapshot", "publish", "raise", "remove")

    def name(self, place: int) -> str:
        """What an actor is called."""
        raise NotImplementedError

    def go_on(self, place: int, actor: Actor) -> Actor:
        """The actor at its next call, after what ``then`` was for."""
        raise NotImplementedError


Call = Callable[[Rules, State, int, Actor], Steps]
"""One call of an actor: all that may come of it."""


DONE = Actor("done", "", 0)
STOPPED = Actor("stopped", "", 0)


def with_actor(state: State, place: int, actor: Actor) -> State:
    """``state`` where one of them moved on."""
    actors = state[-1]
    return State._make((*state[:-1], (*actors[:place], actor, *actors[place + 1 :])))


def put(records: tuple[Record | None, ...], number: int, record: Record | None) -> tuple[Record | None, ...]:
    """The records with another one under ``number``."""
    return (*records[:number], record, *records[number + 1 :])


def snapshot_of(snapshots: tuple[History, ...], number: int) -> History:
    """The snapshot with this number; empty where there is none."""
    return next((kept for kept in snapshots if len(kept) == number + 1), ())


def said(history: History) -> str:
    """A history as a trace shows it."""
    return " ".join(history) or "nothing"


def said_floor(state: State) -> str:
    """The floor as a trace shows it."""
    return str(state.floor[0]) if state.floor else "none"


@cache
def read_at_once(
    records: tuple[Record | None, ...], manifest: History, snapshots: tuple[History, ...], floor: Floor | None
) -> History | None:
    """What a load would give if nothing came between its calls; None where it would fail."""
    state = manifest
    if floor is not None and len(state) - 1 < floor[0]:
        state = snapshot_of(snapshots, floor[1])
        if not state:
            return None
    first = len(state) - 1
    for number in range(first + 1, len(records)):
        record = records[number]
        if record is not None:
            if number != len(state) or record.after != (state[-1] if state else None):
                return None
            state = (*state, record.id)
    return None if floor is not None and floor[0] > first else state


def renamed(state: State, names: tuple[tuple[str, str], ...]) -> State:
    """``state`` with writers called otherwise, everywhere but in the order of the actors."""
    flying = state.flying
    return State(
        _records(state.records, names),
        _history(state.manifest, names),
        tuple(_history(kept, names) for kept in state.snapshots),
        state.floor,
        flying and (flying[0], _record(flying[1], names)),
        state.lost,
        state.removals,
        _history(state.shown, names),
        tuple(_actor(actor, names) for actor in state.actors),
    )


@cache
def _history(history: History, names: tuple[tuple[str, str], ...]) -> History:
    called = dict(names)
    return tuple(called.get(id[0], id[0]) + id[1:] for id in history)


@cache
def _records(records: tuple[Record | None, ...], names: tuple[tuple[str, str], ...]) -> tuple[Record | None, ...]:
    return tuple(record and _record(record, names) for record in records)


def _record(record: Record, names: tuple[tuple[str, str], ...]) -> Record:
    (id,) = _history((record.id,), names)
    return Record(id, record.after and _history((record.after,), names)[0])


@cache
def _actor(actor: Actor, names: tuple[tuple[str, str], ...]) -> Actor:
    return actor._replace(held=_history(actor.held, names), reading=_history(actor.reading, names))
