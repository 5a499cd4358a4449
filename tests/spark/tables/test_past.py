"""A table as of a moment, a commit or an offset is a DataFrame with the rows of ``Lake.table``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from singerlake.lake import Lake
from singerlake.spark import create_views, read_table
from singerlake.tables.declaration.model import ColumnRule, Keep, TableDeclaration
from singerlake.upkeep.drop import drop_stream
from tests.atomic.lakes import commit_together, numbers
from tests.docs.readme import blocks
from tests.everywhere.erasing import context_of
from tests.lakes import build_stream
from tests.tables.compare.lakes import SCHEMA, TEN

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/past.md"
DECLARED = TableDeclaration(name="people", tap="t", stream="s", columns={"name": ColumnRule(rename="called")})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "la[k]e"))
    capture(lake, TEN)
    lake.table_runner().run(DECLARED)
    return lake


def capture(lake: Lake, records: list[dict[str, Any]], schema: Any = SCHEMA) -> None:
    build_stream(lake, "t", "s", schema, records, key_properties=("id",), file_size=2)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def then(lake: Lake, point: Any, name: str = "people") -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lake.table(name, as_of=point).to_arrow().read_all().to_pylist())


def test_it_has_the_rows_and_the_columns_of_then(spark: SparkSession, lake: Lake) -> None:
    wider = {"properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "age": {"type": "integer"}}}
    capture(lake, [{"id": 9, "name": "new", "age": 5}], wider)
    lake.table_runner().run(DECLARED)
    for offset in (1, 7, 11):
        frame = read_table(spark, lake.storage.url, "people", as_of=offset)
        assert ("age" in frame.columns) == (offset == 11)
        assert rows(frame) == then(lake, offset)
    options = {"path": lake.storage.url, "TABLE": "people", "As_Of": " 3 ", "columns": "called,id"}
    assert rows(spark.read.format("singerlake").options(**options).load()) == [("n0", 0), ("n1", 1), ("n2", 2)]
    now = datetime.now(UTC)
    assert rows(read_table(spark, lake.storage.url, "people", as_of=now)) == then(lake, now)


def test_a_dataframe_stays_as_it_is_but_for_what_is_erased(spark: SparkSession, lake: Lake) -> None:
    view = create_views(spark, lake.storage.url, ["people"], as_of=7)["people"]
    before = then(lake, 7)
    capture(lake, [{"id": 0, "name": "later"}])
    lake.table_runner().run(TableDeclaration(name="people", tap="t", stream="s", keep=Keep.APPEND))
    assert rows(view) == before
    lake.erase("id = 1")
    assert rows(spark.sql("SELECT * FROM people")) == [row for row in before if row[0] != 1]
    assert spark.sql("SELECT id FROM people LIMIT 1").count() == 1


def test_a_commit_is_a_point_in_time(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    first = commit_together(lake, "two", {"a": numbers(0, 3), "b": numbers(0, 2)})
    commit_together(lake, "two", {"a": numbers(3, 5)})
    lake.table_runner().run(TableDeclaration(name="of_a", tap="two", stream="a"))
    assert read_table(spark, lake.storage.url, "of_a", as_of=first).count() == 3


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("11", "there is no offset 11; the stream ends at offset 10"),
        ("0", "had no message before offset 0"),
        ("9" * 5000, "is not a moment"),
        ("-1", "is not a moment"),
        ("\u0665", "is not a moment"),
        (" ", "option 'as_of' names nothing"),
        ("2999-01-01T00:00Z", "is in the future"),
        ("1999-01-01T00:00Z", "had no message at 1999-01-01T00:00Z"),
        ("20260101T030410.001000Z-9q2c1m5d0o8s4k7e", "there is no commit"),
    ],
)
def test_what_is_no_point_of_the_stream_is_refused_at_once(
    spark: SparkSession, lake: Lake, point: str, said: str
) -> None:
    with pytest.raises(PySparkException, match=said):
        spark.read.format("singerlake").options(path=lake.storage.url, table="people", as_of=point).load()


def test_a_stream_that_was_dropped_since_is_an_error_of_the_action(spark: SparkSession, lake: Lake) -> None:
    frame = read_table(spark, lake.storage.url, "people", as_of=7)
    drop_stream(context_of(lake, "t", "s"), dry_run=False)
    with pytest.raises(PySparkException, match="rebuilt or dropped"):
        frame.collect()


def test_the_page_runs_as_it_stands(spark: SparkSession, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.table_runner().run(TableDeclaration(name="users", tap="t", stream="s"))
    (shown,) = [block.text for block in blocks(PAGE) if "singerlake.spark" in block.text]
    exec(compile(shown.replace('"lake"', repr(lake.storage.url)), str(PAGE), "exec"), {"spark": spark})
    printed = capsys.readouterr().out
    assert [name in printed for name in ("n0", "n1", "n2")] == [True, True, False]
