"""Tables with Spark: made by its tasks, read through the format and by Spark's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.spark import create_views, read_table, spark_engine
from singerlake.spark.tasks import spark_tasks
from singerlake.tables.declaration.model import ColumnRule, Format, Keep, TableDeclaration, partition_of
from singerlake.work.engine import Threads
from tests.lakes import build_stream

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "at": {"type": ["string", "null"], "format": "date-time"},
    }
}


def records(count: int, keys: int) -> list[dict[str, Any]]:
    return [
        {"id": n * 7 % keys, "note": f"n{n}" if n % 3 else None, "at": f"2026-0{1 + n % 4}-01T00:00:00Z"}
        for n in range(count)
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    build_stream(lake, "t", "s", SCHEMA, records(300, 100), file_size=40, member_size=10)
    return lake


def table(name: str, keep: Keep, **more: Any) -> TableDeclaration:
    return TableDeclaration(name=name, tap="t", stream="s", keep=keep, key=("id",), **more)


KINDS = {
    "appended": {"keep": Keep.APPEND},
    "newest": {"keep": Keep.LATEST},
    "by_month": {"keep": Keep.LATEST, "sort_by": ("note",), "partition_by": (partition_of("month(at)"),)},
    "cast": {"keep": Keep.LATEST, "columns": {"at": ColumnRule(cast="text"), "note": ColumnRule(cast="integer")}},
    "versions": {"keep": Keep.HISTORY, "order_by": ("at",)},
}


def test_tasks_of_spark_make_what_threads_make(spark: SparkSession, lake: Lake) -> None:
    with spark_tasks(lake.storage.url, None) as engine:
        for name, kind in KINDS.items():
            lake.table_runner().run(table(f"{name}_threads", **kind))
            outcome = lake.table_runner(lambda _: engine).run(table(f"{name}_spark", **kind))
            assert outcome.run is not None
            made, expected = (lake.table(f"{name}_{way}").to_arrow().read_all() for way in ("spark", "threads"))
            assert made.equals(expected)


def test_one_call_runs_tables_on_a_session(spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Threads, "__call__", None)
    (made,) = lake.project(all=True, engine=spark_engine(spark, lake))
    assert (made.status, made.rows) == ("made", 300)
    assert read_table(spark, lake.storage.url, "s").count() == 300


def test_it_is_read_through_the_format_and_by_sparks_own_reader(spark: SparkSession, lake: Lake) -> None:
    for name, kind in KINDS.items():
        lake.table_runner().run(table(name, **kind))
    views = create_views(spark, lake.storage.url)
    assert sorted(views) == sorted(KINDS)
    for name in KINDS:
        expected = lake.table(name).to_arrow().read_all()
        through = spark.read.format("singerlake").option("path", lake.storage.url).option("table", name).load()
        own = spark.table(name)
        assert through.schema == own.schema
        for frame in (through, own):
            found = sorted(map(tuple, frame.select("id", "note", "_singerlake_offset").collect()), key=repr)
            wanted = expected.select(["id", "note", "_singerlake_offset"]).to_pylist()
            assert found == sorted((tuple(row.values()) for row in wanted), key=repr)


def test_views_of_names_that_differ_in_case_alone_are_refused(spark: SparkSession, lake: Lake) -> None:
    for name in ("Users", "users"):
        lake.table_runner().run(table(name, Keep.LATEST))
    with pytest.raises(SettingError, match="'Users' and 'users' would be one view"):
        create_views(spark, lake.storage.url)
    assert sorted(create_views(spark, lake.storage.url, ["users"])) == ["users"]
    assert not [each.name for each in spark.catalog.listTables() if each.name == "Users"]


def test_nested_fields_differ_in_more_than_case_and_are_read(spark: SparkSession, lake: Lake) -> None:
    number = {"type": "integer"}
    fields = {"type": "object", "properties": {"a": number, "A": number}}
    schema = {"properties": {"id": number, "of": {"type": "array", "items": fields}}}
    build_stream(lake, "t", "nested", schema, [{"id": 1, "of": [{"a": 2, "A": 3}]}], key_properties=("id",))
    lake.table_runner().run(TableDeclaration(name="nested", tap="t", stream="nested"))
    [row] = create_views(spark, lake.storage.url)["nested"].collect()
    assert row["of"][0].asDict() == {"a": 2, "A_2": 3}
    assert spark.sql("SELECT of[0].a, of[0].a_2 FROM nested").collect() == [(2, 3)]


def test_a_dataframe_is_one_snapshot(spark: SparkSession, lake: Lake) -> None:
    newest = table("newest", Keep.LATEST)
    lake.table_runner().run(newest)
    options = {"path": lake.storage.url, "table": "newest"}
    before = [spark.read.format("singerlake").options(**options).load(), read_table(spark, lake.storage.url, "newest")]
    build_stream(lake, "t", "s", SCHEMA, records(400, 150), file_size=40, member_size=10)
    lake.table_runner().run(newest)
    assert [frame.count() for frame in before] == [100, 100]
    assert spark.read.format("singerlake").options(**options).load().count() == 150


def test_columns_are_chosen_and_other_formats_are_read(spark: SparkSession, lake: Lake) -> None:
    lake.table_runner().run(table("newest", Keep.LATEST, format=Format.JSONL))
    frame = read_table(spark, lake.storage.url, "newest", columns="note,id")
    assert frame.columns == ["note", "id"]
    assert frame.count() == 100


@pytest.mark.parametrize("name", ["la[k]e", "{lake,pond}", "lak?", "la%20ke #1"])
def test_a_lake_whose_path_would_be_a_pattern_is_read(spark: SparkSession, tmp_path: Path, name: str) -> None:
    for each in (name, "lake"):
        lake = Lake.open(str(tmp_path / each))
        build_stream(lake, "t", "s", SCHEMA, records(10 if each == name else 20, 100))
        lake.table_runner().run(table("newest", Keep.LATEST))
    assert read_table(spark, str(tmp_path / name), "newest").count() == 10


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "nope"}, "no table 'nope'"),
        ({"table": "newest", "tap": "t"}, "exclude each other"),
        ({"table": "newest", "columns": "none"}, "no column 'none'"),
        ({"table": "newest", "speed": "1"}, "option 'speed' is not known"),
        ({"table": " "}, "option 'table' is missing"),
    ],
)
def test_wrong_options_are_named(spark: SparkSession, lake: Lake, options: dict[str, str], said: str) -> None:
    lake.table_runner().run(table("newest", Keep.LATEST))
    with pytest.raises(PySparkException, match=said):
        spark.read.format("singerlake").options(path=lake.storage.url, **options).load()


def test_a_table_is_not_written_by_spark(spark: SparkSession, lake: Lake) -> None:
    lake.table_runner().run(table("newest", Keep.LATEST))
    options = {"path": lake.storage.url, "table": "newest"}
    with pytest.raises(PySparkException, match="cannot write a table"):
        spark.range(1).write.format("singerlake").options(**options).mode("append").save()
    with pytest.raises(PySparkException, match="cannot be read as a stream"):
        spark.readStream.format("singerlake").options(**options).load().writeStream.format(
            "noop"
        ).start().processAllAvailable()
