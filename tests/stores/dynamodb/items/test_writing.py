"""Snapshots write the entries of their segments as items before anybody reads of them; what fails is mended later."""

from __future__ import annotations

import logging

import pytest

from singerlake.errors import AccessDeniedError, StorageUnavailableError
from singerlake.format.exact_json import decode
from singerlake.format.state.files.data_file import DataFile
from singerlake.stores.dynamodb import items
from singerlake.stores.dynamodb.store import DynamoStore
from tests.format.state.test_fold import add, new_file
from tests.servers.dynamodb import DynamoServer
from tests.servers.s3 import ALWAYS
from tests.storage.memory import Step
from tests.stores.dynamodb.dynamo import WatchedTable
from tests.stores.dynamodb.items.places import (
    SEGMENTS,
    Table,
    filled,
    items_of,
    kept,
    named,
    operations,
    store_of,
    without_items,
)
from tests.stores.stores import Place

MANY = 8


def check_items(place: Place, server: DynamoServer) -> None:
    """All segments that are published have each of their entries."""
    table, copies = Table(server, place), kept(place)
    segments = named(place)
    assert segments
    for segment in segments:
        assert copies[segment.name].whole
        rows = table.rows(segment.name)
        files = [decode(row["body"]["S"].encode(), DataFile) for row in rows]
        assert [int(row["at"]["N"]) for row in rows] == list(range(segment.files))
        assert [int(row["number"]["N"]) for row in rows] == [file.offset for file in files]
        assert (files[0].offset, files[-1].end) == (segment.offset, segment.end)


def test_each_published_segment_has_its_entries_as_items(place: Place, server: DynamoServer) -> None:
    base = filled(place, MANY)
    check_items(place, server)
    before = {segment.name for segment in named(place)}
    server.requests()
    filled(place, MANY, base)
    check_items(place, server)
    assert before & {segment.name for segment in named(place)}, "nothing was used again"


def test_a_trim_writes_those_of_its_snapshot(place: Place, server: DynamoServer) -> None:
    filled(place, MANY)
    base = place.loaded()
    place.committed(base, add(*(new_file(f"g{each}") for each in range(4))))
    place.store().trim(keep=0, dry_run=False)
    check_items(place, server)


def test_without_the_setting_nothing_is_written(place: Place, server: DynamoServer) -> None:
    plain = without_items(place)
    filled(plain, MANY)
    assert named(plain) == ()
    assert kept(place) == {}
    assert "BatchWriteItem" not in operations(server)


def test_what_is_there_is_not_written_again(place: Place, server: DynamoServer) -> None:
    filled(place, MANY)
    base = place.loaded()
    server.requests()
    place.store().publish(place.committed(base, add(new_file("last"))), run_ended=True)
    assert operations(server).count("BatchWriteItem") <= 3  # one for a marker, the files, and the whole of one segment


@pytest.mark.thorough
def test_a_writer_that_is_killed_at_any_step_leaves_what_the_next_snapshot_finishes(
    place: Place, server: DynamoServer
) -> None:
    base = filled(place, 2)
    killed = 0
    for stop in range(40):
        base = place.committed(base, add(*(new_file(f"k{stop}-{each}") for each in range(3))))
        asked = {"left": stop}

        def die(name: str, done: bool, asked: dict[str, int] = asked) -> None:
            del name, done
            asked["left"] -= 1
            if asked["left"] < 0:
                raise KeyboardInterrupt

        try:
            hooked(place, die).publish(base, run_ended=True)
        except KeyboardInterrupt:
            killed += 1
            loaded = place.loaded()
            assert list(loaded.manifest.files) == list(base.manifest.files)
            place.store().publish(loaded, run_ended=True)
            check_items(place, server)
            continue
        assert killed
        return
    raise AssertionError("it never ended")


def hooked(place: Place, hook: object) -> DynamoStore:
    """A store whose every request to DynamoDB is seen by ``hook`` before it is sent and after it."""
    own = store_of(place)
    plain = own._table
    table = WatchedTable(plain.name, plain._settings, endpoint_url=plain._endpoint_url, clock=plain.clock)
    table.hook = hook  # type: ignore[assignment]
    return DynamoStore(own._place, table, tap_id=own._tap_id, lake_id=own._lake_id, query_items=True)


def test_items_are_there_before_the_head_that_names_their_segments(place: Place, server: DynamoServer) -> None:
    base = place.born()
    base = place.committed(base, add(*(new_file(f"f{each}") for each in range(MANY))))
    seen: list[bool] = []

    def look(step: Step) -> None:
        if step.operation.startswith(("put", "replace")) and step.key.endswith("manifest.json") and not step.done:
            place.storage.hook = lambda _: None
            seen.append(bool(kept(place)) and all(copy.whole for copy in kept(place).values()))

    place.storage.hook = look
    place.store().publish(base, run_ended=True)
    assert seen == [True]
    check_items(place, server)


