"""Conditions over columns: a literal that the column's type cannot hold is compared as the number that it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from singerlake.arrow.schema import columns
from singerlake.arrow.schema.columns import arrow_schema
from singerlake.conditions import condition_of
from singerlake.errors import SettingError
from singerlake.tables.rows.conditions import check_literals, holds

CENTS = columns.Decimal(38, 2, number=True, text=True)
COLUMNS: dict[str, tuple[columns.Column, Sequence[Any]]] = {
    "integer": (columns.Integer(), [-(2**63), -2, -1, 0, 1, 2, 2**53 + 1, 2**63 - 1]),
    "decimal": (
        CENTS,
        [*map(Decimal, ("-1.26", "-0.01", "0", "1.25", "1.26")), *(Decimal(f"{sign}{'9' * 36}.99") for sign in "+-")],
    ),
    "double": (columns.Double(), [-math.inf, -1e308, -1.5, -0.0, 0.0, 0.1, 1.5, 1e308, math.inf]),
}
LITERALS = [
    "0",
    "1.5",
    "-1.5",
    "1.255",
    "-1.255",
    "1.25",
    "9223372036854775807",
    "9223372036854775808",
    "1e30",
    "-1e30",
    "-9223372036854775808",
    "-" + "9" * 36 + ".99",
]
LITERALS += ["1e30", "-1e30", "9007199254740993", "1e-30", "-1e-30"]
LITERALS += ["1e400", "-1e400", "1e999999999", "-1e999999999", "1e-999999999"]
LITERALS += ["9" * 38, "9" * 36 + ".99", "-" + "9" * 36 + ".995", "1." + "0" * 5000 + "1"]
EXACT = {
    "=": lambda value, other: value == other,
    "!=": lambda value, other: value != other,
    "<": lambda value, other: value < other,
    "<=": lambda value, other: value <= other,
    ">": lambda value, other: value > other,
    ">=": lambda value, other: value >= other,
}


def held(text: str, kind: str, values: Sequence[Any]) -> list[Any]:
    column, _ = COLUMNS[kind]
    kept = arrow_schema(columns.Struct((columns.Field("x", column),))).field("x").type
    made = pa.chunked_array([pa.array(values, kept)])
    return list(holds(condition_of(text), made, column, unknown=False).to_pylist())


@pytest.mark.parametrize("literal", LITERALS, ids=lambda text: text[:12])
@pytest.mark.parametrize("kind", COLUMNS)
def test_a_number_is_compared_as_it_is(kind: str, literal: str) -> None:
    values = COLUMNS[kind][1]
    near = float(literal) if kind == "double" else math.inf
    other = Decimal(literal) if math.isinf(near) else near
    for operator, exact in EXACT.items():
        assert held(f"{operator} {literal}", kind, values) == [exact(value, other) for value in values], operator
    assert held(f"in ({literal}, 1)", kind, values) == [value in (other, 1) for value in values]
    assert held(f"not in ({literal})", kind, values) == [value != other for value in values]
    assert held(f"!= {literal}", kind, [None]) == [False]


@pytest.mark.parametrize("unknown", [False, True])
def test_of_a_null_nothing_is_known_but_that_it_is_one(unknown: bool) -> None:
    values = pa.chunked_array([pa.array([None], pa.int64())])

    def answer(text: str) -> Any:
        return holds(condition_of(text), values, columns.Integer(), unknown=unknown).to_pylist()

    tests = ("= 1", "!= 1.5", "> 1e30", "<= 1e30", "in (1, 2)", "not in (1, 2)", "in (1.5)")
    assert {text: answer(text) for text in tests} == {text: [unknown] for text in tests}
    assert (answer("null"), answer("not null")) == ([True], [False])


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (columns.Integer(), "= 'a'"),
        (columns.Text(), "in ('a', 1)"),
        (columns.JsonText(), "= 'D'"),
        (columns.JsonText(), "in (1)"),
        (columns.Date(), "< 'today'"),
        (columns.Date(), "< '2024-W01-1'"),
        (columns.Date(), "< '20240101'"),
        (columns.Timestamp(zoned=False), "< '2026-01-01T00:00:00Z'"),
        (columns.Timestamp(zoned=False), "< '2026-01-01T00:00:00+02:00'"),
        (columns.Timestamp(), "< '2026-13-01T00:00:00Z'"),
        (columns.Boolean(), "= 1"),
        (columns.Integer(), "= true"),
        (columns.Array(columns.Integer()), "= 1"),
    ],
)
def test_a_literal_of_another_kind_is_refused(column: columns.Column, text: str) -> None:
    with pytest.raises(SettingError, match=r"a column of type [a-z_]+ is compared with"):
        check_literals(condition_of(text), column)


@pytest.mark.parametrize("text", ["in @keys", "in ('7', 7, '12', 12)"])
@pytest.mark.parametrize(("column", "values"), [(columns.Text(), ["7", "12", "x"]), (columns.Integer(), [7, 12, 1])])
def test_a_line_of_a_file_is_a_text_or_a_number_as_the_column_asks(
    column: columns.Column, values: list[Any], text: str
) -> None:
    condition = condition_of(text, lambda _: "7\n12")
    kept = arrow_schema(columns.Struct((columns.Field("x", column),))).field("x").type
    made = pa.chunked_array([pa.array(values, kept)])
    assert holds(condition, made, column, unknown=False).to_pylist() == [True, True, False]
    other = condition_of(text.replace(")", ", true)"), lambda _: "7\ntrue")
    if isinstance(column, columns.Integer) or "@" not in text:
        with pytest.raises(SettingError, match="is compared with"):
            check_literals(other, column)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (columns.Date(), "< '2024-01-01'"),
        (columns.Timestamp(), "< '2026-01-01T00:00:00+02:00'"),
        (columns.Timestamp(), "< '2026-01-01 00:00:00'"),
        (columns.Timestamp(zoned=False), "< '2026-01-01T00:00:00.5'"),
    ],
)
def test_a_time_is_written_as_a_value_is(column: columns.Column, text: str) -> None:
    check_literals(condition_of(text), column)
