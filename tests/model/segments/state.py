"""The segments of a stream's states, as ``singerlake.stores`` names them and ``singerlake.upkeep.gc`` collects
them: what is stored, who names it, who reads it, and who collects it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

Names = frozenset[int]
"""Segments that a state names, by their places."""
NONE: Names = frozenset()
Busy = frozenset[str]
"""Who was at work at some moment, and still is; a grace time has passed since then once nobody is left."""
NOBODY: Busy = frozenset()
UNNOTED, UNNAMED, ABANDONED = 0, 1, 2
"""How far the collection of a segment is, in ``unnamed.json``."""


class Segment(NamedTuple):
    """``there``: the object is in the storage; ``written`` when; ``stage`` and ``noted``, when that came about."""

    there: bool = True
    written: Busy = NOBODY
    stage: int = UNNOTED
    noted: Busy = NOBODY


class Writer(NamedTuple):
    """``at`` is its next step; ``left`` its states to come; ``held`` what the state that it read names, which is there
    unchanged if ``current``; ``fresh`` the segment that it wrote, -1: none; ``memory`` one of an older state."""

    at: str
    left: int
    held: Names = NONE
    current: bool = False
    fresh: int = -1
    memory: int = -1


class Trimmer(NamedTuple):
    """The same of a trim; ``number`` is that of its snapshot."""

    at: str
    left: int
    held: Names = NONE
    current: bool = False
    fresh: int = -1
    number: int = -1


class Collector(NamedTuple):
    """``listed`` are the segments that are to take their next step where no state names them; ``named`` those that a
    state names which it read; ``asked`` is when it asked for the time with which it notes. ``current``: what is noted
    is unchanged since it was read."""

    at: str
    left: int
    listed: Names = NONE
    named: Names = NONE
    asked: Busy = NOBODY
    current: bool = False


class Reader(NamedTuple):
    """Reads one segment, which the state named that it loaded."""

    at: str
    segment: int = -1


class State(NamedTuple):
    """``manifest`` is what ``manifest.json`` names; ``snapshots`` the same of each snapshot, by number; ``floor`` the
    number of the snapshot that the floor names, -1: none; ``last`` the number of the last one. ``lost``: what a reader
    missed."""

    segments: tuple[Segment, ...]
    manifest: Names
    snapshots: tuple[tuple[int, Names], ...]
    floor: int
    last: int
    writers: tuple[Writer, ...]
    trimmers: tuple[Trimmer, ...]
    collectors: tuple[Collector, ...]
    readers: tuple[Reader, ...]
    lost: str = ""


Steps = Iterator[tuple[str, State]]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The bounds, and the rules. With a rule off it is a faulty variant.

    ``commits``: of each writer; ``trims``: of each trimmer; ``rounds``: of each collector; ``readers``, each reads
    once. ``born``: ``manifest.json`` names a segment already, which is old. ``keeps``: a state may name segments of the
    one that it replaces, and a snapshot new ones. Whoever is at work ends within a grace time, or dies.
    """

    commits: tuple[int, ...] = (1, 1)
    trims: tuple[int, ...] = ()
    rounds: tuple[int, ...] = (3,)
    readers: int = 0
    born: bool = False
    keeps: bool = True
    segments_first: bool = True
    only_replaced: bool = True
    publishes_fresh: bool = True
    listed_first: bool = True
    snapshots_read: bool = True
    old_only: bool = True
    asked_last: bool = True
    grace: bool = True
    twice: bool = True
    looked_again: bool = True
    stops: bool = True


def active(state: State) -> Busy:
    """Who is at work."""
    return frozenset(
        [
            *(writer_name(place) for place, each in enumerate(state.writers) if each.at not in ("open", "done")),
            *(trimmer_name(place) for place, each in enumerate(state.trimmers) if each.at not in ("open", "done")),
            *(collector_name(place) for place, each in enumerate(state.collectors) if each.at not in ("open", "done")),
            *(reader_name(place) for place, each in enumerate(state.readers) if each.at == "read"),
        ]
    )


def quiet(state: State) -> State:
    """The state, where whoever ended is in no moment any more."""
    working = active(state)
    segments = tuple(
        each._replace(written=each.written & working, noted=each.noted & working) for each in state.segments
    )
    collectors = tuple(each._replace(asked=each.asked & working) for each in state.collectors)
    return state._replace(segments=segments, collectors=collectors)


def compact(state: State) -> State:
    """The state without the places of segments that are gone, and that nobody knows."""
    used = set(state.manifest).union(*(names for _, names in state.snapshots))
    used.update(place for place, each in enumerate(state.segments) if each.there or each.stage)
    for writer in state.writers:
        used.update(writer.held, (writer.fresh, writer.memory))
    for trimmer in state.trimmers:
        used.update(trimmer.held, (trimmer.fresh,))
    for collector in state.collectors:
        used.update(collector.listed, collector.named)
    used.update(each.segment for each in state.readers)
    kept = [place for place in range(len(state.segments)) if place in used]
    if len(kept) == len(state.segments):
        return state
    to = {old: new for new, old in enumerate(kept)} | {-1: -1}

    def moved(names: Names) -> Names:
        return frozenset(to[place] for place in names)

    return state._replace(
        segments=tuple(state.segments[place] for place in kept),
        manifest=moved(state.manifest),
        snapshots=tuple((number, moved(names)) for number, names in state.snapshots),
        writers=tuple(
            each._replace(held=moved(each.held), fresh=to[each.fresh], memory=to[each.memory]) for each in state.writers
        ),
        trimmers=tuple(each._replace(held=moved(each.held), fresh=to[each.fresh]) for each in state.trimmers),
        collectors=tuple(
            each._replace(listed=moved(each.listed), named=moved(each.named)) for each in state.collectors
        ),
        readers=tuple(each._replace(segment=to[each.segment]) for each in state.readers),
    )


def with_segment(state: State, place: int, segment: Segment) -> State:
    """The state with another segment there."""
    return state._replace(segments=(*state.segments[:place], segment, *state.segments[place + 1 :]))


def published(state: State, names: Names) -> State:
    """The state with another ``manifest.json``: whoever read the one before it is refused."""
    return state._replace(
        manifest=names,
        writers=tuple(each._replace(current=False) for each in state.writers),
        trimmers=tuple(each._replace(current=False) for each in state.trimmers),
    )


def said(names: Names) -> str:
    """What a state names, as a trace shows it."""
    return ", ".join(str(place + 1) for place in sorted(names)) or "none"


def writer_name(place: int) -> str:
    return "abcd"[place]


def trimmer_name(place: int) -> str:
    return f"trimmer {place + 1}"


def collector_name(place: int) -> str:
    return f"collector {place + 1}"


def reader_name(place: int) -> str:
    return f"reader {place + 1}"
