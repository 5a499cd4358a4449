"""A table's types in words, and its values as JSON: what ``_table.json`` says of columns and of ranges."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.columns import (
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
)
from singerlake.clock import parse_timestamp, timestamp
from singerlake.errors import CorruptObjectError
from singerlake.tables.state.keys import state_key
from singerlake.tables.state.model import TableState

if TYPE_CHECKING:
    import pyarrow as pa


_WORDS: dict[type[Column], str] = {
    Boolean: "boolean",
    Integer: "integer",
    Double: "double",
    Text: "text",
    JsonText: "json",
    Date: "date",
}
SIMPLE: dict[str, Column] = {
    "boolean": Boolean(),
    "integer": Integer(),
    "double": Double(),
    "text": Text(),
    "json": JsonText(),
    "date": Date(),
    "timestamp": Timestamp(),
    "local_timestamp": Timestamp(zoned=False),
}


def words_of(column: Column) -> Any:
    """A column's type as JSON says it."""
    if isinstance(column, Timestamp):
        return "timestamp" if column.zoned else "local_timestamp"
    if isinstance(column, Decimal):
        return {"decimal": [column.precision, column.scale]}
    if isinstance(column, Array):
        return {"array": words_of(column.element)}
    if isinstance(column, Struct):
        return {"struct": [[field.name, words_of(field.type)] for field in column.fields]}
    return _WORDS[type(column)]


def type_name(column: Column) -> str:
    """A column's type in one word, for messages."""
    words = words_of(column)
    return words if isinstance(words, str) else str(next(iter(words)))


def column_of(words: Any, *, key: str) -> Column:
    """The type that ``words_of`` wrote. Raises ``CorruptObjectError`` naming ``key``."""
    try:
        if isinstance(words, str):
            return SIMPLE[words]
        ((kind, inner),) = words.items()
        if kind == "decimal":
            precision, scale = inner
            return Decimal(int(precision), int(scale), number=True, text=True)
        if kind == "array":
            return Array(column_of(inner, key=key))
        if kind == "struct":
            return Struct(tuple(Field(name, column_of(each, key=key)) for name, each in inner))
    except (KeyError, ValueError, TypeError, AttributeError):
        pass
    raise CorruptObjectError(f"no type of a column: {words!r}"[:200], hint="restore the object", key=key)


def columns_of(state: TableState) -> Struct:
    """The columns of a state. Raises ``CorruptObjectError``."""
    key = state_key(state.table)
    return Struct(tuple(Field(each.name, column_of(each.type, key=key)) for each in state.columns))


def value_to_json(value: Any) -> Any:
    """A scalar's Python value, as a range of the state says it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime.datetime):
        return timestamp(value if value.tzinfo else value.replace(tzinfo=datetime.UTC))
    if isinstance(value, datetime.date | decimal.Decimal):
        return str(value)
    return value


def value_from_json(value: Any, arrow: pa.DataType) -> Any:
    """The Python value that ``value_to_json`` wrote of a scalar of that type. Raises ``ValueError``."""
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_floating(arrow):
        return float(value)
    if pa.types.is_timestamp(arrow):
        moment = parse_timestamp(value)
        if moment is None:
            raise ValueError("no time")
        return moment if arrow.tz else moment.replace(tzinfo=None)
    if pa.types.is_date(arrow):
        return datetime.date.fromisoformat(value)
    if pa.types.is_decimal(arrow):
        return decimal.Decimal(value)
    return value


def compared(value: Any) -> tuple[int, Any]:
    """What a value is sorted by: null last, NaN before it."""
    if value is None:
        return (2, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value)


def sort_key(values: tuple[Any, ...]) -> tuple[tuple[int, Any], ...]:
    """Where a row of these values of its order is among others."""
    return tuple(map(compared, values))


PARTITION = "__partition_"
"""What the names of partition values begin with, while rows are worked on and in the order of a table. A number
follows."""
