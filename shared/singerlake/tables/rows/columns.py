"""The columns of a table: which properties are read, as which types, and what the table calls them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import structs

from singerlake.arrow.plan.request import MessageKinds, Mode, Request
from singerlake.arrow.plan.snapshot import declared, looked_for
from singerlake.arrow.schema.columns import (
    MAX_PRECISION,
    Array,
    Boolean,
    Column,
    Date,
    Decimal,
    Double,
    Field,
    Integer,
    JsonText,
    Struct,
    Text,
    Timestamp,
    arrow_schema,
    merge_all,
    settle,
)
from singerlake.arrow.schema.own import ALL, MESSAGE_TYPE, OFFSET, RESCUED, TABLE_VERSION, TIME, VERSION
from singerlake.arrow.values.known import KnownObject
from singerlake.errors import SettingError, UnknownNameError
from singerlake.format.state.model import Manifest
from singerlake.tables.declaration.model import Deletions, Keep, TableDeclaration
from singerlake.tables.rows.partitions import is_partition
from singerlake.tables.state.types import SIMPLE

if TYPE_CHECKING:
    import pyarrow as pa


def free_name(name: str, taken: Collection[str]) -> str:
    """``name``, with a number from 2 on where that is ``taken``. Those are in lower case."""
    free, number = name, 1
    while free.lower() in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def with_distinct_names(column: Column) -> Column:
    """The type with such names for the fields of each object in it: the first of equals keeps its name."""
    if isinstance(column, Array):
        return Array(with_distinct_names(column.element))
    if not isinstance(column, Struct):
        return column
    taken: set[str] = set()
    fields = []
    for field in column.fields:
        name = free_name(field.name, taken)
        taken.add(name.lower())
        fields.append(replace(field, name=name, type=with_distinct_names(field.type)))
    return Struct(tuple(fields))


SDC_DELETED = "_sdc_deleted_at"
VALID_FROM, VALID_TO, CURRENT = "_valid_from", "_valid_to", "_current"
GONE, GONE_AT = "_deleted", "_deleted_at"
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)\Z")


DELETED = "__deleted"
"""Whether a row's record is a deletion; only while rows are worked on."""
MOMENT = "__moment"
"""When a row's record was captured; only while rows of a history are worked on."""
HIDDEN = "__hidden"
"""Whether a record has no row; only while rows are worked on."""
WORKING = (DELETED, MOMENT, HIDDEN)
"""Columns that rows have only while they are worked on, besides partitions. No property has its column so named."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """``sources`` are the properties, more than one where the declaration joins some that differ by case alone;
    ``read`` is the type they are decoded as, with the stream's names of fields, ``type`` the table's, with names that
    differ in more than case. ``kept`` is False for a property that is read only to see whether a record is a
    deletion."""

    name: str
    sources: tuple[str, ...]
    read: Column
    type: Column
    kept: bool = True

    @property
    def source(self) -> str:
        """The property that it is called by."""
        return self.sources[0]


@dataclass(frozen=True, slots=True)
class TableColumns:
    """``records`` are those of the records; ``own`` the lake's, as the table has them; ``known`` is what of a record is
    declared, for what is rescued."""

    records: tuple[TableColumn, ...]
    own: tuple[Field, ...]
    known: KnownObject | None

    @property
    def table(self) -> Struct:
        """All columns of the table's files, in order."""
        kept = tuple(Field(column.name, column.type) for column in self.records if column.kept)
        return Struct(kept + self.own)

    @property
    def schema(self) -> pa.Schema:
        """Their Arrow schema."""
        return arrow_schema(self.table)

    def name_of(self, source: str) -> str:
        """What the table calls a property."""
        return self.record(source).name

    def names_of(self, sources: Iterable[str]) -> tuple[str, ...]:
        """What the table calls properties, each column once."""
        return tuple(dict.fromkeys(map(self.name_of, sources)))

    def record(self, source: str) -> TableColumn:
        """The column that is read from a property."""
        return next(column for column in self.records if source in column.sources)

    @property
    def has_soft_deletions(self) -> bool:
        """Whether rows of deleted keys stay."""
        return any(field.name == GONE for field in self.own)

    def reads(self, messages: MessageKinds) -> Struct:
        """What a task decodes. The time is read for the table's own column, for a history and for soft deletions: what
        does not fit is rescued, and must not be so for other messages beside it."""
        names = {field.name for field in self.own}
        wanted = {OFFSET, TABLE_VERSION, RESCUED.name} | (names & {VERSION, TIME})
        if names & {CURRENT, GONE}:
            wanted.add(TIME)
        own = [field for field in ALL.fields if field.name in wanted]
        if messages is MessageKinds.ALL:
            own.append(MESSAGE_TYPE)
        read = [Field(source, column.read) for column in self.records for source in column.sources]
        return Struct((*read, *own))

    @property
    def read_as(self) -> dict[str, Column]:
        """The types that properties of a record, and what stands beside it, are read as."""
        return {field.name: field.type for field in self.reads(MessageKinds.RECORDS).fields}

    def read_schema(self, messages: MessageKinds) -> pa.Schema:
        """The Arrow schema of ``reads``, in which fields of objects have the table's names already."""
        fields = self.reads(messages).fields
        return arrow_schema(Struct(tuple(replace(field, type=with_distinct_names(field.type)) for field in fields)))


