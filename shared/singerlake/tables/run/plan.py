"""What a run is to do for one table, from its state, its declaration, and the stream or the tables as they are. Pure.

A table of a statement is made anew, or gets what is new behind it where the table that it reads only grew. What the
states say has to prove that: a row too many or too few would stay for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec import UNSET, structs

from singerlake.arrow.plan.request import MessageKinds, Request
from singerlake.arrow.plan.snapshot import declared
from singerlake.arrow.schema.columns import Array, Column, Date, Decimal, JsonText, Struct, Timestamp
from singerlake.arrow.schema.own import OFFSET
from singerlake.clock import parse_timestamp
from singerlake.conditions import Condition
from singerlake.errors import ExpiredMessagesError, LakeError, LineageChangedError, SettingError, UnknownNameError
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import schema_in_force
from singerlake.tables.declaration.model import Keep, TableDeclaration
from singerlake.tables.declaration.stored import changes
from singerlake.tables.derived import check_columns
from singerlake.tables.rows.columns import TableColumns, as_it_was, columns_of, left_out, type_named
from singerlake.tables.rows.conditions import check_literals
from singerlake.tables.rows.conform import only_adds
from singerlake.tables.rows.mixed_keys import MixedKeys, mixed_keys
from singerlake.tables.rows.partitions import PartitionColumn
from singerlake.tables.state.commit import StoredState
from singerlake.tables.state.ids import Numbered, numbered
from singerlake.tables.state.keys import state_key
from singerlake.tables.state.model import (
    CASTS,
    COLLECT,
    RUN,
    FieldId,
    MadeFrom,
    TableFile,
    TableRun,
    TableSource,
    TableState,
    UpTo,
    source_of,
)
from singerlake.tables.state.types import PARTITION, column_of, type_name, value_from_json, words_of

WITHOUT_ROWS = ("checks", "null_keys")
"""What of a declaration says nothing about rows that are there already."""


@dataclass(frozen=True)
class TablePlan:
    """``why`` says in words why a table is made anew, and is empty where it is not. New messages have the offsets
    [``start``, ``stop``). ``files`` are what stays in the table, or is rewritten; none where it is made anew."""

    declaration: TableDeclaration
    columns: TableColumns
    manifest: Manifest = field(repr=False)
    base: StoredState | None = field(repr=False)
    key: tuple[str, ...]
    start: int
    stop: int
    generation: int
    why: str = ""

    @property
    def is_nothing(self) -> bool:
        """Whether the table is as it should be."""
        if self.base is None or not self.base.state.is_published or self.why:
            return False
        return self.start == self.stop and not self.has_new_columns

    @property
    def has_new_columns(self) -> bool:
        """Whether a column was added since the table was written."""
        if self.base is None:
            return False
        return len(self.base.state.columns) != len(self.columns.table.fields)

    @property
    def state(self) -> TableState | None:
        """The state that the run goes on from; None where the table is made anew."""
        return self.base.state if self.base is not None and not self.why else None

    @property
    def moment(self) -> datetime | None:
        """When the last record before the new ones was captured, where the state says it."""
        known = self.state.moment if self.state is not None else None
        return None if known is None else parse_timestamp(known)

    @property
    def files(self) -> tuple[TableFile, ...]:
        return self.state.files if self.state is not None else ()

    @property
    def new_bytes(self) -> int:
        """About how many raw bytes are to be read."""
        total = 0
        for file in self.manifest.files_from(self.start):
            meant = min(self.stop, file.end) - max(self.start, file.offset)
            total += file.raw_bytes * max(0, meant) // max(1, file.messages)
        return total

    @property
    def messages(self) -> MessageKinds:
        """Whether there may be ACTIVATE_VERSION messages among what is new."""
        files = self.manifest.files_from(self.start)
        activated = any(file.messages > file.records + file.erased for file in files)
        return MessageKinds.ALL if activated else MessageKinds.RECORDS

    @property
    def mixed_keys(self) -> MixedKeys:
        """Which of its keys are of several types."""
        return mixed_keys(self.declaration, self.columns, self.key, self.manifest)

    def names(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """What the table calls these properties."""
        return self.columns.names_of(sources)

    @property
    def partitions(self) -> tuple[PartitionColumn, ...]:
        """What the folders of files say."""
        return partitions_of(self.declaration, self.columns)

    @property
    def order(self) -> tuple[str, ...]:
        """What rows and files are in order of: no two rows are equal in all of it, but the versions of one key in a
        history that is in the order of its key."""
        first = tuple(each.working for each in self.partitions)
        sort_by, key = self.names(self.declaration.sort_by), self.names(self.key)
        rest = tuple(name for name in key if name not in sort_by)
        if self.is_keyed:
            return first + sort_by + rest
        last = () if self.declaration.keep is Keep.LATEST else (OFFSET,)
        return first + sort_by + rest + last

    @property
    def is_keyed(self) -> bool:
        """Whether rows of one key are neighbours in the order, so that new records find them by it."""
        if self.declaration.keep is Keep.APPEND:
            return False
        others = {*self.declaration.sort_by, *(each.column for each in self.declaration.partition_by)}
        return others <= set(self.key)

    def decoded(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """A position in the order, as a file of the state says it."""
        schema = self.columns.schema
        text = {each.working for each in self.partitions}
        return tuple(
            value if name in text else value_from_json(value, schema.field(name).type)
            for name, value in zip(self.order, values, strict=True)
        )

    @property
    def numbered(self) -> tuple[tuple[Numbered, ...], tuple[FieldId, ...]]:
        """The columns with their ids, and what the state keeps of these."""
        return numbered_columns(self.base, self.columns)

    @property
    def source(self) -> TableSource:
        """What the table will be made from."""
        assert self.manifest.lineage is not None
        begin = self.state.sources[0].begin if self.state is not None and self.state.sources else self.start
        return structs.replace(source_of(self.manifest), offset=self.stop, begin=begin)


def numbered_columns(
    base: StoredState | None, columns: TableColumns
) -> tuple[tuple[Numbered, ...], tuple[FieldId, ...]]:
    """The columns of a table whose state is ``base`` with their ids, and those with all that it had."""
    known = base.state.ids if base is not None else UNSET
    return numbered((known if isinstance(known, tuple) else ()), columns.table)


def partitions_of(declaration: TableDeclaration, columns: TableColumns) -> tuple[PartitionColumn, ...]:
    """What the folders of files of a table with these columns say."""
    made = []
    for index, each in enumerate(declaration.partition_by):
        column = columns.name_of(each.column)
        made.append(PartitionColumn(f"{PARTITION}{index}", each.name(column), column, each.unit))
    return tuple(made)


def make_plan(
    declaration: TableDeclaration,
    manifest: Manifest,
    base: StoredState | None,
    *,
    full_refresh: bool = False,
    stream_key: Sequence[str] | None = None,
) -> TablePlan:
    """The plan of a run. ``stream_key`` is the stream's key; None: the one that is in force now. Raises
    ``SettingError``, ``UnknownNameError`` where the declaration does not suit the stream or the stream of a table that
    is there has no version, ``LineageChangedError`` where the stream's manifest is lost, ``LakeError`` where the table
    holds more than it."""
    if manifest.lineage is None:
        raise LineageChangedError(
            "the stream's manifest is lost, so that its offsets mean nothing",
            hint="run 'singerlake rebuild', then run again",
            tap=manifest.tap,
            stream=manifest.stream,
        )
    if not manifest.versions and base is not None and (base.broken is not None or base.state.is_published):
        raise UnknownNameError(
            "the stream was dropped and has no version, so that the table stays as it is",
            hint="run again when the stream is captured, or delete the table with 'singerlake project drop'",
            tap=manifest.tap,
            stream=manifest.stream,
        )
    key = _key(declaration, manifest, stream_key)
    columns = columns_of(declaration, manifest)
    check_uses(declaration, columns, key)
    check_columns(declaration, columns)
    why = ""
    start = 0
    names = columns.names_of(key)
    if base is not None and base.broken is not None:
        why = "its state cannot be read"
    elif base is not None and base.state.is_published:
        why = "asked for" if full_refresh else _why_anew(declaration, manifest, columns, names, base.state)
        start = 0 if why else base.state.sources[0].offset
        if not full_refresh and base.state.sources:
            _check_not_expired(declaration, manifest, base.state.sources[0], why)
        if start > manifest.next_offset:
            raise LakeError(
                f"the table holds messages up to offset {start}, the stream ends at {manifest.next_offset}",
                hint="a part of the stream is gone: restore it, or run with --full-refresh",
                key=state_key(declaration.name),
            )
    start = max(start, manifest.floor)
    return TablePlan(
        declaration=declaration,
        columns=columns,
        manifest=manifest,
        base=base,
        key=key,
        start=start,
        stop=manifest.next_offset,
        generation=1 if base is None else max(1, base.state.generation + bool(why)),
        why=why,
    )


def _check_not_expired(declaration: TableDeclaration, manifest: Manifest, source: TableSource, why: str) -> None:
    """Raise ``ExpiredMessagesError`` where a run would go on without messages that the table never had, or begin anew,
    for the reason ``why``, without some that its rows were made of."""
    begin = source.begin if source.lineage == manifest.lineage else 0
    start = begin if why else source.offset
    if start >= manifest.floor:
        return
    if why:
        what = f"the table would be made anew ({why}), and messages that made it have expired"
        hint = "undo the change, or give up the rows of expired messages with --full-refresh"
    else:
        what = f"the messages from offset {start} to {manifest.floor - 1} expired before the table had them"
        hint = "make the table anew of what is left with --full-refresh"
    raise ExpiredMessagesError(what, hint=hint, key=state_key(declaration.name))


def _key(declaration: TableDeclaration, manifest: Manifest, stream_key: Sequence[str] | None) -> tuple[str, ...]:
    if declaration.keep is Keep.APPEND:
        return ()
    if declaration.key is not None:
        return declaration.key
    if stream_key is None:
        schema = schema_in_force(manifest)
        stream_key = () if schema is None else schema.key_properties
    key = tuple(dict.fromkeys(stream_key))
    if not key:
        raise SettingError(
            f"table {declaration.name!r} keeps {declaration.keep.value}, and stream {declaration.stream!r} has no key",
            hint="name one under 'key', or set 'keep' to append",
            tap=declaration.tap,
            **declaration.at("keep"),
        )
    return key


def check_uses(declaration: TableDeclaration, columns: TableColumns, key: tuple[str, ...]) -> None:
    """Raise ``SettingError`` where a column that is named for something does not suit it."""
    known = {source: column for column in columns.records for source in column.sources}
    partitions = tuple(each.column for each in declaration.partition_by)
    unique = tuple(check.column for check in declaration.checks if check.condition is None)
    named = {
        "key": key,
        "checks": unique,
        "order_by": declaration.order_by,
        "sort_by": declaration.sort_by,
        "partition_by": partitions,
    }
    for what, names in named.items():
        for name in names:
            column = known.get(name)
            if column is None or not column.kept:
                raise left_out(declaration, what, name)
            if isinstance(column.type, Array | Struct):
                raise SettingError(
                    f"{what} of table {declaration.name!r} is {name!r}, which is nested",
                    hint="name a column of a simple type, or cast it to text",
                    **declaration.at(what, name),
                )
    for name in declaration.order_by:
        if isinstance(known[name].type, JsonText):
            raise SettingError(
                f"order_by of table {declaration.name!r} is {name!r}, which holds JSON: as text 10 is less than 9",
                hint="cast it under 'columns' to the type that it is ordered as, as to timestamp or double",
                **declaration.at("order_by", name),
            )
    for check in declaration.checks:
        if check.condition is not None:
            _check_literals(declaration, "checks", check.column, check.condition, known[check.column].type)
    if declaration.deleted_when is not None:
        deletes = declaration.deleted_when.column
        _check_literals(declaration, "deleted_when", deletes, declaration.deleted_when, known[deletes].type)
    for each in declaration.partition_by:
        if each.unit is not None and not isinstance(known[each.column].type, Timestamp | Date):
            raise SettingError(
                f"partition_by of table {declaration.name!r} is {str(each)!r}, which is not a time",
                hint="name a column that is a timestamp or a date, or cast it",
                **declaration.at("partition_by", str(each)),
            )


def _check_literals(declaration: TableDeclaration, what: str, name: str, condition: Condition, column: Column) -> None:
    try:
        check_literals(condition, column)
    except SettingError as error:
        raise SettingError(
            f"{what} of table {declaration.name!r} says {str(condition)!r} of {name!r}: {error.message}",
            hint=error.hint,
            **declaration.at(what, name),
        ) from error


def _why_anew(
    declaration: TableDeclaration, manifest: Manifest, columns: TableColumns, key: tuple[str, ...], state: TableState
) -> str:
    """Why files that are there cannot be gone on from; empty where they can."""
    changed = [name for name in changes(state, declaration) if name not in WITHOUT_ROWS]
    if changed:
        return f"its declaration changed: {', '.join(changed)}"
    if state.casts < CASTS and any(_reads_otherwise(rule.cast) for rule in declaration.columns.values()):
        return "casts read values as they were captured now"
    source = state.sources[0]
    if source.lineage != manifest.lineage:
        return "the stream was rebuilt or dropped since, so that its offsets mean other records"
    if not source.knows_holes_of(source_of(manifest)):
        return "records of the stream were erased"
    if state.key != key:
        return f"its key is {', '.join(key)} now, and was {', '.join(state.key)}"
    at = state_key(declaration.name)
    types = {field.name: field.type for field in columns.table.fields}
    for entry in state.columns:
        new = types.get(entry.name)
        if new is None:
            return f"column {entry.name!r} is gone"
        was = column_of(entry.type, key=at)
        if not only_adds(was, plain(new)):
            if type_name(was) == type_name(new):
                return f"column {entry.name!r} is another {type_name(new)} now"
            return f"column {entry.name!r} is {type_name(new)} now, and was {type_name(was)}"
    if any(file.rescued for file in state.files) and _declares_more(manifest, source.offset):
        return "its schemas declare more now, and records that are there have values that did not fit"
    return ""


def _reads_otherwise(words: str | None) -> bool:
    """Whether that cast made other values of some before it read them as they were captured."""
    return words is not None and not isinstance(type_named(words), Decimal | JsonText)


def _declares_more(manifest: Manifest, offset: int) -> bool:
    """Whether versions that appear from ``offset`` on change what of a record fits."""
    request = Request(metadata=True)
    return declared(as_it_was(manifest, offset), [], request) != declared(manifest, [], request)


def plain(column: Column) -> Column:
    """The type as a state keeps it: what of JSON fits a decimal is not part of it."""
    return column_of(words_of(column), key="")


ASKED, FIRST = "asked for", "for the first time"


@dataclass(frozen=True)
class SqlPlan:
    """``why`` says in words why the statement is run, and is empty where the table is as it should be. ``tables`` are
    those that it read the last time. ``continues``: of the one that it reads only new rows are to be read, if the run
    finds that it only grew."""

    declaration: TableDeclaration
    base: StoredState | None = field(repr=False)
    why: str
    continues: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether the table is as it should be."""
        return not self.why

    @property
    def state(self) -> TableState | None:
        """The table as it is published."""
        return self.base.state if self.base is not None and self.base.state.is_published else None

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(each.table for each in self.state.made_from) if self.state is not None else ()


