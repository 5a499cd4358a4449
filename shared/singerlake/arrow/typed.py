"""The fast way's decoder: a msgspec one that reads just the columns asked for, strictly."""

from __future__ import annotations

from typing import Any

import msgspec

from singerlake.arrow.columns import (
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
    Variant,
)
from singerlake.arrow.values import slot


def typed_decoder(record: Struct, *, with_time: bool) -> msgspec.json.Decoder[Any] | None:
    """A decoder of messages. Of a RECORD, ``record`` has just the fields asked for, named by ``slot``; of the others it
    is None for an ACTIVATE_VERSION and False for a SCHEMA. None where msgspec cannot name a field."""
    try:
        fields: list[Any] = [("record", _struct_type(record))]
    except (ValueError, UnicodeEncodeError):
        return None
    if with_time:
        fields.append(("time_extracted", str | None, None))
    kept = msgspec.defstruct("Record", fields, tag_field="type", tag="RECORD", gc=False)
    no_row, no_message = (
        msgspec.defstruct(name, [], tag_field="type", tag=tag, namespace={"record": mark}, gc=False)
        for name, tag, mark in (("Activate", "ACTIVATE_VERSION", None), ("Schema", "SCHEMA", False))
    )
    return msgspec.json.Decoder(kept | no_row | no_message)


def value_decoder(column: Column) -> msgspec.json.Decoder[Any] | None:
    """A decoder of one column's values, each as it is in a record; None where msgspec cannot name a field."""
    try:
        return msgspec.json.Decoder(_python_type(column))
    except (ValueError, UnicodeEncodeError):
        return None


def is_raw(column: Column) -> bool:
    """Whether the decoder leaves a value as the JSON that it is."""
    return isinstance(column, JsonText | Variant) or (isinstance(column, Decimal) and column.number)


def holds_raw(column: Column) -> bool:
    """Whether the decoder leaves any of its values as JSON, and so does not look whether it is UTF-8."""
    if isinstance(column, Struct):
        return any(holds_raw(field.type) for field in column.fields)
    return holds_raw(column.element) if isinstance(column, Array) else is_raw(column)


def _struct_type(struct: Struct) -> Any:
    """A msgspec Struct for the fields, under ``slot`` names. Raises ``ValueError``, ``UnicodeEncodeError`` for names
    that msgspec cannot match: with a quote, a backslash, a control character or a lone surrogate."""
    fields = []
    for index, field in enumerate(struct.fields):
        default = msgspec.Raw() if is_raw(field.type) else None
        fields.append((slot(index), _python_type(field.type), default))
    names = {slot(index): field.name for index, field in enumerate(struct.fields)}
    return msgspec.defstruct("Properties", fields, rename=names, gc=False)


def _python_type(column: Column) -> Any:
    if is_raw(column):
        return msgspec.Raw
    if isinstance(column, Boolean):
        return bool | None
    if isinstance(column, Integer | Double):
        # Neither is turned into the other here, for Arrow to refuse what that would change.
        return int | float | None
    if isinstance(column, Text | Timestamp | Date | Decimal):
        return str | None
    if isinstance(column, Array):
        return list[_python_type(column.element)] | None  # type: ignore[misc]
    if isinstance(column, Struct):
        return _struct_type(column) | None
    raise TypeError(f"no value is of type {column!r}")
