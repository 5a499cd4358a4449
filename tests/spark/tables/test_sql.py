"""Tables of statements in SQL: what Spark understands of them, which tables they read, and the rows that they give."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from singerlake.errors import BrokenFileError, SettingError
from singerlake.lake import Lake
from singerlake.spark import spark_engine
from singerlake.tables.project import ProjectedTable
from singerlake.tables.state.keys import table_prefix
from tests.lakes import build_stream

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "carrier": {"type": ["string", "null"]},
        "delay": {"type": ["number", "null"]},
        "at": {"type": ["string", "null"], "format": "date-time"},
    }
}
Run = Callable[..., dict[str, ProjectedTable]]
HEAD = "tables:\n  flights: {from: t.s, keep: append}\n  as csv: {from: t.s, keep: append, format: csv}\n"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    records = [
        {"id": n, "carrier": "AB"[n % 2], "delay": n / 2, "at": f"2026-01-0{1 + n % 9}T23:30:00Z"} for n in range(20)
    ]
    build_stream(lake, "t", "s", SCHEMA, records)
    return lake


@pytest.fixture
def run(spark: SparkSession, lake: Lake, tmp_path: Path) -> Run:
    """Runs the tables of a file that also has those of ``HEAD``."""
    file = tmp_path / "projections.yml"

    def made(text: str) -> dict[str, ProjectedTable]:
        file.write_text(HEAD + text)
        return {each.name: each for each in lake.project(file, engine=spark_engine(spark, lake), raise_errors=False)}

    return made


def rows(lake: Lake, table: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in lake.table(table).to_arrow().read_all().to_pylist()]


def test_tables_are_made_of_tables_and_of_those_again(lake: Lake, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
  worst: {sql: SELECT max(delay) AS delay FROM late}
  late:
    sql: |
      WITH flights AS (SELECT * FROM Flights WHERE delay IS NOT NULL) -- Spark knows what this name means
      SELECT f.carrier, avg(c.delay) AS delay, count(*) AS n
      FROM flights f JOIN `as csv` c ON c.id = f.id GROUP BY f.carrier;
    sort_by: carrier
    checks: {carrier: [unique, not_null], n: "= 10"}
"""
    results = run(text)
    assert {name: (each.status, each.error) for name, each in results.items()} == dict.fromkeys(
        ("flights", "as csv", "late", "worst"), ("made", None)
    )
    assert rows(lake, "late") == [("A", 4.5, 10), ("B", 5.0, 10)]
    assert rows(lake, "worst") == [(5.0,)]
    assert [each.table for each in lake.table("late").state.made_from] == ["as csv", "flights"]
    monkeypatch.setattr("singerlake.spark.tasks.SparkTasks.sql", None)
    assert {each.status for each in run(text).values()} == {"nothing_new"}


def test_every_type_that_tables_have_comes_back_and_names_mean_the_same_everywhere(lake: Lake, run: Run) -> None:
    result = run("""
  types:
    sql: >
      SELECT 1Y AS byte, 2 AS int, CAST(1.5 AS FLOAT) AS float, 1.25 AS decimal, true AS boolean, 'é' AS text,
      DATE '2026-01-02' AS date, TIMESTAMP '2026-01-02 03:04:05' AS zoned, TIMESTAMP_NTZ '2026-01-02 03:04:05' AS local,
      array(1, NULL) AS array, named_struct('a', 1, 'b', array(named_struct('c', 'x'))) AS struct,
      CAST(NULL AS INT) AS n, 3 AS `a.b`, 4 AS `a``b c`
""")["types"]
    assert result.error is None
    assert rows(lake, "types") == [
        (
            1,
            2,
            1.5,
            Decimal("1.25"),
            True,
            "é",
            date(2026, 1, 2),
            # Of the session's zone, which is another one in these tests, nothing is to be seen.
            datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            datetime(2026, 1, 2, 3, 4, 5),
            [1, None],
            {"a": 1, "b": [{"c": "x"}]},
            None,
            3,
            4,
        )
    ]
    assert lake.table("types").schema.names[-2:] == ["a.b", "a`b c"]
    assert str(lake.table("types").schema.types[:4]) == (
        "[DataType(int64), DataType(int64), DataType(double), Decimal128Type(decimal128(3, 2))]"
    )