def sql_plan(
    declaration: TableDeclaration,
    base: StoredState | None,
    now: Callable[[str], TableState | None],
    *,
    full_refresh: bool = False,
) -> SqlPlan:
    """The plan for a table whose state is ``base``; ``now`` gives the state of another table as it will be
    when this one is made, None where there is none or it is not known yet."""
    if base is None or not base.state.is_published:
        return SqlPlan(declaration, base, FIRST)
    if full_refresh:
        return SqlPlan(declaration, base, ASKED)
    changed = changes(base.state, declaration)
    if changed:
        return SqlPlan(declaration, base, f"its declaration changed: {', '.join(changed)}")
    states = [(each, now(each.table)) for each in base.state.made_from]
    others = [each.table for each, state in states if state is None or state.rows_id != each.rows]
    if not others:
        return SqlPlan(declaration, base, "")
    only_grew = all(state is None or new_rows(each, state) is not None for each, state in states)
    continues = only_grew and may_continue(base.state)
    return SqlPlan(declaration, base, f"{', '.join(others)} changed", continues)


CONTINUED_RUNS = 50
"""After so many runs that continue one makes all rows: each adds a file, however small."""


@dataclass(frozen=True)
class NewRows:
    """Rows that came to a table: those of ``files`` that are of records with offsets from ``start`` on."""

    files: tuple[TableFile, ...]
    start: int


