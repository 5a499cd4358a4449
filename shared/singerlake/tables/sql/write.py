"""Writing what a statement gives: its columns, its rows as files of the table, and the state that they come to.

Rows go into files straight, or are sorted first. They are all of the table, or more of it. Engines know years that ISO
8601 has no four digits for: no table can have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import UNSET

from singerlake.arrow.schema.columns import Struct, arrow_schema
from singerlake.clock import random_id
from singerlake.errors import SettingError, UnknownNameError
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Action, Check, TableDeclaration
from singerlake.tables.declaration.stored import changes
from singerlake.tables.derived import check_columns
from singerlake.tables.rows.columns import WORKING, TableColumn, TableColumns, named_in, with_distinct_names
from singerlake.tables.rows.conditions import holds
from singerlake.tables.rows.conform import conformed
from singerlake.tables.rows.convert import Seen
from singerlake.tables.rows.order import sorted_rows
from singerlake.tables.rows.partitions import is_partition, with_partitions
from singerlake.tables.run.discard import Attempt
from singerlake.tables.run.plan import SqlPlan, check_uses, numbered_columns, partitions_of
from singerlake.tables.run.publish import retired_files
from singerlake.tables.run.sql_engine import Query
from singerlake.tables.run.write import MOST_ROWS, REGION_MEMORY, check_unique, ranges_of, refuse_failed
from singerlake.tables.state.ids import Numbered
from singerlake.tables.state.keys import scratch_path
from singerlake.tables.state.model import (
    KEPT_RUNS,
    REBUILD,
    RUN,
    ColumnEntry,
    FieldId,
    MadeFrom,
    TableFile,
    TableRun,
    TableState,
)
from singerlake.tables.state.types import words_of
from singerlake.tables.tasks.files import FileSpec, write_files
from singerlake.tables.tasks.sorted_chunks import ChunkRange, SortedChunk, write_chunk
from singerlake.work.engine import Task

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class SqlAttempt(Attempt):
    """``made`` are the files of the rows that the query gives. ``continues``: they come behind those that the table
    has."""

    plan: SqlPlan
    query: Query = field(kw_only=True)
    continues: bool = field(kw_only=True)
    columns: TableColumns = field(init=False)

    def __post_init__(self) -> None:
        self.columns = statement_columns(self.plan.declaration, self.query.columns)

    def do(self) -> None:
        """Do it. Raises ``CheckFailedError``, and what the query, reading and storage raise; ``discard`` then."""
        declared = self.plan.declaration
        order = (*self._spec.order, ROW) if self._spec.order else ()
        task = WriteRows(self._spec, self.id, self.columns.table, declared.checks, order)
        answers: list[Written] = self.query.write(task)
        chunks: list[SortedChunk] = []
        for answer in answers:
            self.seen.add(answer.seen)
            self.made += answer.files
            chunks += answer.chunks
        self.scratch += [chunk.key for chunk in chunks]
        refuse_failed(self)
        if chunks:
            for _, files in self.done(WriteRange(self._spec, order), ranges_of(chunks, _rows_of_a_range(chunks))):
                self.made += files
        checks = tuple((check, check.column) for check in declared.checks if check.condition is None)
        check_unique(self, checks, (*self._kept, *self.made), beside=())

    def state(self, made_from: Sequence[MadeFrom], *, lake_id: str, now: str) -> TableState:
        """What is to be published."""
        plan, old = self.plan, self.plan.base.state if self.plan.base is not None else None
        files = (*self._kept, *self.made)
        listed = {path for file in files for path in file.paths}
        rows = sum(file.rows for file in self.made)
        start, stop = self._ends(made_from) if self.continues else (0, 0)
        run = TableRun(
            id=self.id,
            at=now,
            kind=REBUILD if self.is_other else RUN,
            start=start,
            stop=stop,
            records=rows + sum(self.seen.dropped.values()),
            inserted=rows,
            deleted=plan.state.rows if plan.state is not None and not self.continues else 0,
            checks={**self.seen.dropped, **self.seen.warned},
        )
        return TableState(
            lake_id=lake_id,
            table=plan.declaration.name,
            id=self.id,
            number=1 if old is None else old.number + 1,
            generation=self._generation,
            committed=now,
            declaration=plan.declaration.to_json(),
            sources=(),
            made_from=tuple(made_from),
            columns=self._entries,
            order=self._spec.order,
            files=files,
            retired=() if old is None else (*old.retired, *retired_files(old.files, listed, now)),
            runs=((*old.runs, run) if old is not None else (run,))[-KEPT_RUNS:],
            ids=self._numbered[1] if plan.declaration.iceberg else UNSET if old is None else old.ids,
        )

    @property
    def _numbered(self) -> tuple[tuple[Numbered, ...], tuple[FieldId, ...]]:
        return numbered_columns(self.plan.base, self.columns)

    @property
    def _kept(self) -> tuple[TableFile, ...]:
        """The files that stay."""
        return self.plan.state.files if self.continues and self.plan.state is not None else ()

    def _ends(self, made_from: Sequence[MadeFrom]) -> tuple[int, int]:
        """Where the table that was read ended, the last time and now."""
        before = self.plan.state.made_from if self.plan.state is not None else ()
        first, last = (each[0].up_to for each in (before, made_from))
        assert first is not None
        assert last is not None
        return first.end, last.end

    @property
    def _entries(self) -> tuple[ColumnEntry, ...]:
        return tuple(ColumnEntry(name=each.name, type=words_of(each.type)) for each in self.columns.table.fields)

    @property
    def is_other(self) -> bool:
        """Whether the table is another one than before, and not only its rows."""
        state = self.plan.state
        if state is None:
            return False
        return bool(changes(state, self.plan.declaration)) or state.columns != self._entries

    @property
    def _generation(self) -> int:
        old = self.plan.state
        return 1 if old is None else old.generation + self.is_other

    @property
    def _spec(self) -> FileSpec:
        declared = self.plan.declaration
        partitions = partitions_of(declared, self.columns)
        return FileSpec(
            declared.name,
            self._generation,
            declared.format,
            (*(each.working for each in partitions), *declared.sort_by),
            MOST_ROWS,
            partitions,
            declared.csv_formulas,
            of_records=False,
            ids=self._numbered[0] if declared.iceberg else (),
        )


def _rows_of_a_range(chunks: Sequence[SortedChunk]) -> int:
    """As many as the memory of one task holds."""
    rows, memory = sum(chunk.rows for chunk in chunks), sum(chunk.memory for chunk in chunks)
    return max(1, min(MOST_ROWS, REGION_MEMORY * rows // max(1, memory)))


_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days
_DAY = 86_400_000_000
"""In microseconds."""


def refuse_far_times(rows: pa.Table) -> None:
    """Raise ``SettingError`` where a date or a timestamp is not of the years 1 to 9999."""
    for name in rows.column_names:
        if any(map(_is_far, _times(rows.column(name)))):
            raise SettingError(
                f"column {name!r} of the statement has a date or a time beyond the years 1 to 9999, which no table has",
                hint="leave such rows out with WHERE, or cast the column to STRING",
            )


def _times(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """The dates and times of a column, nested ones too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        yield column
    elif pa.types.is_list(column.type):
        yield from _times(pc.list_flatten(column))
    elif pa.types.is_struct(column.type):
        for field in column.flatten():
            yield from _times(field)