def test_the_order_of_the_statement_is_that_of_the_rows(lake: Lake, run: Run) -> None:
    result = run("\n  down: {sql: SELECT * FROM flights ORDER BY id DESC}\n")["down"]
    assert result.error is None
    assert [row[0] for row in rows(lake, "down")] == list(range(19, -1, -1))
    assert lake.table("down").schema.names == lake.table("flights").schema.names


def test_nothing_of_the_session_is_read_or_changed(spark: SparkSession, lake: Lake, run: Run) -> None:
    spark.range(1).createOrReplaceTempView("flights")
    spark.range(1).createOrReplaceTempView("hers")
    spark.sql("CREATE TABLE spark_catalog.default.flights AS SELECT 'the catalog' AS id")
    try:
        results = run("""
  mine: {sql: "SELECT count(*) AS n FROM flights UNION ALL SELECT sum(id) FROM flights"}
  other: {sql: SELECT * FROM hers}
  file: {sql: SELECT * FROM parquet.`/etc/passwd`}
""")
        assert results["mine"].error is None
        assert rows(lake, "mine") == [(20,), (190,)]
        assert "reads `hers`, which is not a table of this lake" in str(results["other"].error)
        assert "which is not a table of this lake" in str(results["file"].error)
        assert spark.table("flights").count() == 1
        assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"
    finally:
        spark.sql("DROP TABLE spark_catalog.default.flights")
        for view in ("flights", "hers"):
            spark.catalog.dropTempView(view)


WRONG = {
    "column": ("SELECT nope FROM flights", "with name `nope` cannot be resolved"),
    "syntax": ("SELECT count(id FROM flights", "PARSE_SYNTAX_ERROR"),
    "two": ("SELECT 1; DROP TABLE flights", "PARSE_SYNTAX_ERROR"),
    "insert": ("WITH a AS (SELECT 1) INSERT INTO flights SELECT * FROM a", "PARSE_SYNTAX_ERROR"),
    "binary": ("SELECT x'00' AS b FROM flights", "of type binary, which tables do not have; write base64(b)"),
    "map": ("SELECT map(1, 2) AS m", "of type map<int,int>, which tables do not have; write to_json(m)"),
    "nothing": ("SELECT NULL AS n", "of type void, which tables do not have; write CAST(n AS STRING)"),
    "inside": ("SELECT struct(INTERVAL 1 DAY AS d) AS s", "column 's.d' of the statement is of type interval day"),
    "names": ("SELECT 1 AS a, 2 AS A", "gives two columns 'A'"),
    "far": ("SELECT CAST('+10000-01-01' AS DATE) AS d", "column 'd' of the statement has a date or a time beyond"),
    "value": ("SELECT CAST(carrier AS INT) AS n FROM flights", "the statement failed: CAST_INVALID_INPUT; correct it"),
}  # fmt: skip


def test_what_cannot_be_run_is_told_with_its_line_and_stops_no_other(lake: Lake, run: Run) -> None:
    tables = "".join(f'  {name}: {{sql: "{sql}"}}\n' for name, (sql, _) in WRONG.items())
    results = run(tables + "  fine: {sql: SELECT 1 AS one}\n")
    for line, (name, (_, message)) in enumerate(WRONG.items(), 4):
        error = results[name].error
        assert isinstance(error, SettingError), name
        assert message in str(error), name
        assert error.context["line"] == line
        assert "\n" not in str(error)
    assert rows(lake, "fine") == [(1,)]


def test_a_file_that_is_damaged_is_named(lake: Lake, run: Run) -> None:
    run("")
    side = lake.table("as csv").state.files[0].typed
    assert side is not None
    key = table_prefix("as csv") + side.path
    lake.storage.put(key, b"?")
    error = run("  n: {sql: SELECT count(*) AS n FROM `as csv`}\n")["n"].error
    assert isinstance(error, BrokenFileError)
    assert error.context["file"] == key
