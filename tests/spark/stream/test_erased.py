"""Streaming queries over a stream from which records are erased: their checkpoints lead on, and no hole is a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.errors import MissingFileError
from singerlake.lake import Lake
from tests.everywhere.erasing import erase, holes_of
from tests.spark.stream.streaming import (
    STREAM,
    TAP,
    add,
    batches,
    ids,
    needs_limits,
    options,
    reader,
    rebuild,
    rows,
    snapshot,
    three_files,
    through_json,
    vacuum,
)
from tests.spark.stream.test_stream import Sink

GONE = [0, 8, 9, *range(10, 20), 21, 24]
"""The borders of files, a whole file, and the end of the stream."""
LEFT = [number for number in range(25) if number not in GONE]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Ids 0 to 24 in three files of v1: ten, ten and five, three a gzip member."""
    return three_files(tmp_path)


@pytest.fixture
def erased(lake: Lake) -> Lake:
    erase(lake, TAP, STREAM, GONE)
    assert holes_of(lake, TAP, STREAM) == [3, 10, 2]
    return lake


def flat(found: list[list[Any]]) -> list[Any]:
    return [each for batch in found for each in batch]


def end_of(made: Any, start: Any, most: int | None = None) -> Any:
    limits = pytest.importorskip("pyspark.sql.streaming.datasource", reason="pyspark before 4.2 has no limits")
    limit = limits.ReadAllAvailable() if most is None else limits.ReadMaxRows(most)
    return through_json(made.latestOffset(start, limit))


def test_a_query_gives_what_is_left_at_its_offsets(erased: Lake) -> None:
    made = reader(erased, metadata=True)
    start = through_json(made.initialOffset())
    found = rows(made, start, end_of(made, start))
    assert [(row["id"], row["_singerlake_offset"]) for row in found] == [(number, number) for number in LEFT]
    assert made.latestOffset(end_of(made, start), None) == end_of(made, start), "there is nothing behind the holes"


@needs_limits
@pytest.mark.parametrize("most", [1, 2, 3, 7, 10, 13, 24])
def test_limits_count_holes_and_batches_without_a_row_lead_on(erased: Lake, most: int) -> None:
    found = batches(reader(erased, maxRecordsPerTrigger=most))
    assert flat(found) == LEFT
    assert len(found) == -(-25 // most)


@needs_limits
def test_files_and_bytes_are_limits_as_before(lake: Lake) -> None:
    before = [len(batches(reader(lake, **limit))) for limit in ({"maxFilesPerTrigger": 1}, {"maxBytesPerTrigger": 1})]
    erase(lake, TAP, STREAM, GONE)
    assert batches(reader(lake, maxFilesPerTrigger=1)) == [[1, 2, 3, 4, 5, 6, 7], [], [20, 22, 23]]
    assert flat(batches(reader(lake, maxBytesPerTrigger=1))) == LEFT
    assert before == [3, 25]


@pytest.mark.parametrize("first", range(0, 26, 5))
@pytest.mark.parametrize("meanwhile", ["erase", "erase now", "erase, vacuum", "erase, rebuild"])
def test_a_checkpoint_from_before_an_erasure_goes_on_after_it(lake: Lake, first: int, meanwhile: str) -> None:
    start = through_json(reader(lake, from_offset=first).initialOffset())
    running = reader(lake)
    running.initialOffset()
    erase(lake, TAP, STREAM, GONE, now="now" in meanwhile)
    if "vacuum" in meanwhile:
        vacuum(lake)
    if "rebuild" in meanwhile:
        rebuild(lake)
    for made in (running, reader(lake)):
        assert ids(rows(made, start, end_of(made, start))) == [number for number in LEFT if number >= first]


@pytest.mark.parametrize(("first", "stop"), [(0, 25), (0, 1), (8, 11), (9, 20), (10, 20), (12, 13), (24, 25)])
def test_a_batch_that_is_done_again_holds_the_same_but_what_was_erased(lake: Lake, first: int, stop: int) -> None:
    made = reader(lake, from_offset=first)
    start = through_json(made.initialOffset())
    end = end_of(made, start, stop - first)
    assert ids(rows(made, start, end)) == list(range(first, stop))
    erase(lake, TAP, STREAM, GONE, now=True)
    for again in (made, reader(lake)):
        assert ids(rows(again, start, end)) == [number for number in LEFT if first <= number < stop]


def test_a_task_whose_file_was_erased_from_and_deleted_says_to_start_again(lake: Lake) -> None:
    made = reader(lake)
    start = through_json(made.initialOffset())
    (partition,) = made.partitions(start, end_of(made, start))
    erase(lake, TAP, STREAM, GONE, now=True)
    with pytest.raises(MissingFileError, match="start the query again, it continues from its checkpoint"):
        list(made.read(partition))


def test_an_erasure_between_two_batches_moves_no_offset(lake: Lake) -> None:
    made = reader(lake)
    start = through_json(made.initialOffset())
    middle = end_of(made, start, 6)
    assert ids(rows(made, start, middle)) == list(range(6))
    erase(lake, TAP, STREAM, [0, 5, 6, 7], now=True)
    add(lake, 25, 26)
    erase(lake, TAP, STREAM, [25], now=True)
    assert ids(rows(made, middle, end_of(made, middle))) == [*range(8, 25), 26]
    assert snapshot(lake).next_offset == 27


def test_available_now_ends_behind_the_holes_that_were_there_when_it_began(erased: Lake) -> None:
    made = reader(erased)
    start = through_json(made.initialOffset())
    made.prepareForTriggerAvailableNow()
    add(erased, 25)
    assert ids(rows(made, start, end_of(made, start))) == LEFT
    assert end_of(made, end_of(made, start)) == end_of(made, start)


@pytest.mark.thorough
def test_a_query_of_a_real_spark_goes_on_after_an_erasure(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    sink = Sink(tmp_path / "checkpoint")
    found = spark.readStream.format("singerlake").options(**options(lake)).load()
    assert flat(sink.run(found)) == list(range(25))
    add(lake, *range(25, 32))
    erase(lake, TAP, STREAM, [0, 24, 25, 31], now=True)
    assert flat(sink.run(found)) == list(range(26, 31))
    assert flat(sink.run(found)) == []
    again = Sink(tmp_path / "another")
    assert flat(again.run(found)) == [*range(1, 24), *range(26, 31)]