def as_it_was(manifest: Manifest, offset: int) -> Manifest:
    """The stream with the versions alone that appear before ``offset``."""
    earlier = {version: each for version, each in manifest.schemas.items() if each.first_offset < offset}
    return structs.replace(manifest, schemas=earlier)


def columns_of(declaration: TableDeclaration, manifest: Manifest) -> TableColumns:
    """The columns of that table over all versions of its stream. Raises ``UnknownNameError`` for a property that no
    version has, ``SettingError`` for one that is dropped and used, for a cast that is not possible and for names that
    clash."""
    there = declared(manifest, [], Request(mode=Mode.FAILFAST))
    fields = _own_fields(declaration, there) if there is not None else ()
    names = [field.name for field in fields]
    for what, wanted in named_in(declaration):
        if wanted not in names:
            raise unknown(declaration, what, wanted, names)
        if declaration.rule(wanted).drop and what not in ("columns", "deleted_when"):
            raise left_out(declaration, what, wanted)
    deletes = SDC_DELETED if declaration.deleted_when is None else declaration.deleted_when.column
    there_or_deletes = [field for field in fields if field.name == deletes or not declaration.rule(field.name).drop]
    records = [_column(declaration, joined) for joined in _joined(declaration, there_or_deletes)]
    own = _own_columns(declaration, records)
    made = TableColumns(_distinct(declaration, records, own), own, None)
    read = made.reads(MessageKinds.RECORDS)
    known = looked_for(read, there, Request(metadata=True), chosen=False) if there is not None else None
    return TableColumns(made.records, own, known)


def _own_fields(declaration: TableDeclaration, there: Struct) -> tuple[Field, ...]:
    """The records' own. Raises ``SettingError`` where one has the name of a column of the lake's."""
    clash = next((field.name for field in there.fields if ALL.get(field.name) is not None), None)
    if clash is not None:
        raise SettingError(
            f"the records of stream {declaration.stream!r} have a property {clash!r}, which tables have for themselves",
            hint="rename it in the tap, or by a stream map of the target; 'columns' can neither rename nor drop it",
            tap=declaration.tap,
            stream=declaration.stream,
            **declaration.at("columns", clash),
        )
    return there.fields


def named_in(declaration: TableDeclaration) -> Iterable[tuple[str, str]]:
    """The columns that are named, each with the key that names it."""
    for name in declaration.columns:
        yield "columns", name
    for what in ("key", "order_by", "sort_by"):
        for name in getattr(declaration, what) or ():
            yield what, name
    for partition in declaration.partition_by:
        yield "partition_by", partition.column
    for check in declaration.checks:
        yield "checks", check.column
    if declaration.deleted_when is not None:
        yield "deleted_when", declaration.deleted_when.column


