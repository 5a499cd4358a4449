"""Streaming queries of a stream whose oldest messages expire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ExpiredMessagesError, LineageChangedError
from singerlake.lake import Lake
from singerlake.spark.source import SingerlakeDataSource
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.gc.expire import Cut, expire_messages
from tests.spark.stream.streaming import (
    STREAM,
    TAP,
    V1,
    add,
    batches,
    ids,
    limits_if_any,
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


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Ids 0 to 24 in three files of v1: ten, ten and five, three a gzip member."""
    return three_files(tmp_path)


def expire(lake: Lake, before: int, *, now: bool = True) -> None:
    context = StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, lake.stream(TAP, STREAM).store())
    done = expire_messages(context, Cut(before=before), dry_run=False)
    if now:
        collect_now(context, frozenset(done.ids))


def at(lake: Lake, offset: int) -> dict[str, Any]:
    """A checkpoint that says so."""
    return {"lineage": snapshot(lake).lineage, "offset": offset, "file": None, "line": 0}


def end(made: Any, start: Any) -> Any:
    return through_json(made.latestOffset(start, made.getDefaultReadLimit()))


def test_a_query_without_a_checkpoint_begins_at_the_floor(lake: Lake) -> None:
    expire(lake, 10)
    made = reader(lake)
    assert made.initialOffset()["offset"] == 10
    assert batches(made) == [list(range(10, 25))]
    assert batches(reader(lake, from_version="v1")) == [list(range(10, 25))]


def test_a_checkpoint_at_the_floor_or_above_it_goes_on(lake: Lake) -> None:
    expire(lake, 10)
    for offset in (10, 13, 25):
        assert [n for batch in batches(reader(lake), at(lake, offset)) for n in batch] == list(range(offset, 25))


@pytest.mark.parametrize("offset", [0, 3, 9])
def test_a_checkpoint_below_the_floor_stops_the_query_or_goes_on_at_the_floor(lake: Lake, offset: int) -> None:
    expire(lake, 10)
    start = at(lake, offset)
    made = reader(lake)
    with pytest.raises(ExpiredMessagesError, match=f"from offset {offset} to 9 expired before they were read"):
        end(made, start)
    with pytest.raises(ExpiredMessagesError):
        made.partitions(start, at(lake, 20))
    assert batches(reader(lake, skip_expired=True), start) == [list(range(10, 25))]


def test_what_expires_while_a_query_runs_stops_it_only_where_it_is_behind(lake: Lake) -> None:
    made = reader(lake)
    start = end(made, made.initialOffset())
    expire(lake, 25)
    assert end(made, start) == start
    add(lake, 25, 26)
    assert batches(made, start) == [[25, 26]]
    behind = end(made, start)
    add(lake, *range(27, 40))
    expire(lake, 37)
    with pytest.raises(ExpiredMessagesError, match="from offset 27 to 36 expired"):
        end(made, behind)
    assert batches(reader(lake, skip_expired="true"), behind) == [[37, 38, 39]]


@pytest.mark.parametrize(
    ("before", "left"), [(10, list(range(10, 15))), (20, []), (25, [])], ids=["some", "all", "more"]
)
def test_a_batch_that_is_run_again_after_its_messages_expired(lake: Lake, before: int, left: list[int]) -> None:
    start, stop = at(lake, 5), at(lake, 15)
    assert ids(rows(reader(lake), start, stop)) == list(range(5, 15))
    expire(lake, before)
    with pytest.raises(ExpiredMessagesError, match=f"from offset 5 to {before - 1} expired"):
        reader(lake).partitions(start, stop)
    made = reader(lake, skip_expired=True)
    assert ids(rows(made, start, stop)) == left
    # Nothing comes twice, and nothing that is left is passed over.
    rest = [number for batch in batches(made, stop) for number in batch]
    assert left + rest == list(range(before, 25))


def test_a_batch_that_ends_at_the_floor_holds_nothing(lake: Lake) -> None:
    start, stop = at(lake, 0), at(lake, 10)
    expire(lake, 10)
    assert reader(lake, skip_expired=True).partitions(start, stop) == []
    assert reader(lake).partitions(stop, stop) == []


def test_an_option_that_lies_below_the_floor_counts_for_the_first_start_alone(lake: Lake) -> None:
    checkpoint = at(lake, 20)
    expire(lake, 20)
    made = reader(lake, "id BIGINT, name STRING", from_offset=3)
    with pytest.raises(ExpiredMessagesError, match="from offset 3 to 19 expired"):
        made.initialOffset()
    assert batches(made, checkpoint) == [list(range(20, 25))]
    skipping = reader(lake, from_offset=3, skip_expired=True)
    assert skipping.initialOffset()["offset"] == 20
    assert batches(skipping) == [list(range(20, 25))]


def test_a_restart_whose_option_lies_below_the_floor_finds_its_schema(lake: Lake) -> None:
    """Spark asks for the schema each time a query starts, and the checkpoint is above."""
    checkpoint = at(lake, 20)
    expire(lake, 20)
    assert batches(reader(lake, from_offset=3), checkpoint) == [list(range(20, 25))]


