"""Of rows that Spark made, as many rows are found as Spark counted."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.lake import Lake
from singerlake.spark import spark_engine
from tests.lakes import build_stream

pytestmark = pytest.mark.thorough
SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "k": {"type": ["string", "null"]},
        "x": {"type": ["number", "null"]},
        "day": {"type": ["string", "null"], "format": "date"},
        "ok": {"type": ["boolean", "null"]},
        "at": {"type": ["string", "null"], "format": "date-time"},
    }
}
TEXTS = ["a", "A", "", "ü", " a", "a ", None, "Z"]
NUMBERS = [0.0, -0.0, 1.5, 1e300, None, 2, -7.25]
WHERE = [
    "k > 'Z'",
    "NOT k IN ('a', 'ü') OR x = 0",
    "x >= 1.5 AND ok",
    "day BETWEEN '2026-01-02' AND DATE '2026-01-04'",
    "day <> '2026-01-03' OR ok IS NULL",
    "id <> 3 AND NOT ok",
    "x IS NOT NULL AND -7.25 < x",
    "k <=> 'a ' OR k < 'a'",
]
KEYS = [("k",), ("x",), ("day", "ok"), ("at",)]


def record(n: int) -> dict[str, Any]:
    return {
        "id": n % 11,
        "k": TEXTS[n % 8],
        "x": NUMBERS[n % 7],
        "day": f"2026-01-0{1 + n % 6}" if n % 5 else None,
        "ok": [True, False, None][n % 3],
        "at": f"2026-01-01T0{n % 4}:00:00.000001Z",
    }


def test_groups_of_spark_are_those_that_are_found(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    build_stream(lake, "t", "s", SCHEMA, [record(n) for n in range(90)], file_size=40)
    groups = [(", ".join(KEYS[place % 4]), where) for place, where in enumerate(WHERE)]
    tables = [
        f'  g{place}: {{sql: "SELECT {keys}, count(*) AS n, min(_singerlake_offset) AS first FROM s WHERE {where} '
        f'GROUP BY {keys}"}}'
        for place, (keys, where) in enumerate(groups)
    ]
    pairs = "SELECT one.id, two.k, count(DISTINCT one._singerlake_offset) AS n FROM s one LEFT JOIN s two"
    tables.append(f'  pairs: {{sql: "{pairs} ON one.id = two.id AND two.ok GROUP BY 1, 2"}}')
    file = tmp_path / "projections.yml"
    file.write_text("tables:\n  s: {from: t.s, keep: append}\n" + "\n".join(tables))
    lake.project(file, engine=spark_engine(spark, lake))
    asked = 0
    for name in [f"g{place}" for place in range(len(groups))] + ["pairs"]:
        for row in lake.table(name).to_arrow().read_all().to_pylist():
            found = lake.table(name).why(row, sample=100)
            assert (found.trouble, found.made_of[0].count) == (None, row["n"]), (name, row)
            if "first" in row:
                assert min(each["_singerlake_offset"] for each in found.made_of[0].rows) == row["first"]
            asked += 1
    assert asked > 60


def test_values_of_every_type_are_known_again(spark: SparkSession, tmp_path: Path) -> None:
    place = {"type": "object", "properties": {"x": {"type": "number"}, "tags": {"type": "array", "items": {}}}}
    price = {"type": "string", "format": "singer.decimal", "precision": 10, "scale": 2}
    properties = {**SCHEMA["properties"], "place": place, "price": price, "any": {}}
    records = [
        {**record(n), "id": n, "place": {"x": n / 4, "tags": ["a", {"b": n}]}, "price": f"{n}.50", "any": [n]}
        for n in range(5)
    ]
    lake = Lake.open(str(tmp_path / "lake"))
    build_stream(lake, "t", "s", {"properties": properties}, [*records, {"id": 9}])
    file = tmp_path / "projections.yml"
    file.write_text(
        "tables:\n  s: {from: t.s, keep: append}\n"
        "  all: {sql: SELECT * FROM s}\n  some: {sql: 'SELECT `any`, place, price, at, day FROM s'}\n"
        "  again: {sql: SELECT DISTINCT * FROM some}\n"
    )
    lake.project(file, engine=spark_engine(spark, lake))
    for name in ("all", "some", "again"):
        for n in range(6):
            key = {"all": {"id": n if n < 5 else 9}}.get(name, {"price": Decimal(f"{n}.50") if n < 5 else None})
            found = lake.table(name).why(key)
            assert (found.trouble, [each.count for each in found.made_of]) == (None, [1] * (1 + (name == "again")))
            assert found.made_of[-1].rows[0]["_singerlake_offset"] == n
