"""A table's columns as the Iceberg specification calls them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from singerlake.arrow.schema.columns import (
    Array,
    Boolean,
    Column,
    Date,
    Decimal,
    Double,
    Integer,
    JsonText,
    Struct,
    Text,
    Timestamp,
)
from singerlake.errors import SettingError
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import ALSO, TableDeclaration
from singerlake.tables.rows.columns import TableColumns
from singerlake.tables.state.ids import ELEMENT, Numbered
from singerlake.tables.state.keys import ICEBERG_METADATA, table_segment

_WORDS: dict[type[Column], str] = {
    Boolean: "boolean",
    Integer: "long",
    Double: "double",
    Text: "string",
    JsonText: "string",
    Date: "date",
}


def fields_of(columns: Sequence[Numbered]) -> list[dict[str, Any]]:
    """The fields of a schema, or of a struct; JSON."""
    return [{"id": each.id, "name": each.name, "required": False, "type": _type(each)} for each in columns]


def _type(column: Numbered) -> Any:
    own = column.type
    if isinstance(own, Struct):
        return {"type": "struct", "fields": fields_of(column.inner)}
    if isinstance(own, Array):
        (element,) = column.inner
        return {"type": "list", "element-id": element.id, "element": _type(element), "element-required": False}
    if isinstance(own, Timestamp):
        return "timestamptz" if own.zoned else "timestamp"
    if isinstance(own, Decimal):
        return f"decimal({own.precision}, {own.scale})"
    return _WORDS[type(own)]


def check_names(declaration: TableDeclaration, columns: TableColumns) -> None:
    """Raise ``SettingError`` where Iceberg metadata cannot describe a table of that name, or with these columns."""
    segment = table_segment(declaration.name)
    if "%" in segment or segment == ICEBERG_METADATA:
        raise SettingError(
            f"table {declaration.name!r} has a name by which readers of Iceberg do not find it",
            hint=f"name it with ASCII letters, digits, '_', '-' and '.' alone, and not {ICEBERG_METADATA!r}",
            **declaration.at(ALSO),
        )
    known: set[str] = set()
    for way in (way for each in columns.table.fields for way in _ways(each.name, each.type)):
        if way in known:
            raise SettingError(
                f"table {declaration.name!r} has two columns or fields that Iceberg calls {way!r}",
                hint="set 'rename' for one of them under 'columns'",
                **declaration.at(ALSO),
            )
        known.add(way)


def _ways(name: str, column: Column) -> Iterator[str]:
    """The full names of a column and of all within it."""
    yield name
    for each in column.fields if isinstance(column, Struct) else ():
        yield from _ways(f"{name}.{each.name}", each.type)
    if isinstance(column, Array):
        yield from _ways(f"{name}.{ELEMENT}", column.element)


def check_place(storage: Storage) -> None:
    """Raise ``SettingError`` where readers would take the URLs of the lake's files for others."""
    if {"#", "?"} & {*storage.url}:
        raise SettingError(
            "readers of Iceberg do not find files of a lake whose root has '#' or '?' in it",
            hint="rename the folder, or remove 'also'",
            lake_root=storage.url,
        )
