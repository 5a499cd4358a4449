"""The columns that a statement gives, and what of a declaration suits them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from singerlake.arrow.schema.columns import Struct
from singerlake.errors import SettingError, UnknownNameError
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.delta.schema import check_columns
from singerlake.tables.rows.columns import WORKING, TableColumn, TableColumns
from singerlake.tables.rows.names import with_distinct_names
from singerlake.tables.rows.partitions import is_partition
from singerlake.tables.run.plan import check_uses

ROW = "__row"
"""The place of a row among all rows that were written; only while rows are sorted."""


def statement_columns(declaration: TableDeclaration, given: Struct) -> TableColumns:
    """The columns of the table, which are those that the statement gives. Raises ``SettingError`` where two have one
    name, or one has none, and ``UnknownNameError`` where the declaration names another."""
    seen: set[str] = set()
    at = declaration.at("sql")
    for field in given.fields:
        name = field.name.lower()
        if not name.strip():
            raise SettingError("a column of the statement has no name", hint="name it with AS", **at)
        if name in seen:
            raise SettingError(
                f"the statement gives two columns {field.name!r}", hint="name one of them otherwise with AS", **at
            )
        if name in (*WORKING, ROW) or is_partition(name):
            raise SettingError(
                f"the statement gives a column {field.name!r}, a name that runs use for themselves",
                hint="name it otherwise with AS",
                **at,
            )
        if with_distinct_names(field.type) != field.type:
            raise SettingError(
                f"column {field.name!r} of the statement has fields of an object that differ by case alone",
                hint="name them otherwise, as by named_struct, or write to_json(...)",
                **at,
            )
        seen.add(name)
    names = [field.name for field in given.fields]
    for what, wanted in _named(declaration):
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


def _named(declaration: TableDeclaration) -> Iterator[tuple[str, str]]:
    for name in declaration.sort_by:
        yield "sort_by", name
    for partition in declaration.partition_by:
        yield "partition_by", partition.column
    for check in declaration.checks:
        yield "checks", check.column