def test_a_query_on_a_stream_that_is_empty_misses_what_comes_and_expires(tmp_path: Path) -> None:
    lake = three_files(tmp_path)
    expire(lake, 25)
    made, skipping = reader(lake), reader(lake, skip_expired=True)
    start = through_json(made.initialOffset())
    assert start["offset"] == 25
    assert end(made, start) == start
    add(lake, 25, 26)
    expire(lake, 27)
    with pytest.raises(ExpiredMessagesError, match="from offset 25 to 26 expired"):
        end(made, start)
    assert end(skipping, start) == start
    add(lake, 27)
    assert batches(skipping, start) == [[27]]


@needs_limits
def test_available_now_ends_where_it_was_to_end_though_that_expired(lake: Lake) -> None:
    made = reader(lake, skip_expired=True, maxRecordsPerTrigger=7)
    made.prepareForTriggerAvailableNow()
    add(lake, 25, 26)
    start = through_json(made.initialOffset())
    middle = end(made, start)
    expire(lake, 20)
    assert batches(made, middle) == [list(range(20, 25))]
    expire(lake, 27)
    assert batches(made, middle) == []
    strict = reader(lake)
    strict.prepareForTriggerAvailableNow()
    with pytest.raises(ExpiredMessagesError):
        batches(strict, middle)


@needs_limits
def test_a_query_that_read_all_it_was_to_read_ends_though_more_expired_behind_it(lake: Lake) -> None:
    made = reader(lake)
    made.prepareForTriggerAvailableNow()
    start = end(made, made.initialOffset())
    assert start["offset"] == 25
    add(lake, *range(25, 35))
    expire(lake, 35)
    assert end(made, start) == start


@needs_limits
@pytest.mark.parametrize("limits", [{"maxRecordsPerTrigger": 4}, {"maxFilesPerTrigger": 1}, {"maxBytesPerTrigger": 1}])
def test_limits_count_from_the_floor(lake: Lake, limits: dict[str, int]) -> None:
    start = at(lake, 3)
    expire(lake, 10)
    found = batches(reader(lake, skip_expired=True, **limits), start)
    assert [number for batch in found for number in batch] == list(range(10, 25))
    assert (
        len(found[0])
        == {"maxRecordsPerTrigger": 4, "maxFilesPerTrigger": 10, "maxBytesPerTrigger": 1}[next(iter(limits))]
    )


def test_a_vacuum_and_an_expiry_between_two_batches(lake: Lake) -> None:
    made = reader(lake, **limits_if_any(maxRecordsPerTrigger=12))
    start = at(lake, 12)
    vacuum(lake, 1, 3)
    expire(lake, 10)
    assert [number for batch in batches(made, start) for number in batch] == list(range(12, 25))


def test_after_a_rebuild_a_checkpoint_in_what_is_left_goes_on_and_one_in_what_expired_is_lost(lake: Lake) -> None:
    made = reader(lake)
    start = through_json(made.initialOffset())
    stop = end(made, start)
    expire(lake, 10)
    rebuild(lake)
    assert snapshot(lake).next_offset == 15
    assert batches(reader(lake), stop) == []
    with pytest.raises(LineageChangedError):
        reader(lake).partitions(start, stop)


def test_offsets_are_as_they_were(lake: Lake) -> None:
    expire(lake, 10)
    made = reader(lake, metadata=True)
    start = made.initialOffset()
    found = rows(made, start, end(made, start))
    assert [row["_singerlake_offset"] for row in found] == ids(found) == list(range(10, 25))
    reported = made.reportLatestOffset()
    assert reported is not None
    assert reported["offset"] == 25
    json.dumps(reported)


@pytest.mark.parametrize("given", ["maybe", "2", ""])
def test_skip_expired_is_true_or_false(lake: Lake, given: str) -> None:
    from singerlake.errors import SettingError

    with pytest.raises(SettingError, match="skip_expired"):
        SingerlakeDataSource(options(lake, skip_expired=given)).schema()


def test_a_batch_read_refuses_what_expired(lake: Lake) -> None:
    loaded = SingerlakeDataSource(options(lake))
    schema = loaded.schema()
    expire(lake, 10)
    with pytest.raises(ExpiredMessagesError, match="expired after this DataFrame or table was made; load it again"):
        loaded.reader(schema).partitions()
    for wrong in ({"from_offset": 3}, {"from_offset": 3, "to_offset": 20}, {"to_offset": 10}):
        source = SingerlakeDataSource(options(lake, **wrong))
        names = source.schema().names
        with pytest.raises(ExpiredMessagesError, match="expired before they were read"):
            source.reader(source.schema())
        assert {"id", "name"} <= set(names)
    for right, expected in (({}, 15), ({"from_offset": 3, "skip_expired": True}, 15), ({"to_offset": 12}, 2)):
        source = SingerlakeDataSource(options(lake, **right))
        made = source.reader(source.schema())
        assert sum(batch.num_rows for part in made.partitions() for batch in made.read(part)) == expected
    assert set(V1["properties"]) == {"id", "name"}