def test_two_snapshotters_at_once_write_the_same(place: Place, server: DynamoServer) -> None:
    base = place.born()
    base = place.committed(base, add(*(new_file(f"f{each}") for each in range(MANY))))

    def overtake(name: str, done: bool) -> None:
        if name == "batch_write_item" and done and not others:
            others.append(1)
            place.store().publish(base, run_ended=True)

    others: list[int] = []
    hooked(place, overtake).publish(base, run_ended=True)
    assert others
    check_items(place, server)
    assert place.listed() == [file.id for file in base.manifest.files]


@pytest.mark.parametrize("processed", [0, 1])
def test_what_a_batch_leaves_over_is_written_later(place: Place, server: DynamoServer, processed: int) -> None:
    base = place.committed(place.born(), add(*(new_file(f"f{each}") for each in range(MANY))))
    server.leave_over(processed=processed, times=6)
    place.store().publish(base, run_ended=True)
    check_items(place, server)


@pytest.mark.parametrize("fault", ["throttled", "left over"])
def test_a_table_that_stays_busy_keeps_nobody_from_publishing(
    place: Place, server: DynamoServer, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    base = place.committed(place.born(), add(*(new_file(f"f{each}") for each in range(MANY))))
    if fault == "throttled":
        server.fail("BatchWriteItem", code="ProvisionedThroughputExceededException", times=ALWAYS)
    else:
        server.leave_over(processed=0, times=ALWAYS)
    with caplog.at_level(logging.WARNING):
        place.store().publish(base, run_ended=True)
    assert "file entries are not in the DynamoDB table yet" in caplog.text
    assert named(place)
    assert not any(copy.whole for copy in kept(place).values())
    assert [file.id for file in place.lake.stream("t", "s").snapshot().files] == place.listed()
    server.calm()
    place.store().publish(place.committed(base, add(new_file("last"))), run_ended=True)
    check_items(place, server)


def test_a_writer_that_may_not_is_told_which_setting_asks_for_it(place: Place, server: DynamoServer) -> None:
    base = place.committed(place.born(), add(*(new_file(f"f{each}") for each in range(MANY))))
    server.fail("BatchWriteItem", code="AccessDeniedException", message="not authorized: dynamodb:BatchWriteItem")
    with pytest.raises(AccessDeniedError, match=r"set dynamodb_query_items to false.*dynamodb:BatchWriteItem"):
        place.store().publish(base, run_ended=True)
    place.store().publish(base, run_ended=True)
    check_items(place, server)


def test_segments_without_items_get_them_a_few_at_a_time_and_the_newest_first(
    place: Place, server: DynamoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = filled(place, MANY)
    segments, table = named(place), Table(server, place)
    assert len(segments) >= 3
    for row in table.registered():
        table.delete(row)
    monkeypatch.setattr(items, "_AT_ONCE", 1)
    for turn in range(1, len(segments) + 1):
        copies = items_of(place)
        copies.keep(segments, lambda segment: loaded.manifest.files_from(segment.offset, segment.end))
        assert kept(place).keys() == {segment.name for segment in segments[-turn:]}
    check_items(place, server)


def test_a_segment_that_cannot_be_read_has_no_items_and_stops_nobody(place: Place, server: DynamoServer) -> None:
    base = filled(place, MANY)
    table, first = Table(server, place), named(place)[0]
    for row in [*table.rows(first.name), *table.registered()]:
        table.delete(row)
    place.storage.delete(f"{SEGMENTS}{first.name}.json.gz")
    place.store().publish(place.committed(base, add(new_file("last"))), run_ended=True)
    assert first.name not in kept(place)
    assert first in named(place)


def test_an_entry_that_is_too_large_for_an_item_is_read_from_its_segment(
    place: Place, server: DynamoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "LARGEST_BODY", 10)
    loaded = filled(place, MANY)
    table = Table(server, place)
    assert not any("body" in row for segment in named(place) for row in table.rows(segment.name))
    state = place.lake.stream("t", "s").snapshot()
    assert list(state.files) == list(loaded.manifest.files)
    assert list(state.files_from(4, 9)) == list(loaded.manifest.files_from(4, 9))


def test_reads_give_up_soon_where_the_table_does_not_answer(place: Place, server: DynamoServer) -> None:
    filled(place, MANY)
    copies = items_of(place)
    server.fail("Query", code="ThrottlingException", times=ALWAYS)
    before = place.clock.seconds
    assert copies.text(named(place)[0]) is None
    assert place.clock.seconds - before <= 3
    server.requests()
    assert copies.touching(named(place)[0], 1, 2) is None
    assert operations(server) == []
    server.calm()
    place.clock.sleep(61)
    assert copies.text(named(place)[0]) is not None
    server.fail("Query", code="ThrottlingException", times=ALWAYS)
    with pytest.raises(StorageUnavailableError):
        copies.kept()
