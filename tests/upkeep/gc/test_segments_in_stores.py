"""Segments that no state names any more go in every store, and no other ones do."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest

from singerlake.format import layout
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import named_in
from singerlake.upkeep.gc.segments import CollectedSegments, collect_segments
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.segments.sizes import few_files_make_segments  # noqa: F401
from tests.stores.stores import KINDS, ON_THE_LAKE, Place, make_place

GRACE = timedelta(days=7)
KEY = layout.manifest_key("t", "s")
PREFIX = layout.segments_prefix("t", "s")
LOOKS = 3
"""Of a collector, a grace time apart each, until what was written a grace time ago is gone."""


def filled(place: Place, *counts: int) -> None:
    """Files of as many runs, each of which publishes."""
    base = place.born()
    made = 0
    for files in counts:
        base = place.committed(base, add(*(new_file(f"f{made + each}") for each in range(files))))
        place.store().publish(base, run_ended=True)
        made += files


def names(place: Place) -> set[str]:
    found = (layout.segment_name_in(entry.key[len(PREFIX) :]) for entry in place.storage.list(PREFIX))
    return {name for name in found if name is not None}


def named(place: Place, key: str = KEY) -> set[str]:
    stored = place.storage.get(key)
    assert stored is not None
    return {segment.name for segment in named_in(stored.body)}


def collect(place: Place, *, delete: bool = True) -> CollectedSegments:
    return collect_segments(SegmentObjects(place.storage, "t", "s"), time=place.clock.now, grace=GRACE, delete=delete)


def looked(place: Place, times: int) -> None:
    for _ in range(times):
        place.clock.sleep(GRACE.total_seconds())
        collect(place)


@pytest.mark.parametrize("kind", KINDS)
def test_what_no_state_names_goes_and_the_stream_stays(kind: str, request: pytest.FixtureRequest) -> None:
    place = make_place(kind, request)
    filled(place, 5, 5, 5)
    old = names(place) - named(place)
    assert old, "nothing was written anew"
    looked(place, LOOKS - 1)
    assert old <= names(place)
    place.clock.sleep(GRACE.total_seconds())
    before = {entry.key: entry.etag for entry in place.storage.list("")}
    due = collect(place, delete=False)
    assert {entry.key: entry.etag for entry in place.storage.list("")} == before
    assert collect(place) == due
    assert set(due.keys) == {layout.segment_key("t", "s", name) for name in old}
    assert names(place) == named(place)
    assert len(place.listed()) == 15
    assert collect(place) == CollectedSegments()


@pytest.mark.parametrize("kind", ["log", "dynamodb"])
def test_what_a_snapshot_of_the_log_names_stays(kind: str, request: pytest.FixtureRequest) -> None:
    place = make_place(kind, request)
    filled(place, 5)
    place.store().trim(keep=0, dry_run=False)
    [snapshot] = [entry.key for entry in place.storage.list(layout.log_prefix("t", "s")) if "snapshot" in entry.key]
    kept = named(place, snapshot)
    base = place.loaded()
    place.store().publish(place.committed(base, add(*(new_file(f"g{each}") for each in range(5)))), run_ended=True)
    looked(place, 2 * LOOKS)
    assert kept | named(place) <= names(place)
    place.storage.delete(KEY)
    assert len(place.listed()) == 10


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_one_that_is_killed_at_any_step_is_ended_by_the_next(kind: str, request: pytest.FixtureRequest) -> None:
    for stop in range(60):
        place = make_place(kind, request)
        filled(place, 5, 5)
        looked(place, LOOKS - 1)
        place.clock.sleep(GRACE.total_seconds())
        steps = count()

        def die(_: Step, steps: count[int] = steps, stop: int = stop) -> None:
            if next(steps) == stop:
                raise KeyboardInterrupt

        place.storage.hook = die
        try:
            collect(place)
        except KeyboardInterrupt:
            place.storage.hook = lambda _: None
            collect(place)
            assert names(place) == named(place)
            assert len(place.listed()) == 10
            continue
        return
    raise AssertionError("it never ended")
