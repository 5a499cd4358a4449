"""Reading and replacing a table's state: one object, one conditional write.

A refused or lost write is looked up before anything follows from it: a balancer that sends a request again answers 412
to a write that took effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from singerlake.errors import (
    ConditionNotSupportedError,
    CorruptObjectError,
    ForeignManifestError,
    LakeError,
    UnknownOutcomeError,
)
from singerlake.storage.port import Refused, Storage, Stored
from singerlake.tables.declaration.model import Format
from singerlake.tables.state.arbitrated import ArbitratedStorage
from singerlake.tables.state.check import checked
from singerlake.tables.state.keys import PUBLISHED, state_key, table_of
from singerlake.tables.state.model import TableState, from_json, nothing_of, to_json


@dataclass(frozen=True, slots=True)
class Found:
    """A state as it was read. ``etag`` is what the next write is conditional on. ``broken`` says why what is stored
    cannot be used; ``state`` is one without anything then."""

    state: TableState
    etag: str
    broken: LakeError | None = None


class _OtherCaseError(ForeignManifestError):
    """The state is that of a table whose name differs in case alone."""


def tables(storage: Storage) -> list[str]:
    """Names of all tables of a lake that have a folder, in order."""
    names = (table_of(folder) for folder in storage.list_folder(f"{PUBLISHED}/").folders)
    return sorted(name for name in names if name is not None)


def published(storage: Storage) -> Iterator[str]:
    """Of these the names of those that readers find; a table that cannot be read is none. Reads the state of each."""
    for name in tables(storage):
        with suppress(LakeError):
            found = load(storage, name)
            if found is not None and found.state.is_published:
                yield name


def sources(storage: Storage) -> Callable[[str], tuple[str, str] | None]:
    """What gives the tap and the stream that a table is made from; None where there is no table of that name, or its
    state cannot be read. Which tables there are is looked up once."""
    there = cache(lambda: frozenset(tables(storage)))

    def source(table: str) -> tuple[str, str] | None:
        if table not in there():
            return None
        try:
            found = load(storage, table)
        except LakeError:
            return None
        if found is None or not found.state.sources:
            return None
        first = found.state.sources[0]
        return first.tap, first.stream

    return source


def tables_from(storage: Storage, tap: str) -> dict[str, tuple[str, ...]]:
    """The tables that were made from each stream of a tap, by the stream's name."""
    source, made = sources(storage), dict[str, tuple[str, ...]]()
    for table in tables(storage):
        found = source(table)
        if found is not None and found[0] == tap:
            made[found[1]] = (*made.get(found[1], ()), table)
    return made


def load(storage: Storage, table: str) -> Found | None:
    """The table's state; None where there is none. Raises ``CorruptObjectError``, ``UnsupportedFormatError``,
    ``ForeignManifestError``, and what storage raises."""
    key = state_key(table)
    stored = storage.get(key)
    return None if stored is None else Found(_read(stored, table, key), stored.etag)


def load_to_replace(storage: Storage, table: str) -> Found | None:
    """The same for who goes on from nothing that is stored: a broken state is given as ``broken``. Raises
    ``UnsupportedFormatError``, ``ForeignManifestError`` where it is that of a table whose name differs in case alone,
    and what storage raises."""
    key = state_key(table)
    stored = storage.get(key)
    if stored is None:
        return None
    try:
        return Found(_read(stored, table, key), stored.etag)
    except _OtherCaseError:
        # The other table is whole, and is not to go.
        raise
    except (CorruptObjectError, ForeignManifestError) as error:
        return Found(nothing_of(table), stored.etag, error)


def _read(stored: Stored, table: str, key: str) -> TableState:
    state = from_json(stored.body, key=key)
    if state.table != table and state.table.lower() == table.lower():
        raise _OtherCaseError(
            f"this storage does not tell table {table!r} from {state.table!r}",
            hint="give one of them a name that differs in more than case",
            key=key,
        )
    if state.table != table:
        raise ForeignManifestError(
            f"this is the state of table {state.table!r}", hint="restore the table's own, or drop the table", key=key
        )
    return checked(state, key)


def require_conditions(storage: Storage, format: str) -> None:
    """Raise ``ConditionNotSupportedError`` where storage was seen to ignore conditions, and no database arbitrates, or
    cannot for a table of that format: two runs at once would lose rows there. Raises ``ConditionsUnprovenError``."""
    if storage.capabilities().conditional_put:
        return
    if not isinstance(storage, ArbitratedStorage):
        raise ConditionNotSupportedError(
            "this storage does not honour conditional writes, and tables need them",
            hint="move the lake to the manifest store postgres or dynamodb with 'singerlake store migrate', or use "
            "another storage; raw streams can stay where they are",
            lake_root=storage.url,
        )
    if format == Format.DELTA:
        raise ConditionNotSupportedError(
            "this storage does not honour conditional writes, and a Delta log needs them",
            hint="declare another format",
            lake_root=storage.url,
        )


def commit(storage: Storage, base: Found | None, state: TableState) -> Found | None:
    """Replace ``base`` (None: nothing) with ``state``, whose id is new. None where somebody else came first; then
    nothing of it took or will take effect.

    Raises ``UnknownOutcomeError`` where that cannot be told: no file may be deleted then. Raises what storage raises.
    """
    key = state_key(state.table)
    # A state that no reader takes must never replace one that they do.
    body = to_json(checked(state, key))
    lost: UnknownOutcomeError | None = None
    try:
        absent, etag = base is None, base.etag if base else None
        answer = storage.put(key, body, if_absent=absent, if_match=etag)
        if not isinstance(answer, Refused):
            return Found(state, answer.etag)
    except UnknownOutcomeError as error:
        lost = error
    now = load_to_replace(storage, state.table)
    if now is not None and now.state.knows(state.id):
        return now
    unchanged = (now.etag if now else None) == (base.etag if base else None)
    if lost is not None and unchanged:
        # The request may still be on its way: only another write makes sure that its condition no longer holds.
        raise lost
    if now is not None and base is not None and now.state.number - base.state.number > len(now.state.runs):
        raise UnknownOutcomeError(
            "the table was written so often meanwhile that its state no longer tells",
            hint="run again; what was written is not deleted",
            key=key,
        )
    return None
