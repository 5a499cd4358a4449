"""Columns from beside the record, other messages, and what no schema declares, as Spark itself gives them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from singerlake.lake import Lake
from tests.lakes import activate_version_line, build_stream, record_line
from tests.spark.stream.streaming import STREAM, TAP, rebuild, snapshot

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": "string"},
        "o": {"type": "object", "properties": {"n": {"type": "integer"}, "k": {"type": "integer"}}},
        "free": {"type": "object"},
    }
}
Load = Callable[..., DataFrame]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three records and an ACTIVATE_VERSION, one message a file."""
    lake = Lake.open(str(tmp_path / "lake"))
    lines = [
        record_line(STREAM, {"id": 1, "note": "a", "free": {"any": 1}}, version=1),
        record_line(STREAM, {"id": 2, "o": {"n": 3, "m": 4}}, version=2, time_extracted="2026-01-01T00:00:00Z"),
        activate_version_line(STREAM, 2)[:-1] + b', "time_extracted": "2026-01-02T00:00:00Z"}',
        record_line(STREAM, {"id": 3, "more": [5]}),
    ]
    build_stream(lake, TAP, STREAM, SCHEMA, lines, file_size=1)
    return lake


@pytest.fixture
def load(spark: SparkSession, lake: Lake) -> Load:
    """Load with the options given, the required ones filled in."""

    def load(schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("singerlake").options(path=lake.storage.url, tap=TAP, stream=STREAM, **options)
        return (reader.schema(schema) if schema else reader).load().coalesce(1)

    return load


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def test_all_messages_and_all_of_the_records_are_there(load: Load) -> None:
    frame = load(metadata=True, messages="all", record=True)
    assert frame.columns[-5:] == [
        "_time_extracted",
        "_singer_version",
        "_singer_type",
        "_singerlake_record",
        "_rescued_data",
    ]
    names = ["_singerlake_offset", "_singer_type", "_singer_version", "id", "_singerlake_record", "_rescued_data"]
    assert rows(frame.select(names)) == [
        (0, "RECORD", 1, 1, '{"id": 1, "note": "a", "free": {"any": 1}}', None),
        (1, "RECORD", 2, 2, '{"id": 2, "o": {"n": 3, "m": 4}}', '{"o":{"m":4}}'),
        (2, "ACTIVATE_VERSION", 2, None, None, None),
        (3, "RECORD", None, 3, '{"id": 3, "more": [5]}', '{"more":[5]}'),
    ]


def test_a_schema_of_one_s_own_leaves_out_what_it_knows_of(load: Load) -> None:
    assert rows(load("id INT, o STRUCT<n: INT>, _rescued_data STRING")) == [
        (1, None, None),
        (2, (3,), '{"o":{"m":4}}'),
        (3, None, '{"more":[5]}'),
    ]
    assert rows(load("o STRING", mode="FAILFAST", from_offset=1)) == [('{"n": 3, "m": 4}',), (None,)]
    assert rows(load("free STRUCT<x: INT>", mode="FAILFAST")) == [((None,),), (None,), (None,)]
    with pytest.raises(PySparkException, match=r"property 'o\.m' has no column"):
        load("o STRUCT<n: INT>", mode="FAILFAST").collect()
    with pytest.raises(PySparkException, match="property 'more' has no column"):
        load(mode="FAILFAST", from_offset=3).collect()
    assert load(mode="DROPMALFORMED").count() == 3


def test_own_columns_have_types_of_their_own(load: Load) -> None:
    options = {"metadata": True, "messages": "all", "record": True}
    found = load("_singer_version INT, _singer_type STRING, _singerlake_record STRING", **options)
    assert rows(found)[2] == (2, "ACTIVATE_VERSION", None)
    for schema, said in [
        ("_singer_version STRING", "write it as: _singer_version BIGINT"),
        ("_singerlake_record BINARY", "write it as: _singerlake_record STRING"),
        ("id BIGINT NOT NULL", "column 'id' is declared NOT NULL, and null in the rows of ACTIVATE_VERSION"),
    ]:
        with pytest.raises(PySparkException, match=said):
            load(schema, **options).collect()


def test_a_filter_on_times_leaves_no_activation_out(spark: SparkSession, load: Load) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = load(metadata=True, messages="all", pushdown=True)
        assert rows(frame.where("_time_extracted > '2026-01-01 12:00:00Z'").select("_singer_type")) == [
            ("ACTIVATE_VERSION",)
        ]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_offsets_of_another_lineage_are_refused(load: Load, lake: Lake) -> None:
    lineage = snapshot(lake).lineage
    assert load(from_offset=1, lineage=lineage).count() == 2
    rebuild(lake)
    with pytest.raises(PySparkException, match=f"'lineage' is '{lineage}'.*; look up the offsets again"):
        load(from_offset=1, lineage=lineage).count()
    assert load(from_offset=1, lineage=f" {snapshot(lake).lineage} ").count() == 2
