"""Whether what a stored state says can be true (section 14.1 of the format). Pure.

A state may have been edited, cut, merged or forged. What passes here names no object but files of the table, and holds
nothing that the code behind it does not expect.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from singerlake.arrow.schema.columns import (
    Array,
    Boolean,
    Column,
    Date,
    Decimal,
    Double,
    Integer,
    Struct,
    Timestamp,
)
from singerlake.clock import parse_timestamp
from singerlake.errors import CorruptObjectError
from singerlake.tables.rows.partitions import PARTITION
from singerlake.tables.rows.types import column_of, place
from singerlake.tables.state.keys import is_data_path, is_side_path, partition_segment, side_path
from singerlake.tables.state.model import MEND, TableFile, TableState


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
        return place(tuple(_value(value, column) for value, column in zip(values, order, strict=True)))
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
