"""A real Spark on a stream whose oldest messages expire: queries with checkpoints, frames, views."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from singerlake.lake import Lake
from tests.spark.stream.streaming import add, options, three_files
from tests.spark.stream.test_expired import expire
from tests.spark.stream.test_stream import Sink

Load = Callable[..., DataFrame]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Ids 0 to 24 in three files of v1: ten, ten and five, three a gzip member."""
    return three_files(tmp_path)


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path / "checkpoint")


@pytest.fixture
def follow(spark: SparkSession, lake: Lake) -> Load:
    def load(**more: Any) -> DataFrame:
        return spark.readStream.format("singerlake").options(**options(lake, **more)).load()

    return load


@pytest.fixture
def load(spark: SparkSession, lake: Lake) -> Load:
    def load(**more: Any) -> DataFrame:
        return spark.read.format("singerlake").options(**options(lake, **more)).load()

    return load


def ids(found: DataFrame) -> list[int]:
    return sorted(row.id for row in found.select("id").collect())


def test_a_query_that_is_up_to_date_goes_on_and_one_behind_stops_or_skips(lake: Lake, follow: Load, sink: Sink) -> None:
    assert sink.run(follow()) == [list(range(25))]
    expire(lake, 25)
    add(lake, 25, 26)
    assert sink.run(follow()) == [[25, 26]]
    add(lake, *range(27, 47))
    expire(lake, 37)
    with pytest.raises(StreamingQueryException, match="from offset 27 to 36 expired before they were read"):
        sink.run(follow())
    assert sink.run(follow(skip_expired="true")) == [list(range(37, 47))]
    assert sink.run(follow()) == []


@pytest.mark.thorough
def test_a_batch_that_died_and_whose_messages_expired_is_run_again_with_what_is_left(
    lake: Lake, follow: Load, sink: Sink
) -> None:
    assert sink.run(follow()) == [list(range(25))]
    add(lake, *range(25, 45))
    sink.die_in = 1
    with pytest.raises(StreamingQueryException, match="the sink died"):
        sink.run(follow())
    expire(lake, 35)
    with pytest.raises(StreamingQueryException, match="from offset 25 to 34 expired before they were read"):
        sink.run(follow())
    sink.run(follow(skip_expired="true"))
    assert sink.batches[1] == list(range(35, 45))
    assert sink.runs == [0, 1, 1]


@pytest.mark.thorough
def test_a_first_batch_that_died_begins_at_the_floor_when_it_is_run_again(lake: Lake, follow: Load, sink: Sink) -> None:
    """Spark keeps no beginning of a first batch, and asks for it anew."""
    sink.die_in = 0
    with pytest.raises(StreamingQueryException, match="the sink died"):
        sink.run(follow())
    expire(lake, 20)
    sink.run(follow())
    assert sink.batches == {0: list(range(20, 25))}


@pytest.mark.thorough
def test_a_query_whose_first_offset_expired_since_its_start_is_started_again(
    lake: Lake, follow: Load, sink: Sink
) -> None:
    assert sink.run(follow(from_offset=5)) == [list(range(5, 25))]
    expire(lake, 20)
    add(lake, 25)
    assert sink.run(follow(from_offset=5)) == [[25]]


def test_frames_and_views_that_were_made_before_are_refused(spark: SparkSession, lake: Lake, load: Load) -> None:
    before, later = load(), load(from_offset=20)
    given = ", ".join(f"{name} '{value}'" for name, value in options(lake).items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW all_of_it USING singerlake OPTIONS ({given})")
    expire(lake, 20)
    for read in (before.collect, before.count, lambda: spark.sql("SELECT count(*) FROM all_of_it").collect()):
        with pytest.raises(PySparkException, match="expired after this DataFrame or table was made; load it again"):
            read()
    assert ids(later) == ids(load()) == list(range(20, 25))
    assert load().count() == 5


def test_offsets_of_a_frame_that_expired_are_told_and_may_be_skipped(lake: Lake, load: Load) -> None:
    expire(lake, 20)
    for wrong in ({"from_offset": 5}, {"from_offset": 5, "to_offset": 22}, {"to_offset": 20}):
        with pytest.raises(PySparkException, match="expired before they were read; set skip_expired"):
            load(**wrong).collect()
    assert ids(load(from_offset=5, skip_expired="true")) == list(range(20, 25))
    assert load(to_offset=20, skip_expired="true").count() == 0
    assert ids(load(to_offset=22)) == [20, 21]
    assert ids(load(from_version="v1")) == list(range(20, 25))
    expire(lake, 25)
    assert load().count() == 0
    assert "id" in load().columns
