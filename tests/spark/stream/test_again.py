"""The reader of streams, without a Spark: a batch that is asked for again, whatever happened to the lake meanwhile."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import LineageChangedError, LostBookmarkError
from singerlake.format import layout
from singerlake.lake import Lake
from tests.lakes import build_stream
from tests.spark.stream.streaming import (
    STREAM,
    TAP,
    V1,
    add,
    batches,
    drop,
    ids,
    reader,
    rebuild,
    rows,
    snapshot,
    three_files,
    through_json,
    vacuum,
)

limits = pytest.importorskip("pyspark.sql.streaming.datasource", reason="pyspark before 4.2 has no limits")
ALL = limits.ReadAllAvailable()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Ids 0 to 24 in three files of v1: ten, ten and five, three a gzip member."""
    return three_files(tmp_path)


def planned(lake: Lake, first: int, stop: int) -> tuple[Any, Any]:
    """Offsets [first, stop) as a checkpoint holds them."""
    made = reader(lake, from_offset=first)
    start = made.initialOffset()
    return through_json(start), through_json(made.latestOffset(start, limits.ReadMaxRows(stop - first)))


@pytest.mark.parametrize(("first", "stop"), [(0, 25), (0, 10), (4, 17), (10, 20), (12, 13), (24, 25)])
@pytest.mark.parametrize("meanwhile", [["more"], ["vacuum"], ["vacuum", "more"], ["rebuild"], ["vacuum", "rebuild"]])
def test_a_batch_is_the_same_one_again_whatever_happened_meanwhile(
    lake: Lake, first: int, stop: int, meanwhile: list[str]
) -> None:
    start, end = planned(lake, first, stop)
    running = reader(lake)
    assert ids(rows(running, start, end)) == list(range(first, stop))
    for event in meanwhile:
        {"more": lambda: add(lake, 100), "vacuum": lambda: vacuum(lake), "rebuild": lambda: rebuild(lake)}[event]()
    for made in (running, reader(lake)):
        assert ids(rows(made, start, end)) == list(range(first, stop))


def test_a_vacuum_of_some_files_moves_no_offset(lake: Lake) -> None:
    start, end = planned(lake, 5, 25)
    vacuum(lake, 0, 2)
    vacuum(lake)
    assert ids(rows(reader(lake), start, end)) == list(range(5, 25))
    rebuild(lake)
    made = reader(lake)
    assert ids(rows(made, start, end)) == list(range(5, 25))
    add(lake, 25)
    assert batches(made, end) == [[25]]


def test_after_a_rebuild_a_query_goes_on_by_file_and_line_and_says_so(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    _, end = planned(lake, 0, 14)
    made = reader(lake)
    rebuild(lake)
    with caplog.at_level(logging.WARNING):
        assert batches(made, end) == [list(range(14, 25))]
        for _ in range(3):
            made.latestOffset(end, ALL)
    told = [record.getMessage() for record in caplog.records if "was rebuilt" in record.getMessage()]
    assert len(told) == 1
    assert f"after message 4 of file {end['file']}; 14 messages are before it now, and 14 were before" in told[0]


def lose_first_file(lake: Lake) -> None:
    file = snapshot(lake).files[0]
    lake.storage.delete(lake.stream(TAP, STREAM).prefix + file.path)
    rebuild(lake)


def test_a_query_whose_file_is_gone_for_good_says_what_to_do(lake: Lake) -> None:
    _, end = planned(lake, 0, 4)
    lose_first_file(lake)
    for made in (reader(lake),):
        with pytest.raises(LostBookmarkError, match="start it with a new checkpointLocation, and option 'from_offset'"):
            made.latestOffset(end, ALL)
        with pytest.raises(LostBookmarkError, match="no longer holds this query's current file"):
            made.partitions(end, end)


@pytest.mark.parametrize("captured_again", [False, True])
def test_a_query_whose_stream_was_dropped_says_so_and_reads_nothing(lake: Lake, captured_again: bool) -> None:
    start, end = planned(lake, 0, 4)
    made = reader(lake)
    drop(lake)
    if captured_again:
        add(lake, 100)
    for each in (made, reader(lake)) if captured_again else (made,):
        with pytest.raises(LostBookmarkError, match="rebuilt or dropped and no longer holds this query's current file"):
            each.latestOffset(end, ALL)
        with pytest.raises(LostBookmarkError):
            each.partitions(start, end)


def test_a_query_that_had_read_nothing_when_its_stream_was_dropped_begins_with_the_new_life(lake: Lake) -> None:
    made = reader(lake)
    start = through_json(made.initialOffset())
    drop(lake)
    add(lake, 100)
    assert batches(reader(lake), start) == [[100]]


def test_a_batch_that_does_not_hold_the_same_messages_any_more_is_refused(lake: Lake) -> None:
    start, end = planned(lake, 0, 14)
    made = reader(lake)
    lose_first_file(lake)
    with pytest.raises(
        LineageChangedError, match="new checkpointLocation and option 'from_offset' 0, where this batch began"
    ):
        made.partitions(start, end)
    assert batches(reader(lake), end) == [list(range(14, 25))]


def test_a_batch_over_two_rebuilds_cannot_be_shown_to_be_the_same(lake: Lake) -> None:
    _, start = planned(lake, 0, 4)
    rebuild(lake)
    made = reader(lake)
    end = through_json(made.latestOffset(start, limits.ReadMaxRows(10)))
    assert ids(rows(made, start, end)) == list(range(4, 14))
    rebuild(lake)
    with pytest.raises(LineageChangedError):
        made.partitions(start, end)


def test_a_batch_beyond_the_end_of_an_older_state_is_refused_and_not_cut(lake: Lake) -> None:
    key = layout.manifest_key(TAP, STREAM)
    older = lake.storage.get(key)
    assert older is not None
    add(lake, 25, 26, 27)
    start, end = planned(lake, 20, 28)
    lake.storage.put(key, older.body)
    made = reader(lake)
    with pytest.raises(LineageChangedError, match="restored to an older state"):
        made.partitions(start, end)
    assert made.latestOffset(end, ALL) == end


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"offset": 3},
        {"lineage": None, "offset": "3", "file": None, "line": 0},
        {"lineage": None, "offset": -3, "file": None, "line": 0},
        {"lineage": None, "offset": 3, "file": "f", "line": -1},
        {"lineage": 7, "offset": 3, "file": "f", "line": 1},
        [],
        None,
    ],
)
def test_a_checkpoint_of_something_else_is_refused(lake: Lake, given: Any) -> None:
    with pytest.raises(LostBookmarkError, match="the checkpoint holds"):
        reader(lake).partitions(given, given)


def test_the_checkpoint_of_another_stream_is_refused(lake: Lake) -> None:
    build_stream(lake, TAP, "other", V1, [{"id": n} for n in range(5)])
    made = reader(lake, stream="other")
    _, end = planned(lake, 0, 3)
    with pytest.raises(LostBookmarkError):
        made.latestOffset(end, ALL)
