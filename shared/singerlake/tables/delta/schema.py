"""A table's columns as the Delta protocol calls them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
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
from singerlake.format.exact_json import encode
from singerlake.tables.declaration.model import Format, TableDeclaration
from singerlake.tables.rows.columns import TableColumns
from singerlake.tables.state.keys import table_segment

FORBIDDEN = " ,;{}()\n\t="
"""What no name of a column may hold without column mapping, which not every reader knows."""
_LOCAL = "timestampNtz"
_WORDS: dict[type[Column], str] = {
    Boolean: "boolean",
    Integer: "long",
    Double: "double",
    Text: "string",
    JsonText: "string",
    Date: "date",
}


def schema_string(columns: Struct) -> str:
    """The schema as ``metaData`` has it."""
    return encode(type_of(columns)).decode()


def type_of(column: Column) -> Any:
    """A column's type; JSON."""
    if isinstance(column, Struct):
        fields = [
            {"name": field.name, "type": type_of(field.type), "nullable": True, "metadata": {}}
            for field in column.fields
        ]
        return {"type": "struct", "fields": fields}
    if isinstance(column, Array):
        return {"type": "array", "elementType": type_of(column.element), "containsNull": True}
    if isinstance(column, Timestamp):
        return "timestamp" if column.zoned else "timestamp_ntz"
    if isinstance(column, Decimal):
        return f"decimal({column.precision},{column.scale})"
    return _WORDS[type(column)]


def protocol_of(columns: Struct) -> dict[str, Any]:
    """The least protocol that readers of these columns have to know."""
    if any(isinstance(each, Timestamp) and not each.zoned for each in _all(columns)):
        # With writer version 7 everything is listed, what versions before it had without a word, too.
        writers = ["appendOnly", "invariants", _LOCAL]
        return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [_LOCAL], "writerFeatures": writers}
    return {"minReaderVersion": 1, "minWriterVersion": 2}


def check_columns(declaration: TableDeclaration, columns: TableColumns) -> None:
    """Raise ``SettingError`` where a Delta table cannot have that name or these columns; other formats can."""
    if declaration.format is not Format.DELTA:
        return
    if "%" in table_segment(declaration.name):
        raise SettingError(
            f"table {declaration.name!r} has a name that stands with escapes in its path, where readers of Delta "
            "do not find it",
            hint="name it with ASCII letters, digits, '_', '-' and '.' alone",
            **declaration.at(),
        )
    named, nested = (
        "set 'rename' for it under 'columns', without",
        "set 'cast: json' for the column under 'columns', or 'drop'",
    )
    if declaration.sql is not None:
        named, nested = "name it otherwise with AS, without", "write to_json(...), or name its fields otherwise"
    for column in columns.records:
        if not column.kept:
            continue
        where = declaration.at("columns" if declaration.sql is None else "sql", column.source)
        if _is_bad(column.name):
            raise SettingError(
                f"column {column.name!r} of table {declaration.name!r} has a name that Delta does not take",
                hint=f"{named} spaces and any of ,;{{}}()=",
                **where,
            )
        for within in _all(column.type):
            fields = within.fields if isinstance(within, Struct) else ()
            bad = next((field.name for field in fields if _is_bad(field.name)), None)
            if bad is not None:
                raise SettingError(
                    f"column {column.name!r} of table {declaration.name!r} has a field {bad!r}, "
                    "which Delta does not take",
                    hint=nested,
                    **where,
                )


def _is_bad(name: str) -> bool:
    return any(character in FORBIDDEN for character in name)


def _all(column: Column) -> Iterator[Column]:
    """A column and all within it."""
    yield column
    if isinstance(column, Struct):
        for field in column.fields:
            yield from _all(field.type)
    elif isinstance(column, Array):
        yield from _all(column.element)
