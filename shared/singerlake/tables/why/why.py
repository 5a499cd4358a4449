"""Where a row of a table comes from, or why a row is not there: the record, and the bytes that it stands in.

A row has the offset of its record. From there on the stream's state says which file and gzip member it is in, so that
little more is read than the record. That the bytes give the row is checked: the table's own way makes it of them again.
What cannot be told is said in ``trouble``, and nothing is guessed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from singerlake.arrow.schema.columns import Boolean, Field, JsonText, Struct
from singerlake.arrow.schema.own import ENVELOPE, OFFSET, RESCUED, TABLE_VERSION, TIME
from singerlake.attached.read import attached_from
from singerlake.conditions import Condition, Test, Value, json_number
from singerlake.errors import SettingError, UnknownNameError
from singerlake.format.lines.messages import envelope
from singerlake.format.lines.spans import Spans
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.selection import slices
from singerlake.glance import at_a_glance
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Keep
from singerlake.tables.declaration.streams import hint_for
from singerlake.tables.rows.columns import CURRENT, DELETED, VALID_FROM, TableColumn
from singerlake.tables.rows.conditions import values_named
from singerlake.tables.rows.convert import NULL_KEY
from singerlake.tables.state.model import CASTS, COLLECT, DROPPED, TableState, source_of
from singerlake.tables.state.types import columns_of
from singerlake.tables.why.line import Erased, StoredLine, find_line
from singerlake.tables.why.origins import SourceRows, origins
from singerlake.tables.why.records import Records
from singerlake.tables.why.rows import Wanted, find_rows
from singerlake.upkeep.context import LakeContext

if TYPE_CHECKING:
    import pyarrow as pa

_FEW = 5
"""Rows, and erasures, that a message names."""
_MOST = 1000
"""Rows that are looked at where the key means several."""
_ERASED_FILES = 100
"""Files that are asked when and by whom messages were erased."""
Reason = Literal[
    "activated",
    "behind",
    "check",
    "deleted",
    "erased",
    "expired",
    "never",
    "no_record",
    "null_key",
    "replaced",
    "unknown",
]
"""``docs/how-to/why.md`` says what each means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A value of the row. ``property`` is what the tap calls it and ``pointer`` the JSON Pointer of it in the message;
    both are None for a column that the table makes itself. ``captured`` is its JSON, which is ``bytes`` of the line,
    [from, to), both None where the record does not have it. ``declared`` is what the schema of the record says of it.
    ``made``: what the table's declaration did to it, in words."""

    column: str
    value: Any
    property: str | None = None
    pointer: str | None = None
    captured: str | None = None
    bytes: tuple[int, int] | None = None
    declared: Any = None
    made: tuple[str, ...] = ()


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOrigin:
    """Where a record is. ``file`` is the key of its data file, ``checked`` whether its SHA-256 was; its gzip member is
    [``start``, ``end``) of it, and the record line ``line`` of what that gives, counted from 1. ``original`` is the id
    of the file that the target wrote, which may have been joined with others since. ``version`` and ``schema`` are
    label and hash of its schema. What of the run is not known any more is None."""

    tap: str
    stream: str
    lineage: str | None
    offset: int
    file: str
    bytes: int
    sha256: str
    checked: bool
    start: int
    end: int
    line: int
    original: str
    version: str | None
    schema: str
    time_extracted: Any
    run: str | None
    writer: str | None
    started: str | None
    outcome: str | None
    attached: tuple[Attached, ...]


@dataclass(frozen=True, slots=True)
class EarlierValue:
    """What another record of the row's key, with that ``offset``, has in the column; ``deletes``: it deletes the
    row."""

    offset: int
    time_extracted: datetime | None
    value: Any
    deletes: bool


@dataclass(frozen=True, slots=True)
class Absence:
    """Why there is no row. ``offset`` is the newest record that the row could be made of, ``by`` the offset of what
    took its place or sent it away; None where there is none."""

    reason: Reason
    message: str
    offset: int | None = None
    by: int | None = None


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class WhyResult:
    """Where a row comes from. ``cells`` are its columns, or the one that was asked for; ``taken_in`` is when a run of
    the table read the record, None where that is not remembered. ``earlier`` are older values, newest first.

    ``record`` is None where there is no row, which ``absence`` explains, and where the record cannot be told, as
    ``trouble`` says. Of a table of a statement ``reads`` names the tables that it was made from, and ``made_of`` has
    the rows of these that made the row, and below them the rows that made those of other statements; ``trouble`` says
    what of this is not known."""

    lake: str
    table: str
    offset: int | None = None
    cells: tuple[Cell, ...] = ()
    record: RecordOrigin | None = None
    taken_in: str | None = None
    earlier: tuple[EarlierValue, ...] | None = None
    absence: Absence | None = None
    reads: tuple[str, ...] = ()
    made_of: tuple[SourceRows, ...] = ()
    trouble: str | None = None