def _is_far(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    is_date = pa.types.is_date(column.type)
    ends = pc.min_max(column.cast(pa.int32() if is_date else pa.int64()))
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    if least is None:
        return False
    first, last = (_FIRST, _LAST) if is_date else (_FIRST * _DAY, (_LAST + 1) * _DAY - 1)
    return bool(least < first or greatest > last)


HELD_BYTES = 64 << 20
"""Of rows that a task holds at once: a file, or a piece of one that is sorted."""


@dataclass
class Written:
    """What a task made of its rows: files, or sorted rows on their way."""

    seen: Seen
    files: tuple[TableFile, ...] = ()
    chunks: tuple[SortedChunk, ...] = ()


@dataclass(frozen=True)
class WriteRows:
    """The task: the rows of one piece. ``columns`` are the table's. With ``order`` rows are sorted by it, and other
    tasks make files of them; without, files have them as they come."""

    spec: FileSpec
    run: str
    columns: Struct
    checks: tuple[Check, ...]
    order: tuple[str, ...]

    def __call__(self, storage: Storage, batches: Iterator[pa.RecordBatch]) -> Written:
        made = Written(Seen())
        for rows in self._held(batches):
            fine = self._checked(rows, made.seen)
            if not fine.num_rows or made.seen.failed:
                continue
            if self.order:
                made.chunks += (self._sorted(storage, fine, made.seen.records),)
            else:
                made.files += tuple(write_files(storage, self.spec, fine, None))
            made.seen.records += fine.num_rows
        return made

    def _held(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        import pyarrow as pa

        schema = arrow_schema(self.columns)
        held: list[pa.Table] = []
        for batch in batches:
            if batch.num_rows:
                held.append(conformed(pa.Table.from_batches([batch]), schema))
                refuse_far_times(held[-1])
            if sum(rows.nbytes for rows in held) >= HELD_BYTES:
                yield pa.concat_tables(held)
                held = []
        if held:
            yield pa.concat_tables(held)

    def _checked(self, rows: pa.Table, seen: Seen) -> pa.Table:
        """Without the rows that a check leaves out."""
        import pyarrow.compute as pc

        kept = None
        counts = {Action.FAIL: seen.failed, Action.DROP: seen.dropped, Action.WARN: seen.warned}
        for check in self.checks:
            if check.condition is None:
                continue
            column = self.columns.get(check.column)
            assert column is not None
            held = holds(check.condition, rows.column(check.column), column.type, unknown=True)
            wrong = rows.num_rows - (pc.sum(held).as_py() or 0)
            if wrong:
                counts[check.action][check.name] += wrong
                if check.action is Action.DROP:
                    kept = held if kept is None else pc.and_(kept, held)
        return rows if kept is None else rows.filter(kept)

    def _sorted(self, storage: Storage, rows: pa.Table, before: int) -> SortedChunk:
        import numpy as np
        import pyarrow as pa

        numbers = pa.array(np.arange(before, before + rows.num_rows))
        rows = with_partitions(rows, self.spec.partitions).append_column(ROW, numbers)
        key = self.spec.prefix + scratch_path(self.run, random_id())
        return write_chunk(storage, key, sorted_rows(rows, self.order), self.order)


@dataclass(frozen=True)
class WriteRange(Task[ChunkRange, tuple[TableFile, ...]]):
    """The task: the files of one range of sorted rows."""

    spec: FileSpec
    order: tuple[str, ...]

    def size(self, item: ChunkRange) -> int:
        return item.memory

    def __call__(self, storage: Storage, item: ChunkRange) -> tuple[TableFile, ...]:
        import pyarrow as pa

        pieces = item.read(storage, self.order)
        if not pieces:
            return ()
        rows = sorted_rows(pa.concat_tables(pieces), self.order).drop_columns([ROW])
        return tuple(write_files(storage, self.spec, rows, None))


ROW = "__row"
"""The place of a row among all rows that were written; only while rows are sorted."""


def statement_columns(declaration: TableDeclaration, given: Struct) -> TableColumns:
    """The columns of the table, which are those that the statement gives. Raises ``SettingError`` where two have one
    name, or one has none, and ``UnknownNameError`` where the declaration names another."""
    seen: set[str] = set()
    at = declaration.at("sql")
    for each in given.fields:
        name = each.name.lower()
        if not name.strip():
            raise SettingError("a column of the statement has no name", hint="name it with AS", **at)
        if name in seen:
            raise SettingError(
                f"the statement gives two columns {each.name!r}", hint="name one of them otherwise with AS", **at
            )
        if name in (*WORKING, ROW) or is_partition(name):
            raise SettingError(
                f"the statement gives a column {each.name!r}, a name that runs use for themselves",
                hint="name it otherwise with AS",
                **at,
            )
        if with_distinct_names(each.type) != each.type:
            raise SettingError(
                f"column {each.name!r} of the statement has fields of an object that differ by case alone",
                hint="name them otherwise, as by named_struct, or write to_json(...)",
                **at,
            )
        seen.add(name)
    names = [field.name for field in given.fields]
    for what, wanted in named_in(declaration):
        if wanted not in names:
            close = get_close_matches(wanted, names, n=1)
            raise UnknownNameError(
                f"{what} of table {declaration.name!r} names {wanted!r}, which is not a column of its statement",
                hint=f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(names)}",
                **declaration.at(what, wanted),
            )
    records = tuple(TableColumn(field.name, (field.name,), field.type, field.type) for field in given.fields)
    columns = TableColumns(records, (), None)
    check_uses(declaration, columns, ())
    check_columns(declaration, columns)
    return columns
