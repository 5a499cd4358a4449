"""Casts: from a value as it was captured, its JSON text, to a column's type; exactly, or to null. What the schema
declares of the property plays no part. Section 14.2 of the format has the rules.

Values that are written the common way are made all at once, others one by one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from singerlake.arrow.schema.columns import Boolean, Column, Date, Double, Integer, JsonText, Text, Timestamp
from singerlake.arrow.values.arrays import from_texts
from singerlake.arrow.values.values import EXACT, MisfitError, Number, fit

if TYPE_CHECKING:
    import pyarrow as pa

_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_SPACE = " \t\n\r\v\f"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|(inf|infinity))", re.ASCII | re.IGNORECASE
)
_DATE_LENGTH = len("2026-01-01")
_BEGINS_AS_TIME = "^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_COMMON_INTEGER = "^-?[0-9]{1,18}$"
_COMMON_DOUBLE = r"^(0|-?[1-9][0-9]{0,14}|-?[0-9]{1,15}\.[0-9]{1,15})$"
"""Of at most 30 digits, and no -0, which is 0.0 as a number and -0.0 as a text."""


def cast(captured: pa.Array, column: Column, target: pa.DataType) -> pa.Array:
    """The values whose JSON texts are ``captured`` as ``column``, whose Arrow type is ``target``: text, JSON text or a
    simple type that is not a decimal. Null where the type cannot hold one."""
    import pyarrow.compute as pc

    if isinstance(column, JsonText):
        return captured
    is_string = pc.starts_with(captured, '"')
    said = _said(pc.if_else(is_string, captured, None))
    if isinstance(column, Timestamp | Date):
        return _times(said, column, target)
    plain = pc.if_else(is_string, said, captured)
    if isinstance(column, Text):
        return plain
    if isinstance(column, Boolean):
        word = pc.ascii_lower(plain)
        is_true = pc.is_in(word, value_set=_array(_TRUE))
        made = pc.if_else(pc.or_(is_true, pc.is_in(word, value_set=_array(_FALSE))), is_true, None)
    else:
        common = _COMMON_INTEGER if isinstance(column, Integer) else _COMMON_DOUBLE
        made = pc.if_else(pc.match_substring_regex(plain, common), plain, None).cast(target)
    return _with_others(made, captured, _ONE_BY_ONE[type(column)])


def _array(words: tuple[str, ...]) -> pa.Array:
    import pyarrow as pa

    return pa.array(words, pa.string())


def _said(strings: pa.Array) -> pa.Array:
    """What JSON strings say; null where that has no UTF-8."""
    import pyarrow.compute as pc

    escaped = pc.match_substring(strings, "\\")
    said = pc.utf8_slice_codeunits(strings, 1, -1)
    return _with_others(pc.if_else(escaped, None, said), strings, _read_string)


def _read_string(text: str) -> str:
    said: str = json.loads(text)
    # Raises UnicodeEncodeError, a ValueError, for half of a surrogate pair.
    said.encode()
    return said


def _with_others(made: pa.Array, given: pa.Array, read: Callable[[str], Any]) -> pa.Array:
    """``made``, and in the place of its nulls what ``read`` makes of those that were ``given``, if it does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    others = pc.and_(pc.is_null(made), pc.is_valid(given))
    if not pc.any(others).as_py():
        return made
    values = []
    for text in given.filter(others).to_pylist():
        try:
            values.append(read(text))
        except (ValueError, MisfitError, pa.ArrowInvalid):
            values.append(None)
    return pc.replace_with_mask(made, others, pa.array(values, made.type))


def _times(said: pa.Array, column: Timestamp | Date, target: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    said = pc.if_else(pc.match_substring_regex(said, _BEGINS_AS_TIME), said, None)
    try:
        return _moments(said, column, target)
    except pa.ArrowInvalid:
        nothing = pa.nulls(len(said), target)
        return _with_others(nothing, said, lambda text: _moments(_array((text,)), column, target)[0].as_py())


def _moments(said: pa.Array, column: Timestamp | Date, target: pa.DataType) -> pa.Array:
    """Days and times of day, all of them. Raises ``pyarrow.ArrowInvalid``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_day = pc.less_equal(pc.utf8_length(said), _DATE_LENGTH)
    days = from_texts(pc.if_else(is_day, said, None), Date(), pa.date32())
    moments = from_texts(pc.if_else(is_day, None, said), Timestamp(), pa.timestamp("us", tz="UTC"))
    if isinstance(column, Date):
        return pc.coalesce(days, moments.cast(target))
    return pc.coalesce(days.cast(moments.type), moments).cast(target)


def _read_integer(text: str) -> int:
    if text in ("true", "false"):
        return int(text == "true")
    number = _integer(_read_string(text)) if text.startswith('"') else fit(Number(text), Integer(), "")
    if not -(2**63) <= number < 2**63:
        raise ValueError("no integer of 64 bits")
    return int(number)


def _integer(text: str) -> int:
    digits = text.strip(_SPACE)
    if not _INTEGER.fullmatch(digits):
        raise ValueError("no integer")
    return int(digits)


def _read_double(text: str) -> float:
    if text.startswith('"'):
        return _double(_read_string(text))
    number = fit(Number(text), Double(), "")
    if isinstance(number, int) and abs(number) > EXACT:
        raise ValueError("no double")
    return float(number)


def _double(text: str) -> float:
    # Python alone takes digits of every script, and any white space of Unicode.
    found = _DOUBLE.fullmatch(text.strip(_SPACE))
    if found is None:
        raise ValueError("no number")
    number = float(found[0])
    if math.isinf(number) and not found[1]:
        raise ValueError("too large")
    return number


def _read_boolean(text: str) -> bool:
    word = _read_string(text).strip(_SPACE).lower() if text.startswith('"') else ""
    if word not in _TRUE + _FALSE:
        raise ValueError("no boolean")
    return word in _TRUE


_ONE_BY_ONE: dict[type[Column], Callable[[str], Any]] = {
    Boolean: _read_boolean,
    Integer: _read_integer,
    Double: _read_double,
}


def with_rescued(rescued: pa.Array, row_values: dict[int, dict[str, Any]]) -> pa.Array:
    """``_rescued_data`` with these values, by row and property, beside what it holds."""
    import pyarrow as pa

    if not row_values:
        return rescued
    texts = rescued.to_pylist()
    for row, values in row_values.items():
        added = msgspec.json.encode(values).decode()
        # What is there may hold what is not strict JSON; and it never holds these properties, which fitted so far.
        texts[row] = f"{texts[row][:-1]},{added[1:]}" if texts[row] else added
    return pa.array(texts, rescued.type)
