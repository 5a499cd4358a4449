"""One file that records share, as ``singerlake.attached`` stores it and ``singerlake.upkeep.gc`` collects it: its
copies, who uses them, and who collects them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

UNKNOWN, RETIRED, SHOWN, DELETED = "", "retired", "shown", "deleted"
"""How far the collection of a copy is, in the stream's state."""


class Copy(NamedTuple):
    """``there``: the object is in the storage; ``listed``: how many listed data files have rows of it; ``stage`` with
    ``since``, the number of the retirement. ``recent``: who was at work when the last of these came about, and still
    is; a grace time has passed once nobody is left in it."""

    there: bool = False
    listed: int = 0
    stage: str = UNKNOWN
    since: int = 0
    recent: frozenset[str] = frozenset()


class Writer(NamedTuple):
    """``at`` is its next step; ``copy`` the one whose name it uses; ``left`` its data files to come; ``remembered`` the
    copy that it knows to be there, from 1; 0: none."""

    at: str
    left: int
    copy: int = 0
    remembered: int = 0


class Collector(NamedTuple):
    """``known`` is the state that it loaded, ``plan`` what it is about to do to the copy ``copy``."""

    at: str
    left: int
    known: tuple[Copy, ...] = ()
    plan: str = ""
    copy: int = 0


class Reader(NamedTuple):
    """Reads the copy ``copy`` once, which ``manifest.json`` listed."""

    at: str
    copy: int = 0


class State(NamedTuple):
    """``published``: which copies ``manifest.json`` lists; ``retirements``: how many there were; ``lost``: what a
    reader missed."""

    copies: tuple[Copy, ...]
    published: tuple[bool, ...]
    writers: tuple[Writer, ...]
    collectors: tuple[Collector, ...]
    readers: tuple[Reader, ...]
    erasures: int
    retirements: int = 0
    lost: str = ""


Steps = Iterator[tuple[str, State]]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The bounds, and the rules. With a rule off it is a faulty variant.

    ``files``: of each writer, data files with a row of the file; ``rounds``: of each collector; ``readers``, each reads
    once; ``erasures`` of a data file with a row. Whoever is at work ends within a grace time, or dies.
    """

    files: tuple[int, ...] = (1,)
    rounds: tuple[int, ...] = (3,)
    readers: int = 0
    erasures: int = 1
    copies: int = 3
    deletion_agreed: bool = True
    other_copy: bool = True
    shown_first: bool = True
    grace_before_deletion: bool = True
    since_said: bool = True
    looked_again: bool = True
    grace_before_forgetting: bool = True
    memory_ends: bool = True
    late_begins_anew: bool = True


def active(rules: Rules, state: State) -> frozenset[str]:
    """Who is at work: what it saw may be older than what is true now, by less than a grace time."""
    return frozenset(
        [
            *(
                writer_name(place)
                for place, writer in enumerate(state.writers)
                if writer.at not in ("open", "done")
                or (writer.remembered and rules.memory_ends and writer.at == "open")
            ),
            *(collector_name(place) for place, each in enumerate(state.collectors) if each.at not in ("load", "done")),
            *(reader_name(place) for place, each in enumerate(state.readers) if each.at == "read"),
        ]
    )


def aged(rules: Rules, state: State, copy: Copy, *, but: str) -> bool:
    """Whether a grace time has passed since the last step of a copy; ``but`` who asks."""
    return not (copy.recent & active(rules, state)) - {but}


def with_copy(state: State, place: int, copy: Copy) -> State:
    """The state with another copy."""
    return state._replace(copies=(*state.copies[:place], copy, *state.copies[place + 1 :]))


def with_collector(state: State, place: int, collector: Collector) -> State:
    """The state with a collector elsewhere."""
    return state._replace(collectors=(*state.collectors[:place], collector, *state.collectors[place + 1 :]))


def writer_name(place: int) -> str:
    return "abcd"[place]


def collector_name(place: int) -> str:
    return f"collector {place + 1}"


def reader_name(place: int) -> str:
    return f"reader {place + 1}"