def unknown(declaration: TableDeclaration, what: str, wanted: str, names: list[str]) -> UnknownNameError:
    """The error for a property that the stream does not have."""
    close = get_close_matches(wanted, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(names) or 'none yet'}"
    return UnknownNameError(
        f"{what} of table {declaration.name!r} names {wanted!r}, which is not a property of its stream",
        hint=hint,
        tap=declaration.tap,
        stream=declaration.stream,
        **declaration.at(what, wanted),
    )


def left_out(declaration: TableDeclaration, what: str, wanted: str) -> SettingError:
    """The error for a property that is used and is not a column of the table."""
    if not declaration.rule(wanted).drop:
        # A declared name is looked for before: it is of the stream's key properties.
        return SettingError(
            f"{what} of table {declaration.name!r} is {wanted!r}, a key property of its stream that no schema declares",
            hint="name another key under 'key', or set 'keep' to append",
            tap=declaration.tap,
            stream=declaration.stream,
            **declaration.at(what, wanted),
        )
    return SettingError(
        f"{what} of table {declaration.name!r} names {wanted!r}, which its columns leave out",
        hint="do not drop it under 'columns'",
        **declaration.at(what, wanted),
    )


def _own_columns(declaration: TableDeclaration, records: list[TableColumn]) -> tuple[Field, ...]:
    names = [OFFSET, TABLE_VERSION, RESCUED.name]
    if declaration.metadata:
        names = [OFFSET, TABLE_VERSION, VERSION, TIME, RESCUED.name]
    own = [next(field for field in ALL.fields if field.name == name) for name in names]
    if declaration.keep is Keep.HISTORY:
        moment: Column = Timestamp()
        if declaration.order_by:
            moment = next(column.type for column in records if declaration.order_by[0] in column.sources)
        own += [Field(VALID_FROM, moment), Field(VALID_TO, moment), Field(CURRENT, Boolean())]
    if declaration.deletions is Deletions.SOFT:
        own += [Field(GONE, Boolean()), Field(GONE_AT, Timestamp())]
    return tuple(own)


def _joined(declaration: TableDeclaration, fields: Iterable[Field]) -> Iterable[list[Field]]:
    """The properties of each column: those that differ by case alone and are given the same name are one."""
    made: dict[tuple[str, str, bool], list[Field]] = {}
    for field in fields:
        rule = declaration.rule(field.name)
        made.setdefault((rule.rename or field.name, field.name.lower(), rule.drop), []).append(field)
    return made.values()


def _column(declaration: TableDeclaration, fields: list[Field]) -> TableColumn:
    """The column of these properties. Raises ``SettingError`` where they are cast to different types."""
    rules = {field.name: declaration.rule(field.name) for field in fields}
    casts = {name: rule.cast for name, rule in rules.items() if rule.cast is not None and not rule.drop}
    if len(set(casts.values())) > 1:
        raise SettingError(
            f"properties {' and '.join(map(repr, casts))} are one column of table {declaration.name!r}, and are cast "
            f"to {' and '.join(map(repr, casts.values()))}",
            hint="cast them to one type",
            **declaration.at("columns", list(casts)[-1]),
        )
    own = settle(merge_all([field.type for field in fields]))
    read, target = own, own
    for name, words in casts.items():
        read, target = _cast(declaration, Field(name, own), words)
    name = next((rule.rename for rule in rules.values() if rule.rename), fields[0].name)
    sources = sorted(rules, key=lambda source: source != name)
    drop = any(rule.drop for rule in rules.values())
    return TableColumn(name, tuple(sources), read, with_distinct_names(target), kept=not drop)


