"""From a parsed JSON value to what a column takes, one value at a time and with nothing coerced.

This is the slow way that ``decode`` falls back to for the lines its typed decoder refuses: it copes with what
``json.loads`` accepts beyond JSON (NaN, lone surrogates) and says which value does not fit, and why.
"""

from __future__ import annotations

import decimal
import json
from dataclasses import dataclass
from types import SimpleNamespace
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
    Variant,
)

_MAX_DIGITS = 400
"""Digits of a number beyond which it fits no column: a double ends at 309."""

EXACT = 2**53
"""Below this a float holds every integer, and no other one rounds to it."""


@dataclass
class MisfitError(Exception):
    """A value does not fit its column: ``path`` leads to it (``address.zip``), ``expected`` and ``found`` say what
    was declared and what is there in kind."""

    path: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Lost:
    """What one record could not give to its columns: the ``text`` of the JSON value below ``keys``, which are the names
    of properties, and places in arrays, from the record inwards, and why; None: no schema declares the property."""

    keys: tuple[str | int, ...]
    text: str
    misfit: MisfitError | None = None


class Number(str):
    """A JSON number as it was written, so that no digit of it is lost to a float."""

    __slots__ = ()


class _Mark(str):
    """JSON text between two values."""

    __slots__ = ()


def parse(line: bytes) -> Any:
    """A line as Python's own parser takes it, its numbers as ``Number``. Raises ``ValueError``, also for a byte order
    mark, which the parser takes in bytes alone, and ``RecursionError``."""
    text = line.decode("utf-8", "surrogatepass")
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number)


def text_of(value: Any) -> str:
    """The JSON text of what ``parse`` gave: numbers and constants as they were written, characters beyond ASCII
    escaped, so that a lone surrogate stays one. Without recursion, however deep a value is nested."""
    written: list[str] = []
    left: list[Any] = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            inner = [part for key, each in item.items() for part in (_Mark(","), _Mark(json.dumps(key) + ":"), each)]
            left += [_Mark("}"), *reversed(inner[1:]), _Mark("{")]
        elif isinstance(item, list):
            inner = [part for each in item for part in (_Mark(","), each)]
            left += [_Mark("]"), *reversed(inner[1:]), _Mark("[")]
        else:
            written.append(str(item) if isinstance(item, Number | _Mark) else json.dumps(item))
    return "".join(written)


def slot(index: int) -> str:
    """The attribute that holds the ``index``-th field of an object: property names need not be identifiers."""
    return f"f{index}"


def fit(value: Any, column: Column, path: str, lost: list[Lost] | None = None, keys: tuple[str, ...] = ()) -> Any:
    """``value`` as the builder of ``column``'s array takes it: bool, int, float, str, list, None, and for
    an object what has its fields as attributes, named by ``slot``.

    What only the array's own conversion can tell (a date's syntax, a decimal's digits, an integer's range) is left to
    it. With ``lost``, a field of an object that does not fit becomes None and is told there, below ``keys``; an array
    fits as a whole or not. Raises ``Misfit`` otherwise.
    """
    if value is None:
        return None
    if isinstance(column, JsonText | Variant):
        return text_of(value)
    if isinstance(value, Number):
        return _fit_number(value, column, path)
    if isinstance(value, str):
        if isinstance(column, Text | Timestamp | Date) or (isinstance(column, Decimal) and column.text):
            return value
    elif isinstance(value, bool):
        if isinstance(column, Boolean):
            return value
    elif isinstance(value, list):
        if isinstance(column, Array):
            return [fit(item, column.element, path + "[]") for item in value]
    elif isinstance(column, Struct):
        return _fit_fields(value, column, path + ".", lost, keys)
    raise MisfitError(path, describe(column), kind(value))


def fit_record(record: dict[str, Any], columns: Struct, lost: list[Lost]) -> SimpleNamespace:
    """A whole record, likewise; nothing is raised."""
    return _fit_fields(record, columns, "", lost, ())


def _fit_fields(
    value: dict[str, Any], columns: Struct, prefix: str, lost: list[Lost] | None, keys: tuple[str, ...]
) -> SimpleNamespace:
    fitted = SimpleNamespace()
    for index, field in enumerate(columns.fields):
        item = value.get(field.name)
        here = (*keys, field.name)
        try:
            fitting = fit(item, field.type, prefix + field.name, lost, here)
        except MisfitError as misfit:
            if lost is None:
                raise
            lost.append(Lost(here, text_of(item), misfit))
            fitting = None
        setattr(fitted, slot(index), fitting)
    return fitted


def _exact(number: Number) -> decimal.Decimal:
    """The very number that was written; NaN where its exponent has more digits than the decimal module takes."""
    try:
        return decimal.Decimal(number)
    except decimal.InvalidOperation:
        return decimal.Decimal("NaN")


def _fit_number(value: Number, column: Column, path: str) -> Any:
    if len(value) <= _MAX_DIGITS:
        if isinstance(column, Double):
            number = float(value)
            written_infinite = "Inf" in value
            if written_infinite or number not in (float("inf"), float("-inf")):
                return int(value) if value.lstrip("-").isdigit() else number
        elif isinstance(column, Integer):
            exact = _exact(value)
            if exact.is_finite() and exact.adjusted() < _MAX_DIGITS and exact == exact.to_integral_value():
                return int(exact)
        elif isinstance(column, Decimal) and column.number:
            return str(value)
    raise MisfitError(path, describe(column), kind(value))


def kind(value: Any) -> str:
    """What a parsed value is, without saying it."""
    if isinstance(value, Number):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, list):
        return "an array"
    return "null" if value is None else "an object"


def describe(column: Column) -> str:
    """What a column takes, in words."""
    if isinstance(column, Decimal):
        return f"a decimal of {column.precision} digits, {column.scale} of them after the point"
    if isinstance(column, Integer):
        return f"an integer of {column.bits} bits"
    if isinstance(column, Timestamp):
        return "an ISO 8601 date and time of at most 6 decimals" + ("" if column.zoned else ", without offset")
    names: dict[type, str] = {
        Boolean: "a boolean",
        Double: "a number that a double can hold",
        Text: "a string of valid Unicode",
        Date: "a date YYYY-MM-DD",
        Array: "an array",
        Struct: "an object",
        JsonText: "JSON text",
        Variant: "a variant, whose numbers have at most 38 digits",
    }
    return names[type(column)]