def why(
    lake: LakeContext,
    state: TableState,
    key: Mapping[str, Any] | None,
    column: str | None,
    offset: int | None,
    earlier: int,
    missing: bool,
    sample: int,
) -> WhyResult:
    """As ``LakeTable.why``, which says what it takes and raises."""
    types = columns_of(state)
    _check_asked(state, types, key, column, offset, earlier)
    wanted: Wanted = {name: _values(value, types.get(name)) for name, value in (key or {OFFSET: offset}).items()}
    look = None if state.is_of_statement else _Look(lake, state)
    if look is not None and offset is not None:
        # A table in the order of its key finds a row by that much sooner.
        wanted = {**wanted, **look.key_of(offset)}
    row = _row(lake.storage, state, wanted, [field.name for field in types.fields])
    if look is None:
        return _of_statement(lake, state, row, column, sample)
    if row.num_rows:
        return look.origin(row, column, earlier)
    if offset is None and not missing:
        raise UnknownNameError(
            f"no row of table {state.table!r} has this key",
            hint="missing reads the stream to say why",
        )
    absence = look.absence(wanted) if offset is None else look.absence_of(offset)
    return WhyResult(lake=lake.storage.url, table=state.table, absence=absence)


def _check_asked(
    state: TableState,
    types: Struct,
    key: Mapping[str, Any] | None,
    column: str | None,
    offset: int | None,
    earlier: int,
) -> None:
    if (not key) is (offset is None):
        raise SettingError("which row is not said", hint="give key or offset, and not both")
    if earlier and column is None:
        raise SettingError("earlier values are those of a single column", hint="set column")
    unknown = [name for name in (*(key or ()), *([column] if column is not None else [])) if types.get(name) is None]
    if unknown:
        hint = hint_for(unknown[0], [field.name for field in types.fields])
        raise UnknownNameError(f"table {state.table!r} has no column {unknown[0]!r}", hint=hint)
    if offset is not None and types.get(OFFSET) is None:
        raise SettingError(
            f"table {state.table!r} is made by a statement, and its rows have no offset", hint="give a key"
        )


class Typed(str):
    """A value as a command line has it, which may be meant as a number, or as true or false."""


def _values(value: Any, field: Field | None) -> list[Any]:
    """What a column has where it is equal to ``value``. Raises ``SettingError``."""
    if value is None:
        return [None]
    assert field is not None
    if isinstance(field.type, JsonText):
        # Its text is as the tap wrote it.
        written = [json.dumps(value, ensure_ascii=False), json.dumps(value)]
        return [*written, str(value)] if isinstance(value, Typed) else written
    alternatives: list[Value] = [str(value)]
    if isinstance(value, Typed):
        number = json_number(value)
        alternatives += [] if number is None else [number]
        if isinstance(field.type, Boolean) and value in ("true", "false"):
            alternatives = [value == "true"]
    elif isinstance(value, bool):
        alternatives = [value]
    elif isinstance(value, int | float | Decimal):
        alternatives = [Decimal(value)]
    elif isinstance(value, datetime):
        alternatives = [value.isoformat()]
    try:
        return values_named(Condition((Test("in", (tuple(alternatives),)),)), field.type)
    except SettingError as error:
        raise SettingError(error.message, hint="give a value of the column's type") from None