def _distinct(
    declaration: TableDeclaration, records: list[TableColumn], own: tuple[Field, ...]
) -> tuple[TableColumn, ...]:
    """The same with names that differ in more than case, which engines do not tell apart. Raises ``SettingError`` where
    two are the same by declaration."""
    reserved = {field.name.lower() for field in (*own, *ALL.fields)}
    given: dict[str, TableColumn] = {}
    for column in records:
        if column.kept and any(declaration.rule(source).rename for source in column.sources):
            lower = column.name.lower()
            if lower in (*reserved, *WORKING) or is_partition(lower):
                raise _reserved(declaration, column)
            if lower in given:
                raise _same(declaration, column, given[lower])
            given[lower] = column
    taken = {*reserved, *WORKING, *given}
    names = {}
    for column in records:
        lower = column.name.lower()
        if not column.kept or given.get(lower) is column:
            continue
        if lower in given:
            raise _same(declaration, given[lower], column)
        if lower in reserved:
            raise _reserved(declaration, column)
        names[column.source] = free_name(column.name, {*taken, lower} if is_partition(lower) else taken)
        taken.add(names[column.source].lower())
    return tuple(replace(column, name=names.get(column.source, column.name)) for column in records)


def _same(declaration: TableDeclaration, column: TableColumn, other: TableColumn) -> SettingError:
    """The error for a property that is given the name of another one's column."""
    hint = "give the property another name by 'rename' under 'columns'"
    if column.source.lower() == other.source.lower():
        hint += f", or join the two by giving both the name {column.name!r}"
    return _not_its_name(
        declaration,
        column,
        f"as property {other.source!r} is, and names of columns differ in more than case",
        hint,
    )


def _reserved(declaration: TableDeclaration, column: TableColumn) -> SettingError:
    """The error for a property whose column has a name that tables have for themselves."""
    hint = "give the property another name by 'rename' under 'columns'"
    return _not_its_name(declaration, column, "a name that tables have for themselves", hint)


def _not_its_name(declaration: TableDeclaration, column: TableColumn, why: str, hint: str) -> SettingError:
    return SettingError(
        f"property {column.source!r} would be column {column.name!r} of table {declaration.name!r}, {why}",
        hint=hint,
        tap=declaration.tap,
        stream=declaration.stream,
        **declaration.at("columns", column.source),
    )


def type_named(words: str) -> Column | None:
    """The type that a cast names; None where it names none."""
    found = _DECIMAL.match(words.strip())
    if found:
        precision, scale = int(found[1]), int(found[2] or 0)
        fits = 0 < precision <= MAX_PRECISION and scale <= precision
        return Decimal(precision, scale, number=True, text=True) if fits else None
    return SIMPLE.get(words.strip())


def _cast(declaration: TableDeclaration, field: Field, words: str | None) -> tuple[Column, Column]:
    """As what a property is decoded, and what its column is."""
    if words is None:
        return field.type, field.type
    target = type_named(words)
    if target is None:
        raise SettingError(
            f"column {field.name!r} of table {declaration.name!r} is cast to {words!r}, which is not a type",
            hint=f"types are {', '.join(SIMPLE)}, decimal(precision, scale)",
            **declaration.at("columns", field.name),
        )
    read = _read_as(field.type, target)
    if read is None:
        raise SettingError(
            f"column {field.name!r} of table {declaration.name!r} cannot be cast to {words!r}",
            hint="cast it to text or json, and convert it where the table is read",
            **declaration.at("columns", field.name),
        )
    return read, target


def _read_as(own: Column, target: Column) -> Column | None:
    """The type that a property of type ``own`` is decoded as, for ``cast.cast`` to make ``target`` of it: JSON text, as
    it was captured; of decimals the decoder reads numbers and texts alike. None where no value of the declared type
    could be one of ``target``."""
    if isinstance(target, Text | JsonText):
        return JsonText()
    number, time = isinstance(own, Integer | Double), isinstance(target, Timestamp | Date)
    number = number or (isinstance(own, Decimal) and own.number)
    if isinstance(own, Array | Struct) or (number and time):
        return None
    if isinstance(own, Boolean) and (time or isinstance(target, Double | Decimal)):
        return None
    return target if isinstance(target, Decimal) else JsonText()
