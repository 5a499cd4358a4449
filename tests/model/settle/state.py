"""What the model of entries and settle records is made of: the storage, settlers and a trimmer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

ABSENT, COUNTS, STALE, GONE = "absent", "counts", "stale", "gone"


class SettleRecord(NamedTuple):
    """A record: who wrote it and its number, the record before it, and its entries in order."""

    id: str
    after: str
    entries: tuple[int, ...]


Log = tuple[SettleRecord, ...]


class Settler(NamedTuple):
    """``state`` is the record it goes on from, ``found`` what it listed and has not seen in a record, ``looks`` and
    ``expects`` the record it looks into next, ``held`` the entries it read."""

    at: str
    left: int
    state: str = ""
    number: int = 0
    found: tuple[int, ...] = ()
    looks: int = 0
    expects: str = ""
    held: tuple[int, ...] = ()


class Trimmer(NamedTuple):
    """``names`` are the entries to remove, then ``numbers`` the records."""

    at: str
    left: int
    names: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()


class State(NamedTuple):
    """``base`` is the newest snapshot; ``records`` are those on storage by number, from 1 on; those up to ``floor`` may
    be gone. The birth, number 0, is left out."""

    entries: tuple[str, ...]
    records: tuple[SettleRecord | None, ...]
    base: Log
    floor: int
    restores: int
    broken: str
    settlers: tuple[Settler, ...]
    trimmer: Trimmer


Steps = Iterator[tuple[str, State]]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The bounds, and the rules. With a rule off it is a faulty variant.

    ``rounds`` for each settler, and so many ``trims``, each of which keeps the last record. The ``entries`` come at any
    time, unless they are ``written`` already. The first ``stale`` entries
    are written by a clock too wrong to count; ``restores``: how often the bucket may be restored, after which all look
    as if they counted, or as if none did.
    """

    entries: int = 3
    written: bool = False
    stale: int = 0
    rounds: tuple[int, ...] = (2, 2)
    trims: int = 0
    restores: int = 0
    if_absent: bool = True
    entries_first: bool = True
    entries_read_last: bool = True
    led_here: bool = True
    read_back: bool = True


@cache
def read(base: Log, records: tuple[SettleRecord | None, ...]) -> Log | None:
    """The log as its readers have it: the base with the tail after it, None where that does not fit together."""
    log = base
    for number in range(len(base), len(records)):
        record = records[number]
        if record is None:
            continue
        if number != len(log) or record.after != (log[-1].id if log else ""):
            return None
        log = (*log, record)
    return log


def with_settler(state: State, place: int, settler: Settler) -> State:
    """``state`` where one of them moved on."""
    return state._replace(settlers=(*state.settlers[:place], settler, *state.settlers[place + 1 :]))


def with_entry(state: State, entry: int, status: str) -> State:
    """``state`` with another status of one entry."""
    return state._replace(entries=(*state.entries[:entry], status, *state.entries[entry + 1 :]))


def said(log: Log) -> str:
    """A log as a trace shows it."""
    return " | ".join(",".join(map(str, record.entries)) + f" by {record.id[0]}" for record in log) or "nothing"
