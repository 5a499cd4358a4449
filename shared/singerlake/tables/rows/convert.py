"""From the batches of a stream to the rows of a table: renamed, cast, checked, deletions marked."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import msgspec

from singerlake.arrow.schema.columns import Column, JsonText, Struct
from singerlake.arrow.schema.own import OFFSET, RESCUED, TABLE_VERSION, TIME, TYPE
from singerlake.arrow.values.values import parse, text_of
from singerlake.clock import timestamp
from singerlake.interpreter.process import with_room
from singerlake.tables.declaration.model import Action, Keep, NullKeys, TableDeclaration
from singerlake.tables.rows.cast import cast, with_rescued
from singerlake.tables.rows.columns import (
    CURRENT,
    DELETED,
    GONE,
    GONE_AT,
    MOMENT,
    SDC_DELETED,
    VALID_FROM,
    VALID_TO,
    WORKING,
    TableColumn,
    TableColumns,
)
from singerlake.tables.rows.conditions import holds
from singerlake.tables.rows.deletions import with_deletions
from singerlake.tables.rows.partitions import is_partition
from singerlake.tables.state.model import Activation

if TYPE_CHECKING:
    import pyarrow as pa


MOST = 100
"""Names that are counted: records may have any number of them."""
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KINDS = {'"': "a string", "{": "an object", "[": "an array", "t": "a boolean", "f": "a boolean", "n": "null"}


@dataclass(frozen=True, slots=True)
class Rescued:
    """``rows`` have a value of a property in ``_rescued_data``; ``first`` is the kind of the first one (``a string``).
    ``declared``: whether the property has a column, whose type the value does not fit."""

    rows: int
    first: str
    declared: bool


def count(texts: Iterable[str], columns: Mapping[str, Column], counted: dict[str, Rescued]) -> None:
    """Add the objects of ``_rescued_data`` to ``counted``, by the names of properties from the record inwards, as
    ``address.zip``. ``columns`` are the types that properties are read as."""
    for text in texts:
        for name, written, declared in _within(text, columns, ""):
            before = counted.get(name)
            if before is not None or len(counted) < MOST:
                rows, first = (
                    (0, _KINDS.get(written[:1], "a number")) if before is None else (before.rows, before.first)
                )
                counted[name] = Rescued(rows + 1, first, declared)


def add(counted: dict[str, Rescued], later: Mapping[str, Rescued]) -> None:
    """Add what was counted of later records."""
    for name, each in later.items():
        before = counted.get(name)
        if before is not None or len(counted) < MOST:
            first = each if before is None else before
            counted[name] = Rescued(each.rows + (before.rows if before else 0), first.first, first.declared)


def _within(text: str, columns: Mapping[str, Column], prefix: str) -> Iterator[tuple[str, str, bool]]:
    for name, written in _properties(text).items():
        column = columns.get(name)
        if isinstance(column, Struct) and written.startswith("{"):
            yield from _within(written, {field.name: field.type for field in column.fields}, f"{prefix}{name}.")
        else:
            yield prefix + name, written, column is not None


def _properties(text: str) -> dict[str, str]:
    try:
        return {name: bytes(written).decode() for name, written in _OBJECT.decode(text).items()}
    except msgspec.DecodeError:
        # Values that Python's parser alone takes are kept as they were written, NaN among them.
        found = with_room(partial(parse, text.encode()))
        return {name: text_of(value) for name, value in found.items()}


SHOWN = 5
"""Offsets of rows that a report names for each check."""


def working_schema(columns: TableColumns, keep: Keep) -> pa.Schema:
    """The columns of rows that are worked on, but for partitions."""
    import pyarrow as pa

    schema = columns.schema.append(pa.field(DELETED, pa.bool_()))
    return schema.append(pa.field(MOMENT, pa.timestamp("us", tz="UTC"))) if keep is Keep.HISTORY else schema


def without_working(rows: pa.Table, *kept: str) -> pa.Table:
    """``rows`` with the columns of the table alone, and those ``kept``."""
    gone = [name for name in rows.column_names if is_working(name) and name not in kept]
    return rows.drop_columns(gone) if gone else rows


def is_working(name: str) -> bool:
    """Whether a column of rows is not a column of the table."""
    return name in WORKING or is_partition(name)


@dataclass
class Seen:
    """What was seen of records while they became rows. ``failed`` and ``dropped`` count by check, ``examples`` are the
    first offsets of each; ``misfits`` counts by property that was rescued. ``least`` and ``greatest`` are of the
    versions of rows, ``unversioned`` says whether a row without one comes before all ``activations``. ``moment`` is the
    last time that a record was captured."""

    records: int = 0
    rescued: int = 0
    null_keys: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    warned: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[int]] = field(default_factory=dict)
    misfits: dict[str, Rescued] = field(default_factory=dict)
    activations: list[Activation] = field(default_factory=list)
    least: int | None = None
    greatest: int | None = None
    unversioned: bool = False
    moment: datetime | None = None

    def add(self, other: Seen) -> None:
        """Take in what was seen of later records."""
        self.records += other.records
        self.rescued += other.rescued
        add(self.misfits, other.misfits)
        self.null_keys += other.null_keys
        self.failed += other.failed
        self.dropped += other.dropped
        self.warned += other.warned
        for name, offsets in other.examples.items():
            self.examples[name] = (self.examples.get(name, []) + offsets)[:SHOWN]
        self.unversioned = self.unversioned or (other.unversioned and not self.activations)
        at = None if self.moment is None else timestamp(self.moment)
        for each in other.activations:
            self.activations.append(each if each.at else msgspec.structs.replace(each, at=at))
        self.moment = other.moment or self.moment
        self.note_versions(other.least, other.greatest)

    @property
    def has_one_version(self) -> bool:
        """Whether the same version is in force for all records."""
        return not self.activations and self.least == self.greatest and (self.least is None or not self.unversioned)

    def note_versions(self, least: int | None, greatest: int | None) -> None:
        """Take in the versions of more rows; None: they have none."""
        self.least = min((each for each in (self.least, least) if each is not None), default=None)
        self.greatest = max((each for each in (self.greatest, greatest) if each is not None), default=None)


NULL_KEY = "key not_null"
"""The check that every table with a key has."""
FITS = "fits its type"
"""What is checked of the property that tells deletions."""


@dataclass
class RowMaker:
    """Makes rows. ``key`` are properties; empty in a table that keeps all records."""

    declaration: TableDeclaration
    columns: TableColumns
    key: tuple[str, ...]

    def rows(self, batch: pa.RecordBatch, seen: Seen) -> pa.Table:
        """The rows of one batch, in order: the table's columns, and ``DELETED`` behind them. Raises ``SettingError``
        where a condition does not suit its column."""
        import pyarrow as pa

        # Not by pa.table: its interface of C cuts a name at a zero character.
        read = pa.Table.from_batches([batch])
        if TYPE in read.column_names:
            read = self._without_activations(read, seen)
        elif self.declaration.has_moments:
            seen.moment = _last(read.column(TIME)) or seen.moment
        rows = self._marked(self._typed(read), read, seen)
        if self.declaration.keep is Keep.HISTORY:
            rows = rows.append_column(MOMENT, read.column(TIME))
        rows = self._checked(rows, read, seen)
        seen.records += read.num_rows
        rescued = rows.column(RESCUED.name).drop_null()
        if len(rescued):
            seen.rescued += len(rescued)
            count(rescued.to_pylist(), self.columns.read_as, seen.misfits)
        _note_versions(rows, seen)
        return rows

    def _without_activations(self, read: pa.Table, seen: Seen) -> pa.Table:
        import pyarrow.compute as pc

        is_record = pc.equal(read.column(TYPE), "RECORD")
        times = read.column(TIME) if self.declaration.has_moments else None
        others = read.filter(pc.invert(is_record)).select([OFFSET, TABLE_VERSION])
        if others.num_rows:
            offsets = read.column(OFFSET)
            for each in others.to_pylist():
                if each[TABLE_VERSION] is not None:
                    moment = None
                    if times is not None:
                        moment = _last(times.slice(0, pc.index(offsets, each[OFFSET]).as_py())) or seen.moment
                    at = None if moment is None else timestamp(moment)
                    seen.activations.append(Activation(offset=each[OFFSET], version=each[TABLE_VERSION], at=at))
        if times is not None:
            seen.moment = _last(times) or seen.moment
        return read.filter(is_record).drop_columns([TYPE])

    def _marked(self, rows: pa.Table, read: pa.Table, seen: Seen) -> pa.Table:
        """``rows`` that say which of them are deletions. Where these have rows, none is one for the tasks."""
        import pyarrow as pa

        deletions = self._deletions(rows, read, seen)
        if not self.columns.has_soft_deletions:
            return rows.append_column(DELETED, deletions)
        rows = with_deletions(rows, deletions, read.column(TIME))
        return rows.append_column(DELETED, pa.chunked_array([pa.repeat(False, rows.num_rows)]))

    def _deletions(self, rows: pa.Table, read: pa.Table, seen: Seen) -> Any:
        """Of each row whether its record is a deletion. A value that does not fit the column of ``deleted_when`` tells
        none, and is counted."""
        import pyarrow.compute as pc

        condition = self.declaration.deleted_when
        name = SDC_DELETED if condition is None else condition.column
        column = next((each for each in self.columns.records if name in each.sources), None)
        rescued = _among(rows.column(RESCUED.name), (name,) if column is None else column.sources)
        if column is None:
            # Taps send it without declaring it.
            return rescued
        values = rows.column(column.name) if column.kept else read.column(name)
        if condition is None:
            return pc.or_(pc.is_valid(values), rescued)
        fits = pc.or_(pc.is_valid(values), pc.invert(rescued))
        self._note(f"{name} {FITS}", Action.WARN, fits, rows, seen, None)
        # It is null in its column, but no null for ``null``.
        return pc.and_(holds(condition, values, column.type, unknown=False), fits)

    def _checked(self, rows: pa.Table, read: pa.Table, seen: Seen) -> pa.Table:
        """Without the rows that a check or a null in the key leaves out."""
        import pyarrow.compute as pc

        for column in self.columns.records:
            if len(column.sources) > 1:
                self._note(one_of(column.sources), Action.FAIL, _have_one(read, column.sources), rows, seen, None)
        keep, whole = None, None
        for name in self.key:
            one = pc.is_valid(rows.column(self.columns.name_of(name)))
            whole = one if whole is None else pc.and_(whole, one)
        if whole is not None:
            action = Action.FAIL if self.declaration.null_keys is NullKeys.FAIL else Action.DROP
            keep = self._note(NULL_KEY, action, whole, rows, seen, keep)
        for check in self.declaration.checks:
            if check.condition is None:
                continue
            column = self.columns.record(check.column)
            held = holds(check.condition, rows.column(column.name), column.type, unknown=True)
            fine = pc.or_(held, rows.column(GONE if self.columns.has_soft_deletions else DELETED))
            keep = self._note(check.name, check.action, fine, rows, seen, keep)
        return rows if keep is None else rows.filter(keep)

    def _note(self, name: str, action: Action, fine: Any, rows: pa.Table, seen: Seen, keep: Any) -> Any:
        import pyarrow.compute as pc

        bad = rows.num_rows - (pc.sum(fine).as_py() or 0)
        if not bad:
            return keep
        counts = {Action.FAIL: seen.failed, Action.DROP: seen.dropped, Action.WARN: seen.warned}[action]
        counts[name] += bad
        examples = rows.column(OFFSET).filter(pc.invert(fine)).slice(0, SHOWN).to_pylist()
        seen.examples[name] = (seen.examples.get(name, []) + examples)[:SHOWN]
        if action is not Action.DROP:
            return keep
        return fine if keep is None else pc.and_(keep, fine)

    def _typed(self, read: pa.Table) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        schema = self.columns.schema
        arrays: list[Any] = []
        lost: dict[int, dict[str, Any]] = {}
        for column in self.columns.records:
            if not column.kept:
                continue
            target = schema.field(len(arrays)).type
            parts = [self._converted(column, source, read, target, lost) for source in column.sources]
            made = parts[0] if len(parts) == 1 else pc.coalesce(*parts)
            if self.key and set(self.key) & set(column.sources) and pa.types.is_floating(made.type):
                # -0.0 and 0.0 are one key, and so are all NaN, whose sign Arrow's groups tell apart.
                made = pc.if_else(pc.is_nan(made), math.nan, pc.add(made, 0.0))
            arrays.append(made)
        for own in self.columns.own:
            if own.name == RESCUED.name:
                arrays.append(with_rescued(read.column(own.name).combine_chunks(), lost))
            elif own.name in (VALID_FROM, VALID_TO, CURRENT, GONE, GONE_AT):
                arrays.append(pa.nulls(read.num_rows, schema.field(len(arrays)).type))
            else:
                arrays.append(read.column(own.name))
        return pa.table(arrays, schema=schema)

    def _converted(
        self, column: TableColumn, source: str, read: pa.Table, target: pa.DataType, lost: dict[int, dict[str, Any]]
    ) -> pa.Array:
        """A property's values as its column has them; what does not fit is ``lost``, by row and property."""
        import pyarrow.compute as pc

        values = read.column(source).combine_chunks()
        if column.read == column.type or not isinstance(column.read, JsonText):
            return values
        made = cast(values, column.type, target)
        for row in pc.indices_nonzero(pc.and_(pc.is_null(made), pc.is_valid(values))).to_pylist():
            lost.setdefault(row, {})[source] = msgspec.Raw(values[row].as_py().encode())
        return made


