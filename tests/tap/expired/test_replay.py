"""Replays of a stream whose oldest messages expired, or expire meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ExpiredMessagesError
from singerlake.format.state.bookmark import Bookmark
from singerlake.lake import Lake
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.gc.expire import Cut, expire_messages
from tap_singerlake.replay import MessageBlock, Reader
from tests.lakes import build_stream
from tests.tap.runs import V1, V2, replay

TAP, STREAM = "tap-a", "flights"


def expire(lake: Lake, before: int, *, now: bool = False) -> None:
    context = StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, lake.stream(TAP, STREAM).store())
    done = expire_messages(context, Cut(before=before), dry_run=False)
    if now:
        collect_now(context, frozenset(done.ids))


def state_at(lake: Lake, offset: int) -> dict[str, Any]:
    lineage = lake.stream(TAP, STREAM).snapshot().lineage
    return {"bookmarks": {STREAM: {"lineage": lineage, "offset": offset, "file": None, "line": 0}}}


def ids(output: Any) -> list[int]:
    return [record["id"] for record in output.records(STREAM)]


def test_without_a_bookmark_it_begins_at_the_floor(flights: Lake, root: Path) -> None:
    expire(flights, 150, now=True)
    output = replay(root)
    assert ids(output) == list(range(100, 300))
    assert output.state["bookmarks"][STREAM]["offset"] == 300


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_from_a_version_of_which_all_expired_too(flights: Lake, root: Path, version: str) -> None:
    build_stream(flights, TAP, STREAM, V1, [{"id": 300}])
    expire(flights, 300, now=True)
    assert ids(replay(root, from_version=version)) == [300]


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("offset", [200, 201, 299, 300])
def test_a_bookmark_at_the_floor_or_above_it_leads_on(flights: Lake, root: Path, offset: int, skip: bool) -> None:
    expire(flights, 200, now=True)
    output = replay(root, state=state_at(flights, offset), skip_expired=skip)
    assert ids(output) == list(range(offset, 300))


@pytest.mark.parametrize("offset", [0, 1, 199])
def test_a_bookmark_below_the_floor_is_an_error_that_keeps_the_state(flights: Lake, root: Path, offset: int) -> None:
    state = state_at(flights, offset)
    expire(flights, 200)
    with pytest.raises(
        ExpiredMessagesError, match=rf"from offset {offset} to 199 expired .*set skip_expired"
    ) as caught:
        replay(root, state=state)
    assert caught.value.output.records() == []  # type: ignore[attr-defined]
    told = caught.value.output.state  # type: ignore[attr-defined]
    assert told.get("bookmarks", state["bookmarks"])[STREAM]["offset"] == offset
    output = replay(root, state=state, skip_expired=True)
    assert ids(output) == list(range(200, 300))
    assert output.state["bookmarks"][STREAM]["offset"] == 300


def test_where_all_expired_the_schema_comes_alone_and_the_next_run_goes_on(flights: Lake, root: Path) -> None:
    behind, at_the_end = state_at(flights, 10), state_at(flights, 300)
    expire(flights, 300, now=True)
    for options in ({}, {"state": at_the_end}, {"state": behind, "skip_expired": True}):
        output = replay(root, **options)
        assert ids(output) == []
        (schema,) = output.of("SCHEMA", STREAM)
        assert set(schema["schema"]["properties"]) >= set(V2["properties"])
    with pytest.raises(ExpiredMessagesError):
        replay(root, state=behind)
    build_stream(flights, TAP, STREAM, V2, [{"id": 300, "name": "n"}])
    assert ids(replay(root, state=at_the_end)) == [300]
    assert ids(replay(root, state=behind, skip_expired=True)) == [300]
    assert ids(replay(root)) == [300]


@pytest.mark.parametrize("skip", [False, True])
def test_batch_files_begin_at_the_floor_and_refuse_as_messages_do(
    flights: Lake, root: Path, tmp_path: Path, skip: bool
) -> None:
    state = state_at(flights, 10)
    expire(flights, 200, now=True)
    batches = {"batch_config": {"encoding": {"format": "jsonl"}, "storage": {"root": f"file://{tmp_path / 'batches'}"}}}
    told = replay(root, **batches)
    assert told.of("BATCH", STREAM)
    if skip:
        output = replay(root, state=state, skip_expired=True, **batches)
        assert output.of("BATCH", STREAM)
        assert output.state["bookmarks"][STREAM]["offset"] == 300
        return
    with pytest.raises(ExpiredMessagesError):
        replay(root, state=state, **batches)


def test_other_streams_are_replayed_though_one_expired(flights: Lake, root: Path) -> None:
    state = state_at(flights, 10)
    build_stream(flights, TAP, "airports", V1, [{"id": 1}])
    expire(flights, 200)
    assert [record["id"] for record in replay(root, state=state, skip_expired=True).records("airports")] == [1]


# While it reads


@pytest.fixture
def four_files(lake: Lake) -> Lake:
    """Ids 0 to 39, ten a file."""
    build_stream(lake, TAP, STREAM, V1, [{"id": n} for n in range(40)], file_size=10, member_size=3)
    return lake


def numbers(event: Any) -> list[int]:
    return [json.loads(line)["record"]["id"] for line in event.block.data.splitlines()]


def read_on(lake: Lake, made: Reader, *, expire_after: int, before: int) -> list[int]:
    """The ids that a reader gives, while what is before an offset is deleted after the message of an id."""
    found: list[int] = []
    for event in made.events(lake.stream(TAP, STREAM).snapshot()):
        if isinstance(event, MessageBlock):
            found += numbers(event)
            if expire_after in found and lake.stream(TAP, STREAM).snapshot().floor < before:
                expire(lake, before, now=True)
    return found


def test_what_expires_behind_a_reader_is_nothing_to_it(four_files: Lake) -> None:
    made = Reader(four_files.stream(TAP, STREAM))
    assert read_on(four_files, made, expire_after=19, before=20) == list(range(40))


def test_what_is_deleted_ahead_of_a_reader_is_an_error_that_names_it(four_files: Lake) -> None:
    made = Reader(four_files.stream(TAP, STREAM))
    with pytest.raises(ExpiredMessagesError, match="from offset 10 to 29 expired"):
        read_on(four_files, made, expire_after=9, before=30)
    assert isinstance(made.position, Bookmark)
    assert made.position.offset == 10


def test_it_may_go_on_behind_what_was_deleted(four_files: Lake) -> None:
    made = Reader(four_files.stream(TAP, STREAM), skip_expired=True)
    assert read_on(four_files, made, expire_after=9, before=30) == [*range(10), *range(30, 40)]
    assert isinstance(made.position, Bookmark)
    assert made.position.offset == 40


def test_a_reader_that_has_nothing_yet_begins_at_the_new_floor(four_files: Lake) -> None:
    stream = four_files.stream(TAP, STREAM)
    before = stream.snapshot()
    expire(four_files, 30, now=True)
    found = [n for event in Reader(stream).events(before) if isinstance(event, MessageBlock) for n in numbers(event)]
    assert found == list(range(30, 40))
