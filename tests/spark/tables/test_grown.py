"""Tables that Spark continues: their rows are those that it gives when it makes them anew."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from singerlake.lake import Lake
from singerlake.spark import spark_engine
from singerlake.tables.run.plan import is_continued
from tests.lakes import build_stream

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "carrier": {"type": ["string", "null"]},
        "delay": {"type": ["number", "null"]},
        "at": {"type": ["string", "null"], "format": "date-time"},
        "legs": {"type": "array", "items": {"type": "string"}},
    }
}
Record = dict[str, object]
TABLES = """tables:
  flights: {from: t.s, keep: append}
  sorted: {from: t.s, keep: append, sort_by: carrier, format: csv}
  all: {sql: SELECT * FROM flights}
  late:
    sql: >
      SELECT id, upper(carrier) AS carrier, round(delay * 60) AS seconds, transform(legs, leg -> leg || '!') AS legs
      FROM Flights WHERE delay > 1 AND at >= TIMESTAMP '2026-01-02' OR carrier IS NULL
    checks: {carrier: "!= 'X'"}
    format: delta
  of sorted: {sql: "SELECT carrier, date_trunc('day', at) AS day FROM `sorted`", format: jsonl}
  of all: {sql: "SELECT id, legs FROM `all` WHERE carrier = 'A'"}
  by carrier: {sql: "SELECT carrier, count(*) AS n FROM flights GROUP BY carrier"}
  changing: {sql: "SELECT id, current_date() > DATE '2000-01-01' AS later FROM flights"}
"""
SOURCES = ("flights", "sorted")
FEW = ("late", "of sorted")
CONTINUED = (*FEW, "all", "of all")
ANEW = ("by carrier", "changing")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"))


def _records(chance: random.Random, first: int, count: int) -> list[Record]:
    return [
        {
            "id": first + at,
            "carrier": chance.choice(("a", "b", "A", None)),
            "delay": chance.choice((None, 0.5, 2.25, 7.0)),
            "at": chance.choice((None, f"2026-01-0{1 + at % 9}T23:30:00Z")),
            "legs": [chance.choice("xy")] * chance.randrange(3),
        }
        for at in range(count)
    ]


def _rows(lake: Lake, table: str) -> list[str]:
    return sorted(map(repr, lake.table(table).to_arrow().read_all().to_pylist()))


@pytest.mark.thorough
def test_new_rows_come_behind_the_others_as_if_all_were_made_anew(spark: SparkSession, lake: Lake) -> None:
    _compare(spark, lake, 0, 1, FEW, ())


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_more_statements_and_batches(spark: SparkSession, lake: Lake, seed: int) -> None:
    _compare(spark, lake, seed, 3, CONTINUED, ANEW)


def _compare(
    spark: SparkSession, lake: Lake, seed: int, batches: int, continued: Sequence[str], anew: Sequence[str]
) -> None:
    chance = random.Random(seed)
    names = (*continued, *anew)
    _run(spark, lake, _records(chance, 0, 20), names)
    for batch in range(1, batches + 1):
        new = _records(chance, 100 * batch, chance.randrange(3, 9))
        # One that every condition holds for: each table has something new.
        new[0] |= {"carrier": "A", "delay": 7.0, "at": "2026-01-09T00:00:00Z"}
        _run(spark, lake, new, names)
        runs = {name: lake.table(name).state.runs[-1] for name in names}
        assert {name for name, run in runs.items() if is_continued(run)} == set(continued)
        assert runs["of sorted"].inserted == len(new)
    found = {name: _rows(lake, name) for name in names}
    _run(spark, lake, [], names, full_refresh=True)
    assert not any(is_continued(lake.table(name).state.runs[-1]) for name in names)
    assert {name: _rows(lake, name) for name in names} == found


def _run(
    spark: SparkSession, lake: Lake, records: list[Record], names: Sequence[str], *, full_refresh: bool = False
) -> None:
    file = Path(lake.storage.url).with_name("projections.yml")
    file.write_text(TABLES)
    if records:
        build_stream(lake, "t", "s", SCHEMA, records)
        lake.project(file, tables=SOURCES)
    lake.project(file, tables=names, engine=spark_engine(spark, lake), full_refresh=full_refresh)
