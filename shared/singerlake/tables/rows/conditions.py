"""Conditions of checks and deletions over a column of rows."""

from __future__ import annotations

import datetime
import math
import re
import sys
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema import columns
from singerlake.arrow.schema.columns import Column
from singerlake.clock import parse_timestamp
from singerlake.conditions import Condition, Test, json_number, written
from singerlake.errors import SettingError
from singerlake.tables.state.types import type_name

if TYPE_CHECKING:
    import pyarrow as pa

_COMPARE = {"=": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_LEAST, _GREATEST = -(2**63), 2**63 - 1
_DATE, _ZONE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"), re.compile(r"(?:[Zz]|[+-][0-9:]+)\s*\Z")
_DIGITS = 100
"""More than a decimal of any column has."""


def check_literals(condition: Condition, column: Column) -> None:
    """Raise ``SettingError`` where a literal cannot be compared with values of ``column``."""
    for test in condition.tests:
        _among(test, column)


def values_named(condition: Condition, column: Column) -> list[Any]:
    """The values of type ``column`` that tests for equal ones name. Raises ``SettingError`` as ``check_literals``."""
    return [held for test in condition.tests for held, is_exact in _among(test, column) if is_exact]


def holds(condition: Condition, values: pa.ChunkedArray, column: Column, *, unknown: bool) -> pa.ChunkedArray:
    """Of each of the ``values``, which are of the type ``column``, whether all tests hold; ``unknown`` where that is
    neither true nor false. Raises ``SettingError`` as ``check_literals``."""
    import pyarrow.compute as pc

    answer = None
    for test in condition.tests:
        one = pc.fill_null(_test(test, values, column), unknown)
        answer = one if answer is None else pc.and_(answer, one)
    return answer


def _test(test: Test, values: pa.ChunkedArray, column: Column) -> Any:
    import pyarrow.compute as pc

    if test.operator == "null":
        return pc.is_valid(values) if test.negated else pc.is_null(values)
    if test.operator == "in":
        found = _is_in(test, values, column)
        return pc.invert(found) if test.negated else found
    held, is_exact = _held(test.values[0][0], column)
    if is_exact:
        return getattr(pc, _COMPARE[test.operator])(values, _scalar(held, values))
    if held is None or test.operator in ("=", "!="):
        return pc.if_else(pc.is_valid(values), test.operator in ("!=", ">", ">="), None)
    # No value lies between the one held and the literal.
    return (pc.less_equal if test.operator in ("<", "<=") else pc.greater)(values, _scalar(held, values))


def _is_in(test: Test, values: pa.ChunkedArray, column: Column) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, columns.Double):
        # -0.0 is in (0): Arrow's sets tell zeros apart by their sign.
        values = pc.add(values, 0.0)
    among = pa.array([held for held, is_exact in _among(test, column) if is_exact], values.type)
    return pc.if_else(pc.is_valid(values), pc.is_in(values, value_set=among), None)


def _among(test: Test, column: Column) -> list[tuple[Any, bool]]:
    """What the column's type holds of the values that a test names. Each value that is written down has to be
    comparable with it. One that may be meant as text or as a number is there as both, in a state one behind the
    other."""
    found, wrong, numbers = [], [], set[Decimal | None]()
    for value in (value for alternatives in test.values for value in alternatives):
        number = value if isinstance(value, Decimal) else json_number(str(value))
        try:
            found.append(_held(value, column))
            numbers.add(number)
        except SettingError as error:
            wrong.append((number, error))
    for number, refusal in wrong:
        if number is None or number not in numbers:
            raise refusal
    return found


def _scalar(value: Any, values: pa.ChunkedArray) -> Any:
    import pyarrow as pa

    return pa.scalar(value, values.type)


def _held(value: Any, column: Column) -> tuple[Any, bool]:
    """The greatest value of the column's type that is not greater than a literal, and whether it is the literal; None
    where all are greater."""
    try:
        if isinstance(value, bool):
            if isinstance(column, columns.Boolean):
                return value, True
        elif isinstance(value, Decimal):
            if isinstance(column, columns.Integer):
                held, is_exact = _floor(value, 0, Decimal(_LEAST), Decimal(_GREATEST))
                return None if held is None else int(held), is_exact
            if isinstance(column, columns.Decimal):
                greatest = Decimal((0, (9,) * column.precision, -column.scale))
                return _floor(value, column.scale, greatest.copy_negate(), greatest)
            if isinstance(column, columns.Double):
                return _double(value)
        elif isinstance(column, columns.Text):
            return value, True
        elif isinstance(column, columns.Date):
            if _DATE.fullmatch(value):
                return datetime.date.fromisoformat(value), True
        elif isinstance(column, columns.Timestamp) and (moment := parse_timestamp(value)) is not None:
            if column.zoned:
                return moment, True
            if not _ZONE.search(value):
                return moment.replace(tzinfo=None), True
    except ValueError:
        pass
    hint = "write a value of the column's type; text and times stand in single quotes"
    if isinstance(column, columns.JsonText):
        # Its text is as the tap wrote it: a text within quotes, 1.0 or 1.
        hint = "cast the property under 'columns' to the type that it is compared as, as to text"
    raise SettingError(f"a column of type {type_name(column)} is compared with {written(value)}", hint=hint)


def _floor(value: Decimal, scale: int, least: Decimal, greatest: Decimal) -> tuple[Decimal | None, bool]:
    # Before any digit is made of an exponent, which may be of nine digits.
    if value > greatest:
        return greatest, False
    if value < least:
        return None, False
    with localcontext(prec=_DIGITS):
        held = value.quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR)
    return held, held == value


def _double(value: Decimal) -> tuple[float, bool]:
    """The nearest one, as for a value; a literal that is greater than all finite ones is less than infinity."""
    near = float(value)
    if math.isinf(near):
        return (sys.float_info.max if near > 0 else -math.inf), False
    return near, True
