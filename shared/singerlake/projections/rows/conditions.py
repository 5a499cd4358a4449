"""Conditions of checks and deletions over a column of rows."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any

from singerlake.clock import parse_timestamp
from singerlake.errors import SettingError
from singerlake.projections.declaration.conditions import Condition, Test

if TYPE_CHECKING:
    import pyarrow as pa

_COMPARE = {"=": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


def holds(condition: Condition, column: pa.ChunkedArray, *, unknown: bool) -> pa.ChunkedArray:
    """Of each row whether all tests hold; ``unknown`` where that is neither true nor false. Raises ``SettingError``
    where a value cannot be compared with the column's."""
    import pyarrow.compute as pc

    answer = None
    for test in condition.tests:
        one = pc.fill_null(_test(test, column), unknown)
        answer = one if answer is None else pc.and_(answer, one)
    return answer


def _test(test: Test, column: pa.ChunkedArray) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if test.operator == "null":
        return pc.is_valid(column) if test.negated else pc.is_null(column)
    values = [_value(value, column.type) for value in test.values]
    if test.operator == "in":
        if pa.types.is_floating(column.type):
            # -0.0 is in (0): Arrow's sets tell zeros apart by their sign.
            column = pc.add(column, 0.0)
        found = pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=pa.array(values, column.type)), None)
        return pc.invert(found) if test.negated else found
    return getattr(pc, _COMPARE[test.operator])(column, pa.scalar(values[0]))


def _value(value: Any, arrow: pa.DataType) -> Any:
    """A literal as the column's type has it."""
    import pyarrow as pa

    types = pa.types
    try:
        if types.is_boolean(arrow) and isinstance(value, bool):
            return value
        if isinstance(value, decimal.Decimal):
            if types.is_floating(arrow):
                return float(value)
            if types.is_integer(arrow):
                return int(value) if value == value.to_integral_value() else float(value)
            if types.is_decimal(arrow):
                return value
        if isinstance(value, str):
            if types.is_string(arrow):
                return value
            if types.is_date(arrow):
                return datetime.date.fromisoformat(value)
            if types.is_timestamp(arrow) and (moment := parse_timestamp(value)) is not None:
                return moment if arrow.tz else moment.replace(tzinfo=None)
    except (ValueError, OverflowError):
        pass
    raise SettingError(
        f"a condition compares a column of type {arrow} with {value!r}",
        hint="write a value of the column's type; text and times stand in single quotes",
    )
