"""The order of rows: single values are compared on the driver as whole columns are in tasks."""

from __future__ import annotations

import math
import random
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from singerlake.tables.rows.order import between, rows_up_to, sorted_rows, values_at
from singerlake.tables.state.types import sort_key
from singerlake.tables.tasks.extract import touched_ranges

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "double": (pa.float64(), [-math.inf, -1.5, 0.0, 1.5, math.inf, math.nan, None]),
    "text": (pa.string(), ["", "B", "a", "z", "\xe9", "\uffff", "\U0001d4b3", None]),
    "integer": (pa.int64(), [-(2**63), -1, 0, 2**63 - 1, None]),
    "decimal": (pa.decimal128(38, 2), [Decimal("-1.25"), Decimal(0), Decimal("9" * 36), None]),
    "boolean": (pa.bool_(), [False, True, None]),
    "date": (pa.date32(), [date.min, date(1969, 12, 31), date.max, None]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_driver_and_tasks_have_one_order(kind: str) -> None:
    own, values = VALUES[kind]
    shuffled = random.Random(kind).sample(values * 2, 2 * len(values))
    rows = sorted_rows(pa.table({"x": pa.array(shuffled, own), "n": range(len(shuffled))}), ["x", "n"])
    told = [values_at(rows, ["x"], row) for row in range(rows.num_rows)]
    # The list is in order: null last, and NaN before it.
    assert [sort_key(each) for each in told] == [sort_key((value,)) for value in values for _ in range(2)]
    assert sorted(told, key=sort_key) == told
    for number, value in enumerate(values):
        assert rows_up_to(rows, ["x"], (value,)) == 2 * number + 2
        before = None if number == 0 else (values[number - 1],)
        assert between(rows, ["x"], before, (value,)).num_rows == 2


@pytest.mark.parametrize(
    ("values", "touched"),
    [([1], {1}), ([0, 0, 0, 0], {0}), ([0, 2, 2, 2], {0, 2}), ([3, 3, 3, 4], {3}), ([9], {3}), ([1, 9], {1, 3})],
)
def test_ranges_without_a_new_row_are_not_touched(values: list[int], touched: set[int]) -> None:
    """With fewer rows than ranges, and with more."""
    rows = pa.table({"x": values})
    assert touched_ranges(rows, ["x"], [(0,), (1,), (2,)]) == touched