def _row(storage: Storage, state: TableState, wanted: Wanted, columns: Sequence[str]) -> pa.Table:
    """The one row that is wanted, or none. Of a history the newest version of a key. Raises ``SettingError``, and as
    ``find_rows``."""
    if state.declaration["keep"] == Keep.HISTORY and {*state.key} <= wanted.keys() and OFFSET not in wanted:
        now = find_rows(storage, state, {CURRENT: [True], **wanted}, columns, _MOST)
        rows = now if now.num_rows else find_rows(storage, state, wanted, columns, sys.maxsize)
        begins = zip(*(rows.column(name).to_pylist() for name in (VALID_FROM, OFFSET)), strict=True)
        places = [(begin is not None, begin, offset, place) for place, (begin, offset) in enumerate(begins)]
        return rows.slice(max(places)[-1], 1) if places else rows
    rows = find_rows(storage, state, wanted, columns, _MOST)
    if rows.num_rows < 2:
        return rows
    offsets = rows.column(OFFSET).to_pylist() if OFFSET in rows.column_names else []
    hint = "name more columns"
    if offsets:
        hint += f", or give the offset of one: {', '.join(map(str, offsets[:_FEW]))}{', ...' * (len(offsets) > _FEW)}"
    raise SettingError(f"several rows of table {state.table!r} have this key", hint=hint)


def _of_statement(lake: LakeContext, state: TableState, row: pa.Table, column: str | None, sample: int) -> WhyResult:
    if not row.num_rows:
        raise UnknownNameError(
            f"no row of table {state.table!r} has this key", hint="ask the tables that it is made of"
        )
    found = origins(lake, state, row, sample)
    cells = _bare(row.to_pylist()[0], column)
    if found.made is not None:
        cells = tuple(replace(cell, made=(found.made[cell.column],)) for cell in cells)
    return WhyResult(
        lake=lake.storage.url,
        table=state.table,
        cells=cells,
        reads=tuple(made.table for made in state.made_from),
        made_of=found.rows,
        trouble=found.trouble,
    )


