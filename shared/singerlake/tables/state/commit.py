"""Reading and replacing a table's state: one object, one conditional write.

A refused or lost write is looked up before anything follows from it: a balancer that sends a request again answers 412
to a write that took effect. A state may have been edited, cut, merged or forged. One that passes ``checked`` names no
object but files of the table, and holds nothing that the code behind it does not expect (section 14.1 of the format).
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from singerlake.arrow.schema.columns import Array, Boolean, Column, Date, Decimal, Double, Integer, Struct, Timestamp
from singerlake.clock import parse_timestamp
from singerlake.errors import (
    ConditionNotSupportedError,
    CorruptObjectError,
    ForeignManifestError,
    LakeError,
    UnknownOutcomeError,
)
from singerlake.storage.port import Refused, Storage, Stored
from singerlake.tables.state.arbitrated import ArbitratedStorage
from singerlake.tables.state.keys import (
    PUBLISHED,
    is_data_path,
    is_side_path,
    partition_segment,
    side_path,
    state_key,
    table_of,
)
from singerlake.tables.state.model import MEND, TableFile, TableState, from_json, nothing_of, to_json
from singerlake.tables.state.types import PARTITION, column_of, sort_key


@dataclass(frozen=True, slots=True)
class StoredState:
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


def load(storage: Storage, table: str) -> StoredState | None:
    """The table's state; None where there is none. Raises ``CorruptObjectError``, ``UnsupportedFormatError``,
    ``ForeignManifestError``, and what storage raises."""
    key = state_key(table)
    stored = storage.get(key)
    return None if stored is None else StoredState(_read(stored, table, key), stored.etag)


def load_to_replace(storage: Storage, table: str) -> StoredState | None:
    """The same for who goes on from nothing that is stored: a broken state is given as ``broken``. Raises
    ``UnsupportedFormatError``, ``ForeignManifestError`` where it is that of a table whose name differs in case alone,
    and what storage raises."""
    key = state_key(table)
    stored = storage.get(key)
    if stored is None:
        return None
    try:
        return StoredState(_read(stored, table, key), stored.etag)
    except _OtherCaseError:
        # The other table is whole, and is not to go.
        raise
    except (CorruptObjectError, ForeignManifestError) as error:
        return StoredState(nothing_of(table), stored.etag, error)


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


def require_conditions(storage: Storage, *, log: str) -> None:
    """Raise ``ConditionNotSupportedError`` where storage was seen to ignore conditions, and no database arbitrates, or
    it cannot, as for a table with ``log``, such as a Delta log: two runs at once would lose rows there. Raises
    ``ConditionsUnprovenError``."""
    if storage.capabilities().conditional_put:
        return
    if not isinstance(storage, ArbitratedStorage):
        raise ConditionNotSupportedError(
            "this storage does not honour conditional writes, and tables need them",
            hint="move the lake to the manifest store postgres or dynamodb with 'singerlake store migrate', or use "
            "another storage; raw streams can stay where they are",
            lake_root=storage.url,
        )
    if log:
        raise ConditionNotSupportedError(
            f"this storage does not honour conditional writes, and {log} needs them",
            hint="declare another format, without 'also'",
            lake_root=storage.url,
        )


def commit(storage: Storage, base: StoredState | None, state: TableState) -> StoredState | None:
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
            return StoredState(state, answer.etag)
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


def checked(state: TableState, key: str) -> TableState:
    """The state itself. Raises ``CorruptObjectError`` naming ``key`` and what cannot be."""
    what = next(_contradictions(state, key), None)
    if what is not None:
        raise CorruptObjectError(f"the state of a table cannot be: {what}", hint=MEND, key=key)
    return state


def _contradictions(state: TableState, key: str) -> Iterator[str]:
    if state.number < 1 or state.generation < 0:
        yield "its number or its generation is less than the first one"
    if len(state.sources) != (1 if state.is_published and not state.is_of_statement else 0):
        yield f"it has {len(state.sources)} sources"
    if any(not (each.tap and each.stream and each.lineage) or each.offset < 0 for each in state.sources):
        yield "its source is not a stream, or has an offset less than 0"
    if any(not 0 <= each.begin <= each.offset for each in state.sources):
        yield "its source begins behind its end, or at an offset less than 0"
    ends = [0, *(each.offset for each in state.earlier), *(each.offset for each in state.sources)]
    if any(after < before for before, after in pairwise(ends)):
        yield "what it was declared before ends at offsets that are not in order"
    if state.made_from and not (state.is_published and state.is_of_statement):
        yield "it was made from tables, and not by a statement"
    if any(each.up_to is not None and each.up_to.end < 0 for each in state.made_from):
        yield "it was made from a table up to less than its beginning"
    if state.files and not state.is_published:
        yield "it has files and was never published"
    names = [column.name for column in state.columns]
    if len(set(names)) != len(names):
        yield "two columns have one name"
    types = {column.name: column_of(column.type, key=key) for column in state.columns}
    parts = next((at for at, name in enumerate(state.order) if name != f"{PARTITION}{at}"), len(state.order))
    known = all(name in types and not isinstance(types[name], Array | Struct) for name in state.order[parts:])
    if not known or not set(state.key) <= set(names):
        yield "its order or its key has columns that it does not have"
        return
    for file in state.retired:
        if file.bytes < 0 or not (is_data_path(file.path, state.table) or is_side_path(file.path)):
            yield "it retired what is not a file of the table"
    yield from _of_files(state, [None] * parts + [types[name] for name in state.order[parts:]], parts)


def _of_files(state: TableState, order: Sequence[Column | None], parts: int) -> Iterator[str]:
    paths = [path for file in state.files for path in file.paths]
    if len(set(paths)) != len(paths):
        yield "a file is there twice"
    before = None
    for file in state.files:
        what = _of_file(state, file, parts)
        if what:
            yield f"file {file.id[:16]!r} {what}"
            return
        ends = [_decoded(end, order) for end in (file.first, file.last)]
        if None in ends:
            yield f"file {file.id!r} has a range that is not a place in the table's order"
            return
        first, last = ends
        if first > last or (before is not None and before > first):
            yield f"file {file.id!r} is not in the table's order"
            return
        before = last


def _of_file(state: TableState, file: TableFile, parts: int) -> str:
    """What of one file cannot be; empty where all can."""
    if file.path is None:
        if file.rows or file.hidden is None or file.typed is not None:
            return "has no path, and is not one of hidden records alone"
    elif not _is_own(state, file):
        return "has a path that is not its own"
    if any(side.path != side_path(kind, file.id) for kind, side in file.named_sides):
        return "goes with a file that is not its own"
    if len(file.partition) != parts or len(file.first) != len(state.order) or len(file.last) != len(state.order):
        return "has a range or partitions of another length than the table's order"
    if min(file.rows, file.bytes, file.rescued, *(min(side.rows, side.bytes) for side in file.sides)) < 0:
        return "has a size less than 0"
    least, greatest = file.offsets
    end = state.sources[0].offset if state.sources else 1
    if not 0 <= least <= greatest < end or (file.versions and file.versions[0] > file.versions[1]):
        return "has offsets or versions that the table cannot have"
    return ""


def _is_own(state: TableState, file: TableFile) -> bool:
    assert file.path is not None
    if not is_data_path(file.path, state.table):
        return False
    generation, *folders, name = file.path.split("/")
    return (
        int(generation[1:]) <= state.generation
        and len(folders) == len(file.partition)
        and all(
            folder.endswith(f"-{partition_segment(value)}")
            for folder, value in zip(folders, file.partition, strict=True)
        )
        and name.rpartition("-")[2].partition(".")[0] == file.id
        and name.endswith(".parquet") == (file.typed is None)
    )


def _decoded(values: Sequence[Any], order: Sequence[Column | None]) -> Any:
    """What a range's end is compared by; None where it is none."""
    try:
        return sort_key(tuple(_value(value, column) for value, column in zip(values, order, strict=True)))
    except (TypeError, ValueError, ArithmeticError):
        return None


def _value(value: Any, column: Column | None) -> Any:
    """A value of a simple type, or of a partition (None), as a state has it. Raises ``TypeError``, ``ValueError``,
    ``ArithmeticError``."""
    if value is None and column is not None:
        return None
    if isinstance(column, Boolean | Integer):
        wanted: type = bool if isinstance(column, Boolean) else int
        if type(value) is not wanted:
            raise TypeError
        return value
    if isinstance(column, Double):
        if isinstance(value, bool):
            raise TypeError
        return float(value)
    if not isinstance(value, str):
        raise TypeError
    if isinstance(column, Date):
        return datetime.date.fromisoformat(value)
    if isinstance(column, Decimal):
        number = decimal.Decimal(value)
        if not number.is_finite():
            raise ValueError
        return number
    if isinstance(column, Timestamp):
        moment = parse_timestamp(value)
        if moment is None:
            raise ValueError
        return moment
    return value
