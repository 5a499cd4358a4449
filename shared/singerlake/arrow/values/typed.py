"""The fast way's decoder: a msgspec one that reads just the columns asked for, strictly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from singerlake.arrow.schema import columns as types
from singerlake.arrow.schema.own import TABLE_VERSION, TIME
from singerlake.arrow.values.known import Known, KnownArray, KnownObject
from singerlake.arrow.values.values import slot

_ENVELOPE: dict[str, tuple[str, Any, None]] = {
    TIME: ("time_extracted", str | None, None),
    TABLE_VERSION: ("version", int | float | None, None),
}


def typed_decoder(
    record: types.Struct, envelope: Iterable[str] = (), known: KnownObject | None = None
) -> msgspec.json.Decoder[Any] | None:
    """A decoder of messages, which have the columns of ``envelope`` under the names that they have there. Of a RECORD,
    ``record`` has just the fields asked for, named by ``slot``, and behind them what the caller is not to look at; of
    the others it is None for an ACTIVATE_VERSION and False for a SCHEMA. With ``known`` it refuses what no schema
    declares. None where msgspec cannot name a field."""
    try:
        fields: list[Any] = [("record", _struct_type(record, known))]
    except (ValueError, UnicodeEncodeError):
        return None
    beside: list[Any] = [_ENVELOPE[name] for name in envelope]
    kept, no_row, no_message = (
        msgspec.defstruct(name, parts, tag_field="type", tag=tag, namespace=marks, gc=False)
        for name, tag, parts, marks in (
            ("Record", "RECORD", fields + beside, {}),
            ("Activate", "ACTIVATE_VERSION", beside, {"record": None}),
            ("Schema", "SCHEMA", [], {"record": False}),
        )
    )
    return msgspec.json.Decoder(kept | no_row | no_message)


def value_decoder(column: types.Column) -> msgspec.json.Decoder[Any] | None:
    """A decoder of one column's values, each as it is in a record; None where msgspec cannot name a field."""
    try:
        return msgspec.json.Decoder(_python_type(column))
    except (ValueError, UnicodeEncodeError):
        return None


_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')
"""In a name: what JSON writes as an escape."""


def is_plain_name(name: str) -> bool:
    """Whether JSON may write a name without escapes."""
    return not _ESCAPED.search(name)


def is_raw(column: types.Column) -> bool:
    """Whether the decoder leaves a value as the JSON that it is."""
    return isinstance(column, types.JsonText | types.Variant) or (isinstance(column, types.Decimal) and column.number)


def holds_raw(column: types.Column) -> bool:
    """Whether the decoder leaves any of its values as JSON, and so does not look whether it is UTF-8."""
    if isinstance(column, types.Struct):
        return any(holds_raw(field.type) for field in column.fields)
    return holds_raw(column.element) if isinstance(column, types.Array) else is_raw(column)


def _struct_type(struct: types.Struct, known: Known = None) -> Any:
    """A msgspec Struct for the fields, under ``slot`` names. Raises ``ValueError``, ``UnicodeEncodeError`` for names
    that msgspec cannot match: with a quote, a backslash, a control character or a lone surrogate."""
    inside = known.names if isinstance(known, KnownObject) else {}
    fields: list[Any] = []
    for index, field in enumerate(struct.fields):
        default = msgspec.Raw() if is_raw(field.type) else None
        fields.append((slot(index), _python_type(field.type, inside.get(field.name)), default))
    names = {slot(index): field.name for index, field in enumerate(struct.fields)}
    closed = isinstance(known, KnownObject) and known.closed
    if closed:
        read = set(names.values())
        for name in [name for name in inside if name not in read and is_plain_name(name)]:
            names[slot(len(fields))] = name
            fields.append((slot(len(fields)), msgspec.Raw, msgspec.Raw()))
    return msgspec.defstruct("Properties", fields, rename=names, gc=False, forbid_unknown_fields=closed)


def _python_type(column: types.Column, known: Known = None) -> Any:
    if is_raw(column):
        return msgspec.Raw
    if isinstance(column, types.Boolean):
        return bool | None
    if isinstance(column, types.Integer | types.Double):
        # Neither is turned into the other here, for Arrow to refuse what that would change.
        return int | float | None
    if isinstance(column, types.Text | types.Timestamp | types.Date | types.Decimal):
        return str | None
    if isinstance(column, types.Array):
        element = known.element if isinstance(known, KnownArray) else None
        return list[_python_type(column.element, element)] | None  # type: ignore[misc]
    if isinstance(column, types.Struct):
        return _struct_type(column, known) | None
    raise TypeError(f"no value is of type {column!r}")
