"""Expiring messages with attached files at every manifest store."""

from __future__ import annotations

import itertools

import pytest

from singerlake.format.state.attached_objects import objects_in
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.gc.expire import Expired
from tests.stores.stores import KINDS, ON_THE_LAKE, Place, make_place
from tests.upkeep.attached.photos import THREE, add, begun, check, digest, key, retired, stored
from tests.upkeep.expire.expiring import expire
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import at
from tests.upkeep.vacuum.test_stores import PREFIX, vacuum

pytestmark = pytest.mark.in_turn("place")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


def alone(done: Expired) -> tuple[int, int]:
    return done.attached.files, done.attached.bytes


def test_the_photos_that_no_younger_record_has_are_retired(place: Place) -> None:
    before = begun(place)
    told = expire(place, 2, dry_run=True)
    done = expire(place, 2)
    check(place, THREE)
    assert (done.files, done.attached, done.ids, done.keys) == (told.files, told.attached, told.ids, told.keys)
    assert retired(place) == {"b": "retired"}
    assert alone(done) == (1, 1)
    assert done.ids == (before.files[0].id, digest("b"))
    assert done.keys == (PREFIX + before.files[0].path, key("b"))
    more = expire(place, 6)
    assert (alone(more), retired(place)) == ((3, 3), dict.fromkeys("abcd", "retired"))
    assert more.keys == (*(PREFIX + file.path for file in before.files[1:]), key("a"), key("c"), key("d"))


def test_they_are_deleted_behind_the_files_of_their_records(place: Place) -> None:
    begun(place)
    expire(place, 4)
    for _ in range(2):
        done = collect(place)
        days(place, 8)
    assert (done.deleted.files, done.deleted_attached.files) == (5, 3)
    assert [gone.endswith(".gz") for gone in done.keys] == [True, True, False, False, False]
    assert stored(place) == ["d"]
    check(place, THREE)


def test_at_once_they_go_with_the_files(place: Place) -> None:
    begun(place)
    vacuum(place)
    add(place, [["a"], ["e"]])
    expire(place, 8)
    add(place, [["f"], ["g"]])
    done = expire(place, 10)
    collected = collect_now(place.context(), frozenset(done.ids))
    assert {key("f"), key("g")} < set(collected.keys)
    assert collected.deleted_attached.files == 2
    assert stored(place) == ["a", "b", "c", "d", "e"]
    assert retired(place) == {**dict.fromkeys("abcde", "retired"), **dict.fromkeys("fg", "deleted")}


def test_what_a_later_file_brings_again_is_stored_again(place: Place) -> None:
    begun(place)
    expire(place, 6)
    add(place, [["a"]])
    assert stored(place) == ["a", "a'", "b", "c", "d"]
    for _ in range(4):
        collect(place)
        days(place, 8)
    assert stored(place) == ["a'"]
    check(place, [[]] * 6 + [["a"]])


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.parametrize("other", ["vacuum", "add"])
def test_whoever_comes_at_any_step_of_an_expiry_the_photos_are_right(kind: str, other: str) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place)
        acts = {"vacuum": lambda place=place: vacuum(place), "add": lambda place=place: add(place, [["b"]])}
        met = at(place, number, acts[other])
        done = expire(place, 2)
        place.storage.hook = lambda _: None
        if not met:
            break
        check(place, [*THREE, ["b"]] if other == "add" else THREE)
        state = place.state()
        gone = {name for name in done.ids if len(name) == 64}
        assert gone == {file.id for file in state.retired if len(file.id) == 64}
        assert done.attached.files == len(gone)
        assert len({name[:64] for name in objects_in(state.files)} | gone) == 4
    assert number > 3
