"""Dropping streams with attached files at every manifest store."""

from __future__ import annotations

import itertools

import pytest

from singerlake.format.state.features import features_of
from singerlake.upkeep.drop import delete_now
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.stores.stores import KINDS, ON_THE_LAKE, Place, make_place
from tests.upkeep.attached.photos import add, begun, check, digest, key, retired, stored, told, whole
from tests.upkeep.erase.erasing import erase
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import at
from tests.upkeep.test_drop_stream import drop
from tests.upkeep.vacuum.test_stores import PREFIX, is_sound, vacuum

pytestmark = pytest.mark.in_turn("place")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


def test_all_photos_go_listed_or_not(place: Place) -> None:
    begun(place)
    erase(place, 1)
    vacuum(place)
    place.storage.put(key("h"), b"h")
    dry = drop(place, dry_run=True)
    done = drop(place)
    assert (done.attached, done.keys, done.left) == (dry.attached, dry.keys, ())
    assert (done.attached.files, done.attached.bytes) == (5, 5)
    assert {key(name) for name in "abcdh"} < set(done.keys)
    assert retired(place) == dict.fromkeys("abcdh", "retired")
    assert is_sound(place)
    state = place.state()
    assert (features_of(state), state.files) == (("attached",), [])
    for _ in range(2):
        collected = collect(place)
        days(place, 8)
    assert collected.deleted_attached.files == 5
    assert stored(place) == []
    days(place, 8)
    collect(place)
    assert retired(place) == {}


def test_how_far_the_collection_of_a_photo_was_stays(place: Place) -> None:
    begun(place)
    erase(place, 1)
    collect(place)
    days(place, 8)
    collect(place)
    drop(place)
    assert retired(place) == {"a": "retired", "b": "deleted", "c": "retired", "d": "retired"}


def test_at_once_they_are_gone(place: Place) -> None:
    begun(place)
    drop(place)
    done = delete_now(place.context())
    assert done.deleted_attached.files == 4
    assert {key(name) for name in "abcd"} < set(done.keys)
    assert stored(place) == []


def test_a_stream_that_begins_anew_has_photos_of_its_own(place: Place) -> None:
    begun(place)
    drop(place)
    add(place, [["a"], ["e"]])
    assert stored(place) == ["a", "a'", "b", "c", "d", "e"]
    check(place, [["a"], ["e"]])
    delete_now(place.context())
    assert stored(place) == ["a'", "e"]
    check(place, [["a"], ["e"]])
    drop(place)
    delete_now(place.context())
    assert stored(place) == []


def test_a_rebuild_before_they_are_collected_lists_them_again(place: Place) -> None:
    begun(place)
    erase(place, 1)
    drop(place)
    repair_stream(place.context(), RepairOptions(discard=True))
    assert sorted(map(str, told(place.state()).values())) == sorted(
        map(str, [[digest("a")], [digest("a"), digest("c")], [digest("d"), None]])
    )
    for _ in range(4):
        days(place, 8)
        collect(place)
    # The photo of the erased record is collected, the others are in use again.
    assert stored(place) == ["a", "c", "d"]
    assert retired(place) == {}


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.parametrize("other", ["vacuum", "add", "erase"])
def test_whoever_comes_at_any_step_of_a_drop_no_photo_is_lost_sight_of(kind: str, other: str) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place)
        acts = {
            "vacuum": lambda place=place: vacuum(place),
            "add": lambda place=place: add(place, [["b"], ["e"]]),
            "erase": lambda place=place: erase(place, 1),
        }
        met = at(place, number, acts[other])
        drop(place)
        place.storage.hook = lambda _: None
        if not met:
            break
        assert whole(place) == []
        state = place.state()
        listed = {row.path() for file in state.files for row in file.attached}
        for _ in range(3):
            collect(place)
            days(place, 8)
        left = {key(name[0], len(name)).removeprefix(PREFIX) for name in stored(place)}
        assert left == listed
    assert number > 5
