"""A table's columns as the Iceberg specification calls them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
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
from singerlake.tables.declaration.model import ALSO, TableDeclaration
from singerlake.tables.state.ids import Numbered
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


def check_name(declaration: TableDeclaration) -> None:
    """Raise ``SettingError`` where Iceberg metadata cannot describe a table of that name."""
    if not declaration.iceberg:
        return
    segment = table_segment(declaration.name)
    if "%" in segment or segment == ICEBERG_METADATA:
        raise SettingError(
            f"table {declaration.name!r} has a name by which readers of Iceberg do not find it",
            hint=f"name it with ASCII letters, digits, '_', '-' and '.' alone, and not {ICEBERG_METADATA!r}",
            **declaration.at(ALSO),
        )