def up_to(state: TableState) -> UpTo | None:
    """Where the table ends; None where rows that come later could not be told from those that it has."""
    if state.is_of_statement:
        end: int | None = len(state.files)
    else:
        end = state.sources[0].offset if state.declaration.get("keep") == Keep.APPEND.value else None
    return None if end is None else UpTo(id=state.id, end=end, columns=state.columns_id)


def may_continue(state: TableState) -> bool:
    """Whether a table of a statement can have new rows behind those that it has, if the one that it was made from only
    grew."""
    if state.order or len(state.made_from) != 1 or state.made_from[0].up_to is None:
        return False
    runs = [run for run in state.runs if run.kind != COLLECT]
    return any(not is_continued(run) for run in runs[-CONTINUED_RUNS:])


def is_continued(run: TableRun) -> bool:
    """Whether a run of a statement left the rows as they were that the table had."""
    return run.stop > 0


def new_rows(before: MadeFrom, now: TableState) -> NewRows | None:
    """What came to a table since it was read; None where it may have done anything but grow."""
    mark = before.up_to
    if mark is None or now.generation != before.generation or now.columns_id != mark.columns:
        return None
    return _of_statement(before, mark, now) if now.is_of_statement else _of_stream(mark, now)


def _of_stream(mark: UpTo, now: TableState) -> NewRows | None:
    """A table with all records of a stream. Each of its rows tells its offset, in whatever file it lies by now."""
    since = now.since(mark.id)
    end = up_to(now)
    if since is None or any(map(_changed_rows, since)) or end is None or end.end < mark.end:
        return None
    return NewRows(tuple(file for file in now.files if file.offsets[1] >= mark.end), mark.end)


def _of_statement(before: MadeFrom, mark: UpTo, now: TableState) -> NewRows | None:
    """A table of a statement that has the files that it had, and others behind them. An id of a file is never used
    again."""
    if now.rows_id_of(now.files[: mark.end]) != before.rows:
        return None
    return NewRows(now.files[mark.end :], 0)


def _changed_rows(run: TableRun) -> bool:
    """Whether a write may have done something to rows that were there before it."""
    if run.kind == COLLECT:
        return False
    return run.kind != RUN or run.updated > 0 or run.deleted > 0
