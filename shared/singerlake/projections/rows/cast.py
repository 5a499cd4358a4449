"""Casting a decoded column to the table's type: exactly, or null with the value kept in ``_rescued_data``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_SPACE = " \t\n\r\v\f"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|(inf|infinity))", re.ASCII | re.IGNORECASE
)


def to_type(column: pa.Array, target: pa.DataType) -> tuple[pa.Array, list[int]]:
    """``column`` as ``target``, and the rows whose value it cannot hold, which are null there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.type == target:
        return column, []
    if not (pa.types.is_string(column.type) and not pa.types.is_string(target)):
        try:
            return pc.cast(column, target), []
        except pa.ArrowInvalid:
            return _each(column, lambda value: _one(value, target), target)
    return _each(column, _parser(target), target)


def as_text(column: pa.Array) -> tuple[pa.Array, list[int]]:
    """JSON texts as text: a string as what it says, anything else as it is written; and the rows whose string has no
    UTF-8, which are null there."""
    import pyarrow.compute as pc

    if not pc.any(pc.starts_with(column, '"')).as_py():
        return column, []
    return _each(column, _said, column.type)


def _said(text: str) -> str:
    if not text.startswith('"'):
        return text
    said: str = json.loads(text)
    # Raises UnicodeEncodeError, a ValueError, for half of a surrogate pair.
    said.encode()
    return said


def _one(value: Any, target: pa.DataType) -> Any:
    import pyarrow as pa

    return pa.scalar(value).cast(target).as_py()


def _each(column: pa.Array, parse: Callable[[Any], Any], target: pa.DataType) -> tuple[pa.Array, list[int]]:
    import pyarrow as pa

    values: list[Any] = []
    lost = []
    for row, value in enumerate(column.to_pylist()):
        if value is None:
            values.append(None)
            continue
        try:
            values.append(parse(value))
        except (ValueError, OverflowError, pa.ArrowException):
            values.append(None)
            lost.append(row)
    return pa.array(values, target), lost


def _parser(target: pa.DataType) -> Callable[[str], Any]:
    import pyarrow as pa

    if pa.types.is_boolean(target):
        return _boolean
    return _integer if pa.types.is_integer(target) else _double


def _boolean(text: str) -> bool:
    word = text.strip(_SPACE).lower()
    if word not in _TRUE + _FALSE:
        raise ValueError("no boolean")
    return word in _TRUE


def _integer(text: str) -> int:
    digits = text.strip(_SPACE)
    number = int(digits) if _INTEGER.fullmatch(digits) else None
    if number is None or not -(2**63) <= number < 2**63:
        raise ValueError("no integer of 64 bits")
    return number


def _double(text: str) -> float:
    # Python alone takes digits of every script, and any white space of Unicode.
    found = _DOUBLE.fullmatch(text.strip(_SPACE))
    if found is None:
        raise ValueError("no number")
    number = float(found[0])
    if math.isinf(number) and not found[1]:
        raise ValueError("too large")
    return number


def with_rescued(rescued: pa.Array, row_values: dict[int, dict[str, Any]]) -> pa.Array:
    """``_rescued_data`` with these values, by row and property, beside what it holds."""
    import pyarrow as pa

    if not row_values:
        return rescued
    texts = rescued.to_pylist()
    for row, values in row_values.items():
        added = msgspec.json.encode(values).decode()
        # What is there may hold what is no strict JSON; and it never holds these properties, which fitted so far.
        texts[row] = f"{texts[row][:-1]},{added[1:]}" if texts[row] else added
    return pa.array(texts, rescued.type)
