"""The two tables of types on the page on Spark, row by row: the type of the column, and the values that come back."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from singerlake.arrow.schema.json_schema import columns_of
from singerlake.lake import Lake
from singerlake.spark.spark_types import to_spark
from tests.lakes import build_stream

PAGE = (Path(__file__).parents[2] / "docs/how-to/spark.md").read_text()
MONEY = {"type": "string", "format": "singer.decimal", "precision": 10, "scale": 2}
CENTS = {"type": "number", "multipleOf": 0.01}
UNSIGNED = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
MOMENT = {"type": "string", "format": "date-time"}
DAY = {"type": "string", "format": "date"}
BOOLEAN, INTEGER, NUMBER, STRING = ({"type": name} for name in ("boolean", "integer", "number", "string"))


def person(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def table(first_heading: str) -> list[list[str]]:
    """The cells of each row of the table whose first heading that is."""
    (rows,) = re.findall(rf"^\| {re.escape(first_heading)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in rows.splitlines()]


DECLARED: dict[str, list[tuple[Any, str, list[Any], list[Any]]]] = {
    "`boolean`": [(BOOLEAN, "boolean", [True, None], [True, None])],
    "`integer`": [(INTEGER, "bigint", [2**63 - 1, 5.0], [2**63 - 1, 5])],
    "`integer`, with a bound beyond ±2⁶³": [
        (UNSIGNED, "decimal(20,0)", [2**64 - 1, 5.0], [Decimal(2**64 - 1), Decimal(5)]),
        ({"type": "integer", "minimum": -(10**25)}, "decimal(26,0)", [-(10**25)], [Decimal(-(10**25))]),
    ],
    "`number`": [(NUMBER, "double", [1.5, 2**53], [1.5, 2.0**53])],
    "`number`, `multipleOf` with up to 18 decimals": [
        (CENTS, "decimal(38,2)", [12.34], [Decimal("12.34")]),
        ({"type": "number", "multipleOf": 1e-19}, "string", [1.5], ["1.5"]),
    ],
    "`string`": [(STRING, "string", ["é\n"], ["é\n"])],
    "`string`, `format: date-time`": [
        (
            MOMENT,
            "timestamp",
            ["2026-01-01T01:00:00.000001+01:00", "2026-01-01 00:00:00"],
            [
                datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
                datetime(2026, 1, 1, tzinfo=UTC),
            ],
        )
    ],
    "`string`, `format: date`": [(DAY, "date", ["2026-02-28"], [date(2026, 2, 28)])],
    "`string`, `format: singer.decimal`, with `precision` and `scale`": [
        (MONEY, "decimal(10,2)", ["-1.50"], [Decimal("-1.50")]),
        ({"type": "string", "format": "singer.decimal"}, "string", ["1.50"], ["1.50"]),
    ],
    "`object` with `properties`": [
        (person(name=STRING), "struct<name:string>", [{"name": "a"}, {}], [{"name": "a"}, {"name": None}])
    ],
    "`object` without `properties`, or with a schema for additional ones": [
        ({"type": "object"}, "string", [{"a": [1]}], ['{"a": [1]}']),
        ({**person(a=INTEGER), "additionalProperties": STRING}, "string", [{"b": "c"}], ['{"b": "c"}']),
    ],
    "`array`": [
        ({"type": "array", "items": INTEGER}, "array<bigint>", [[1, None]], [[1, None]]),
        ({"type": "array", "items": [INTEGER, STRING]}, "array<string>", [[1, "a"]], [["1", '"a"']]),
    ],
    "`anyOf`, `oneOf`, a list of types": [
        ({"anyOf": [MOMENT, {"type": "null"}]}, "timestamp", [None], [None]),
        ({"oneOf": [INTEGER, STRING]}, "string", [5, "a"], ["5", '"a"']),
        ({"type": ["null", "integer", "number"]}, "double", [5], [5.0]),
    ],
    "no type, `allOf`, `true`, anything else": [
        ({}, "string", [{"a": 1}], ['{"a": 1}']),
        ({"allOf": [INTEGER]}, "string", [1], ["1"]),
        (True, "string", ["a"], ['"a"']),
        ({"enum": [1, "a"]}, "string", [1], ["1"]),
    ],
}
MERGED: dict[tuple[str, str], list[tuple[Any, Any, str, Any, Any, list[Any]]]] = {
    ("`integer`", "`number`"): [
        (INTEGER, NUMBER, "double", 1, 1.5, [1.0, 1.5]),
        (UNSIGNED, NUMBER, "double", 1, 1.5, [1.0, 1.5]),
        (INTEGER, UNSIGNED, "decimal(20,0)", -1, 2**64 - 1, [Decimal(-1), Decimal(2**64 - 1)]),
    ],
    ("`integer`", "decimal, of either kind"): [
        (INTEGER, CENTS, "decimal(38,2)", 1, 1.25, [Decimal("1.00"), Decimal("1.25")]),
        (INTEGER, MONEY, "decimal(38,2)", 1, "1.25", [Decimal("1.00"), Decimal("1.25")]),
    ],
    ("decimal", "decimal, of either kind"): [
        (CENTS, MONEY, "decimal(38,2)", 1.5, "1.25", [Decimal("1.50"), Decimal("1.25")]),
        (
            MONEY,
            {**MONEY, "precision": 9, "scale": 4},
            "decimal(12,4)",
            "1.50",
            "0.0001",
            [Decimal("1.5000"), Decimal("0.0001")],
        ),
    ],
    ("`number`", "decimal, of either kind"): [
        (NUMBER, CENTS, "string", 0.1, 0.25, ["0.1", "0.25"]),
        (NUMBER, MONEY, "string", 0.1, "0.25", ["0.1", '"0.25"']),
    ],
    ("`string`, `date`, `timestamp`, decimal in a string", "another of these"): [
        (STRING, DAY, "string", "a", "2026-01-01", ["a", "2026-01-01"]),
        (DAY, MOMENT, "string", "2026-01-01", "2026-01-01T00:00:00Z", ["2026-01-01", "2026-01-01T00:00:00Z"]),
        (MONEY, STRING, "string", "1.50", "a", ["1.50", "a"]),
    ],
    ("`struct`, `array`", "the same kind"): [
        (
            person(a=INTEGER),
            person(a=NUMBER, b=STRING),
            "struct<a:double,b:string>",
            {"a": 1},
            {"a": 1.5, "b": "c"},
            [{"a": 1.0, "b": None}, {"a": 1.5, "b": "c"}],
        ),
        (
            {"type": "array", "items": INTEGER},
            {"type": "array", "items": NUMBER},
            "array<double>",
            [1],
            [1.5],
            [[1.0], [1.5]],
        ),
    ],
    ("only `null`", "anything"): [({"type": "null"}, DAY, "date", None, "2026-01-01", [None, date(2026, 1, 1)])],
    ("anything", "anything else"): [
        (INTEGER, STRING, "string", 1, "a", ["1", '"a"']),
        (BOOLEAN, INTEGER, "string", True, 1, ["true", "1"]),
        ({"type": "array", "items": INTEGER}, INTEGER, "string", [1], 1, ["[1]", "1"]),
    ],
}


def test_every_row_of_both_tables_has_its_cases() -> None:
    assert [row[0] for row in table("JSON Schema")] == list(DECLARED)
    assert [(row[0], row[1]) for row in table("one version")] == list(MERGED)


@pytest.mark.parametrize(
    ("row", "schema", "type", "values", "expected"),
    [(row, *case) for row, cases in DECLARED.items() for case in cases],
)
def test_a_declared_type_is_the_column_s(
    row: str, schema: Any, type: str, values: list[Any], expected: list[Any], tmp_path: Path
) -> None:
    stream = {"properties": {"x": schema}}
    assert to_spark(columns_of([stream])).simpleString() == f"struct<x:{type}>"
    lake = Lake.open(str(tmp_path))
    build_stream(lake, "tap", "things", stream, [{"x": value} for value in values])
    assert read(lake) == expected


@pytest.mark.parametrize(
    ("row", "one", "another", "merged", "first", "second", "expected"),
    [(row, *case) for row, cases in MERGED.items() for case in cases],
)
def test_two_versions_give_one_column(
    row: tuple[str, str],
    one: Any,
    another: Any,
    merged: str,
    first: Any,
    second: Any,
    expected: list[Any],
    tmp_path: Path,
) -> None:
    schemas = [{"properties": {"x": one}}, {"properties": {"x": another}}]
    for order in (schemas, schemas[::-1]):
        assert to_spark(columns_of(order)).simpleString() == f"struct<x:{merged}>"
    lake = Lake.open(str(tmp_path))
    for schema, value in zip(schemas, (first, second), strict=True):
        build_stream(lake, "tap", "things", schema, [{"x": value}])
    assert read(lake) == expected


def read(lake: Lake) -> list[Any]:
    """The column, every value of which fits: none is beside its row."""
    found = lake.existing_stream("tap", "things").to_arrow(mode="FAILFAST").read_all()
    return found.column("x").to_pylist()
