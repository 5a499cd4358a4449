"""Items go behind the segment they are of, half-written ones in two looks, and never any that somebody reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from singerlake.stores.segments.objects import SegmentCopy
from singerlake.upkeep.drop import delete_now, drop_stream
from singerlake.upkeep.gc.segments import CollectedSegments, collect_segments
from singerlake.upkeep.migrate import migrate_stream
from tests.format.state.test_fold import add, new_file
from tests.servers.dynamodb import DynamoServer
from tests.stores.dynamodb.items.places import (
    SEGMENTS,
    Table,
    filled,
    items_of,
    kept,
    named,
    store_of,
    without_items,
)
from tests.stores.dynamodb.items.test_writing import hooked
from tests.stores.stores import Place

GRACE = timedelta(days=7)


def collect(place: Place, *, delete: bool = True) -> CollectedSegments:
    return collect_segments(store_of(place).segments, time=place.clock.now, grace=GRACE, delete=delete)


def look(place: Place) -> CollectedSegments:
    place.clock.sleep(GRACE.total_seconds())
    return collect(place)


def superseded(place: Place) -> set[str]:
    """Names of segments that no state names any more, and that have items."""
    base = filled(place, 5)
    filled(place, 5, base)
    old = kept(place).keys() - {segment.name for segment in named(place)}
    assert old
    return old


def test_items_are_there_as_long_as_their_segment_and_go_with_it(place: Place, server: DynamoServer) -> None:
    old, table = superseded(place), Table(server, place)
    for _ in range(2):
        assert look(place).copies == ()
        assert old <= kept(place).keys()
        assert all(table.rows(name) for name in old)
    place.clock.sleep(GRACE.total_seconds())
    due = collect(place, delete=False)
    assert set(due.copies) == old
    assert old <= kept(place).keys()
    assert collect(place) == due
    assert kept(place).keys() == {segment.name for segment in named(place)}
    assert not any(table.rows(name) for name in old)
    assert len(place.listed()) == 10
    assert collect(place) == CollectedSegments()


def test_a_collector_without_the_setting_does_the_same(place: Place) -> None:
    old, plain = superseded(place), without_items(place)
    for _ in range(3):
        found = look(plain)
    assert set(found.copies) == old


def test_the_object_goes_before_the_items(place: Place) -> None:
    old = superseded(place)
    look(place)
    look(place)
    place.clock.sleep(GRACE.total_seconds())
    seen: list[bool] = []
    there = lambda: {entry.key for entry in place.storage.list(SEGMENTS)}  # noqa: E731

    def watch(name: str, done: bool) -> None:
        if name == "batch_write_item" and not done:
            seen.append(any(f"{SEGMENTS}{each}.json.gz" in there() for each in old))

    collect_segments(hooked(place, watch).segments, time=place.clock.now, grace=GRACE, delete=True)
    assert seen
    assert not any(seen)


@pytest.mark.thorough
def test_a_collector_that_is_killed_at_any_step_is_ended_by_the_next(place: Place, server: DynamoServer) -> None:
    superseded(place)
    look(place)
    look(place)
    place.clock.sleep(GRACE.total_seconds())
    table, names = Table(server, place), set(kept(place))
    for stop in range(60):
        left = [stop]

        def die(name: str, done: bool, left: list[int] = left) -> None:
            del name, done
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt

        try:
            collect_segments(hooked(place, die).segments, time=place.clock.now, grace=GRACE, delete=True)
        except KeyboardInterrupt:
            assert len(place.listed()) == 10
            continue
        break
    # What lost its segment on the way is noted, and goes a grace time later.
    look(place)
    look(place)
    assert kept(place).keys() == {segment.name for segment in named(place)}
    assert {name for name in names if table.rows(name)} == kept(place).keys()


def test_what_was_written_half_and_lost_its_segment_goes_in_two_looks(place: Place, server: DynamoServer) -> None:
    filled(place, 5)
    table, name = Table(server, place), f"{0:020d}-00000000000000v7"
    copies = items_of(place)
    copies.note([SegmentCopy(name)])
    row = table.rows(named(place)[0].name)[0]
    table.put({**row, "table_id": {"S": f"{table.registry}@{name}"}})
    assert collect(place, delete=False).waiting_copies == 1
    assert kept(place)[name].noted == ""
    assert collect(place).copies == ()
    assert kept(place)[name].noted
    place.clock.sleep(GRACE.total_seconds() / 2)
    assert collect(place).waiting_copies == 1
    place.clock.sleep(GRACE.total_seconds() / 2)
    assert collect(place).copies == (name,)
    assert table.rows(name) == []
    assert name not in kept(place)


def test_items_of_what_a_state_names_stay_though_its_segment_is_gone(place: Place) -> None:
    filled(place, 5)
    first = named(place)[0]
    place.storage.delete(f"{SEGMENTS}{first.name}.json.gz")
    for _ in range(4):
        look(place)
    assert first.name in kept(place)


def test_a_foreign_item_is_left_alone(place: Place, server: DynamoServer) -> None:
    filled(place, 5)
    table = Table(server, place)
    foreign = [
        {"table_id": {"S": table.registry}, "number": {"N": number}, "segment": {"S": segment}}
        for number, segment in (("7", "not a name"), ("8", f"{0:020d}-0000000000000001"), ("1.5", "x"))
    ]
    for item in foreign:
        table.put(item)
    for _ in range(4):
        look(place)
    assert all(item in table.registered() for item in foreign)


def test_a_reader_between_two_ranges_reads_on_while_its_segments_are_collected(place: Place) -> None:
    base = filled(place, 5)
    state = place.lake.stream("t", "s").snapshot()
    expected = list(base.manifest.files)
    base = filled(place, 5, base)
    look(place)
    assert list(state.files_from(0, 4)) == expected[:2]
    look(place)
    # It ends within a grace time of its state; until then it has both.
    assert list(state.files_from(4, 9)) == expected[1:3]


def test_a_reader_whose_items_are_gone_reads_the_segment(place: Place) -> None:
    base = filled(place, 5)
    state = place.lake.stream("t", "s").snapshot()
    copies = items_of(place)
    copies.remove(list(kept(place).values()))
    assert kept(place) == {}
    assert list(state.files_from(4, 9)) == list(base.manifest.files)[1:3]


def test_a_stream_that_moves_away_leaves_no_items(place: Place, server: DynamoServer) -> None:
    base = filled(place, 5)
    table, names = Table(server, place), list(kept(place))
    migrate_stream(place.context(), place.store(kind="log"))
    assert kept(place) == {}
    assert not any(table.rows(name) for name in names)
    loaded = place.store(kind="log").load()
    assert loaded is not None
    assert list(loaded.manifest.files) == list(base.manifest.files)


def test_a_stream_that_comes_back_gets_them_again(place: Place) -> None:
    filled(place, 5)
    migrate_stream(place.context(), place.store(kind="log"))
    context = place.context()
    migrate_stream(replace(context, store=place.store(kind="log")), place.store())
    assert kept(place).keys() == {segment.name for segment in named(place)} != set()
    loaded = place.loaded()
    place.committed(loaded, add(new_file("after")))
    assert len(place.listed()) == 6


def test_a_stream_that_is_dropped_leaves_none(place: Place, server: DynamoServer) -> None:
    filled(place, 5)
    table, names = Table(server, place), list(kept(place))
    drop_stream(place.context(), dry_run=False)
    delete_now(place.context())
    assert kept(place) == {}
    assert not any(table.rows(name) for name in names)