def one_of(sources: Sequence[str]) -> str:
    """What is checked of properties that are one column."""
    return f"one of {', '.join(sources)}"


def _have_one(read: pa.Table, sources: Sequence[str]) -> Any:
    """Of each record whether it has a value for at most one of these properties, or the same for all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fine = pa.chunked_array([pa.repeat(True, read.num_rows)])
    for first, second in combinations([read.column(source) for source in sources], 2):
        same = pc.or_(pc.is_null(first), pc.is_null(second))
        if not pa.types.is_nested(first.type):
            same = pc.or_(same, pc.fill_null(pc.equal(first, second), False))
        fine = pc.and_(fine, same)
    return fine


def _last(times: Any) -> datetime | None:
    known = times.drop_null()
    return known[-1].as_py() if len(known) else None


def _among(rescued: pa.ChunkedArray, names: Sequence[str]) -> Any:
    """Of each row whether a value of one of these properties was rescued, and is not null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.chunked_array([pa.repeat(False, len(rescued))])
    for name in names:
        written = json.dumps(name, ensure_ascii=False) + ":"
        found = pc.or_(found, pc.fill_null(pc.match_substring(rescued, written), False))
    if not pc.any(found).as_py():
        return found
    texts = pc.if_else(found, rescued, None).to_pylist()
    return pa.chunked_array([pa.array([text is not None and _has_value(text, names) for text in texts], pa.bool_())])


def _has_value(text: str, names: Sequence[str]) -> bool:
    """Whether that JSON object, which has one of the names somewhere, has it itself, with a value."""
    # As texts integers have no limit of digits.
    found: dict[str, Any] = with_room(lambda: json.loads(text, parse_int=str))
    return any(found.get(name) is not None for name in names)


def _note_versions(rows: pa.Table, seen: Seen) -> None:
    import pyarrow.compute as pc

    versions = rows.column(TABLE_VERSION)
    ends = pc.min_max(versions).as_py()
    seen.note_versions(ends["min"], ends["max"])
    if versions.null_count and not seen.unversioned:
        first = pc.min(rows.column(OFFSET).filter(pc.is_null(versions))).as_py()
        seen.unversioned = not seen.activations or first < seen.activations[0].offset
