"""A stream with erased records read by a real Spark, in one task and in several."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from singerlake.lake import Lake
from tests.everywhere.erasing import erase, holes_of
from tests.lakes import activate_version_line, build_stream, record_line
from tests.spark.batch.test_batch import failure

TAP, STREAM = "tap-a", "orders"
V1 = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
V2 = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "more": {}}}
ACTIVATED = 21
GONE = [0, 1, 6, 7, 8, *range(20, 40), 44, 59]
GONE.remove(ACTIVATED)
LEFT = [number for number in range(60) if number not in GONE and number != ACTIVATED]
Load = Callable[..., DataFrame]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Offsets 0 to 39 as v1 and 40 to 59 as v2, twenty a file, four a gzip member, some of them erased."""
    made = Lake.open(str(tmp_path / "lake"))
    for schema, numbers in ((V1, range(40)), (V2, range(40, 60))):
        lines = [
            activate_version_line(STREAM, 3)
            if number == ACTIVATED
            else record_line(STREAM, {"id": number, "name": f"n{number}"}, version=3)
            for number in numbers
        ]
        build_stream(made, TAP, STREAM, schema, lines, file_size=20, member_size=4)
    erase(made, TAP, STREAM, GONE)
    assert holes_of(made, TAP, STREAM) == [5, 19, 2]
    return made


@pytest.fixture
def load(spark: SparkSession, lake: Lake) -> Load:
    def load(**options: Any) -> DataFrame:
        given = {"path": lake.storage.url, "tap": TAP, "stream": STREAM, **options}
        return spark.read.format("singerlake").options(**{name: str(value) for name, value in given.items()}).load()

    return load


def ids(found: DataFrame) -> list[int]:
    return sorted(row.id for row in found.collect())


def test_columns_offsets_and_counts_are_those_of_what_is_left(load: Load) -> None:
    found = load(metadata=True)
    assert sorted((row.id, row._singerlake_offset, row.name) for row in found.collect()) == [
        (number, number, f"n{number}") for number in LEFT
    ]
    assert found.count() == found.select("_singerlake_offset").distinct().count() == len(LEFT)
    assert load(mode="FAILFAST").count() == len(LEFT)


def test_messages_of_all_kinds_are_rows_and_holes_are_none(load: Load) -> None:
    found = load(messages="all", metadata=True).orderBy("_singerlake_offset").collect()
    assert [row._singerlake_offset for row in found] == sorted([*LEFT, ACTIVATED])
    assert [row._singerlake_offset for row in found if row._singer_type == "ACTIVATE_VERSION"] == [ACTIVATED]


@pytest.mark.sampled(first=2)
@pytest.mark.parametrize(("first", "stop"), [(0, 7), (7, 9), (7, 41), (22, 38), (30, 60), (59, 60)])
def test_offsets_within_holes_are_borders_as_any(load: Load, first: int, stop: int) -> None:
    wanted = [number for number in LEFT if first <= number < stop]
    assert ids(load(from_offset=first, to_offset=stop)) == wanted
    pushed = load(metadata=True).where(f"_singerlake_offset >= {first} AND _singerlake_offset < {stop}")
    assert ids(pushed) == wanted


def test_tasks_of_a_member_each_hold_the_same(load: Load) -> None:
    found = load(partition_bytes=1, metadata=True)
    assert found.rdd.getNumPartitions() == 15
    assert ids(found) == LEFT
    assert load(partition_bytes=1, from_offset=7, to_offset=42).count() == len([n for n in LEFT if 7 <= n < 42])


def test_versions_leave_out_what_is_of_others(load: Load) -> None:
    assert ids(load(from_version="v2")) == ids(load(versions="v2")) == [number for number in LEFT if number >= 40]
    assert ids(load(versions="v1")) == [number for number in LEFT if number < 40]


def test_a_frame_that_was_loaded_before_an_erasure_reads_what_is_left_after_it(load: Load, lake: Lake) -> None:
    found, planned = load(), load()
    assert ids(planned) == LEFT
    erase(lake, TAP, STREAM, [2, 45], now=True)
    assert ids(found) == [number for number in LEFT if number not in (2, 45)]
    assert "load it again" in failure(planned.collect), "Spark keeps a plan, and its files are deleted"