class _Look:
    """What the stream of a table says of its rows."""

    def __init__(self, lake: LakeContext, state: TableState) -> None:
        self._state, self._source = state, state.sources[0]
        self._storage = lake.storage
        self._stream = lake.stream(self._source.tap, self._source.stream)
        self._manifest = self._stream.snapshot()
        self._lines: dict[int, tuple[DataFile, StoredLine]] = {}
        self._changed = ""
        if self._source.lineage != self._manifest.lineage:
            became = self._source.outdated(source_of(self._manifest))
            self._changed = (
                f"{became} since the table was made, of lineage {self._source.lineage}, so that its offsets mean "
                f"nothing; run 'singerlake project {'drop' if became == DROPPED else 'run'}'"
            )

    @cached_property
    def _records(self) -> Records:
        return Records.of(self._storage, self._manifest, self._state)

    @cached_property
    def _columns(self) -> Mapping[str, TableColumn]:
        return {each.name: each for each in self._records.maker.columns.records if each.kept}

    def origin(self, row: pa.Table, column: str | None, earlier: int) -> WhyResult:
        """Where a row, the only one of ``row``, comes from. Raises as ``why``."""
        values = row.to_pylist()[0]
        offset = values[OFFSET]
        taken_in = [run.at for run in self._state.runs if run.kind != COLLECT and run.start <= offset < run.stop]
        found = WhyResult(
            lake=self._storage.url,
            table=self._state.table,
            offset=offset,
            cells=_bare(values, column),
            taken_in=taken_in[-1] if taken_in else None,
        )
        if self._changed:
            return replace(found, trouble=self._changed)
        if offset < self._manifest.floor:
            return replace(found, trouble=f"the record has expired: the stream begins at offset {self._manifest.floor}")
        if offset >= self._manifest.next_offset:
            return replace(found, trouble=f"the record is gone: the stream ends at offset {self._manifest.next_offset}")
        file, line = self._line(offset)
        if earlier and column is not None:
            found = replace(found, earlier=tuple(islice(self._earlier(values, column), earlier)))
        if line.text is None:
            erased = f"the record was erased{_by_whom(line.erased)}, and the table still has its row"
            trouble = f"{erased}; run 'singerlake project run'"
            return replace(found, record=self._record(file, line, offset), trouble=trouble)
        rescued = values[RESCUED.name]
        places = Spans(line.text), None if rescued is None else Spans(rescued.encode())
        return replace(
            found,
            cells=tuple(self._cell(cell, file, line.text, *places) for cell in found.cells),
            record=self._record(file, line, offset),
            trouble=self._differs(row, file, offset, line.text),
        )

    def key_of(self, offset: int) -> Wanted:
        """The key of the record with that offset, as far as it can be told."""
        is_there = self._manifest.floor <= offset < self._manifest.next_offset
        if self._changed or not is_there or not self._state.key:
            return {}
        file, line = self._line(offset)
        rows = None if line.text is None else self._records.row(file, offset, line.text)[0]
        if rows is None or not rows.num_rows:
            return {}
        return _equal(rows.to_pylist()[0], self._state.key)

    def _line(self, offset: int) -> tuple[DataFile, StoredLine]:
        if offset not in self._lines:
            file = next(slices(self._manifest, offset=offset, end=offset + 1)).file
            self._lines[offset] = file, find_line(self._storage, self._records.prefix + file.path, file, offset)
        return self._lines[offset]

    def _record(self, file: DataFile, line: StoredLine, offset: int) -> RecordOrigin:
        wrote = line.header.run if line.header is not None else None
        run = next((each for each in self._manifest.runs if each.id == wrote), None)
        said = envelope(line.text) if line.text is not None else None
        attached = attached_from(self._manifest.files_from(offset, offset + 1).with_rows(), offset)
        return RecordOrigin(
            tap=self._manifest.tap,
            stream=self._manifest.stream,
            lineage=self._manifest.lineage,
            offset=offset,
            file=self._records.prefix + file.path,
            bytes=file.bytes,
            sha256=file.sha256,
            checked=line.checked,
            start=line.start,
            end=line.end,
            line=line.number,
            original=line.original,
            version=self._manifest.versions.get(file.version),
            schema=file.version,
            time_extracted=said.time_extracted if said is not None else None,
            run=wrote,
            writer=run.writer if run is not None else None,
            started=run.started if run is not None else None,
            outcome=run.status if run is not None else None,
            attached=tuple(each for at, each in attached if at == offset),
        )

    def _cell(self, cell: Cell, file: DataFile, text: bytes, spans: Spans, rescued: Spans | None) -> Cell:
        """The same with what the record says of it."""
        if cell.column in ENVELOPE:
            return _captured(cell, text, spans, (ENVELOPE[cell.column],))
        column = self._columns.get(cell.column)
        if column is None:
            return replace(cell, made=("the table's own",))
        each = [_captured(cell, text, spans, ("record", source)) for source in column.sources]
        # Of properties that are one column, the one that is not null.
        said = next((one for one in each if one.captured not in (None, "null")), each[0])
        name = column.sources[each.index(said)]
        schema = self._manifest.schemas.get(file.version)
        properties = schema.schema.get("properties") if schema is not None and isinstance(schema.schema, dict) else None
        declared = properties.get(name) if isinstance(properties, dict) else None
        made = [f"renamed from {name}"] if name != column.name else []
        if cast := self._records.maker.declaration.rule(name).cast:
            made.append(f"cast to {cast}")
        if rescued is not None and rescued.of(name):
            made.append(f"what does not fit its type stands in {RESCUED.name}")
        return replace(said, property=name, declared=declared, made=tuple(made))

    def _differs(self, row: pa.Table, file: DataFile, offset: int, text: bytes) -> str | None:
        """What is wrong where the record does not give this row; None where it does."""
        again, _ = self._records.row(file, offset, text)
        before = self._state.casts < CASTS
        for column in self._records.maker.columns.records:
            is_cast = any(self._records.maker.declaration.rule(source).cast for source in column.sources)
            if not column.kept or (before and is_cast):
                continue
            if not again.num_rows or repr(again.column(column.name)[0]) != repr(row.column(column.name)[0]):
                return (
                    f"the record does not give this row, as in column {column.name!r}: the stream or the table was "
                    "changed; run 'singerlake verify' and 'singerlake project verify --deep'"
                )
        return None

    def _earlier(self, values: Mapping[str, Any], column: str) -> Iterator[EarlierValue]:
        records = self._records
        names = {each.name for each in records.maker.columns.records if each.kept}
        if column not in names:
            raise SettingError(f"column {column!r} is not a property of the records", hint="name one that is")
        if not records.key:
            raise SettingError(
                f"neither table {self._state.table!r} nor its stream has a key, so that no record is an earlier one",
                hint="leave out earlier",
            )
        wanted = _equal(values, records.key)
        ordered = bool(records.maker.declaration.order_by)
        for found in records.newest_first(wanted, [column], self._source.offset if ordered else values[OFFSET]):
            (one,) = found.to_pylist()
            if one[OFFSET] != values[OFFSET]:
                yield EarlierValue(one[OFFSET], one[TIME], one[column], one[DELETED])

    def absence(self, wanted: Wanted) -> Absence:
        """Why no row has these values. Reads the log until there is a record with them."""
        if self._changed:
            return Absence("unknown", self._changed)
        names = {each.name for each in self._records.maker.columns.records if each.kept}
        if not wanted.keys() <= names:
            raise SettingError("the key names a column that no record has", hint="name properties of the records")
        newest = next(self._records.newest_first(wanted, [], self._manifest.next_offset), None)
        if newest is not None:
            return self.absence_of(newest.column(OFFSET)[0].as_py())
        floor, erased = self._manifest.floor, tuple(self._all_erased())
        message = "no record of the stream has this key"
        if erased:
            message += f"; messages were erased{_by_whom(erased)}, and what they held is not kept"
        if floor:
            message += f"; those before offset {floor} have expired"
        return Absence("erased" if erased else "expired" if floor else "never", message)

    def absence_of(self, offset: int) -> Absence:
        """Why the record with that offset gives no row."""
        source, manifest = self._source, self._manifest
        if self._changed:
            return Absence("unknown", self._changed)
        if offset >= manifest.next_offset:
            return Absence("never", f"the stream ends at offset {manifest.next_offset}")
        if offset >= source.offset:
            ends = f"the table ends at offset {source.offset}: run 'singerlake project run'"
            return Absence("behind", f"offset {offset} was captured since, {ends}", offset)
        if offset < manifest.floor:
            return Absence("expired", f"offset {offset} has expired: the stream begins at offset {manifest.floor}")
        file, line = self._line(offset)
        if line.text is None:
            return Absence("erased", f"offset {offset} was erased{_by_whom(line.erased)}", offset)
        rows, seen = self._records.row(file, offset, line.text)
        if not seen.records:
            return Absence("no_record", f"offset {offset} is an ACTIVATE_VERSION message", offset)
        if not rows.num_rows:
            (check,) = list(seen.dropped)[:1] or [""]
            if check == NULL_KEY:
                return Absence("null_key", f"the key of offset {offset} has a null", offset)
            return Absence("check", f"a check leaves out offset {offset}: {check}", offset)
        if rows.column(DELETED)[0].as_py():
            return Absence("deleted", f"offset {offset} deletes the row", offset, offset)
        return self._superseded(rows, offset)

    def _superseded(self, rows: pa.Table, offset: int) -> Absence:
        """Why a record that gives ``rows`` has none in the table."""
        state = self._state
        if state.key:
            wanted = _equal(rows.to_pylist()[0], state.key)
            others = find_rows(self._storage, state, wanted, [OFFSET], _MOST).column(OFFSET).to_pylist()
            if others:
                return Absence("replaced", f"the row of its key is made of offset {max(others)}", offset, max(others))
        activated, version = state.activated, rows.column(TABLE_VERSION)[0].as_py()
        if activated is not None and offset < activated.offset and version not in (None, activated.version):
            message = f"offset {activated.offset} activated version {activated.version} of the tap's table"
            return Absence("activated", f"{message}, and offset {offset} is of {version}", offset, activated.offset)
        hint = "a later message sent its row away; missing with its key reads the stream to say which"
        return Absence("unknown", f"offset {offset} gives a row, and {hint}", offset)

    def _all_erased(self) -> Iterator[Erased]:
        holes = (file for file in self._manifest.files.matching(lambda part: part.erased > 0) if file.erased)
        for file in islice(holes, _ERASED_FILES):
            provenance = self._stream.provenance(file)
            yield from (row[1:] for row in (provenance.erased if provenance is not None else ()))


def _equal(values: Mapping[str, Any], names: Sequence[str]) -> Wanted:
    """What is wanted where rows have the same ``values`` as these in the columns ``names``."""
    return {name: [values[name]] for name in names}


def _bare(values: Mapping[str, Any], column: str | None) -> tuple[Cell, ...]:
    return tuple(Cell(column=name, value=value) for name, value in values.items() if column in (None, name))


def _captured(cell: Cell, text: bytes, spans: Spans, path: tuple[str, ...]) -> Cell:
    """The same with what a message has at a path."""
    pointer = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)
    found = spans.of(*path)
    captured = None if found is None else text[found[0] : found[1]].decode()
    return replace(cell, property=path[-1], pointer=pointer, captured=captured, bytes=found)


def _by_whom(erased: Iterable[Erased]) -> str:
    times = {(when, who): None for _, when, who in erased}
    told = ", ".join(f"by {who} at {when}" for when, who in islice(times, _FEW))
    return f" {told}{', and others' if len(times) > _FEW else ''}" if told else ""
