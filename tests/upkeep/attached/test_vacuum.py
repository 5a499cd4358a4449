"""Vacuuming streams with attached files at every manifest store."""

from __future__ import annotations

import itertools

import pytest

from singerlake.upkeep.drop import drop_stream
from tests.stores.stores import KINDS, ON_THE_LAKE, Place, make_place
from tests.upkeep.attached.photos import THREE, add, begun, check, retired, stored
from tests.upkeep.erase.erasing import erase
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import at
from tests.upkeep.vacuum.test_stores import messages, vacuum

pytestmark = pytest.mark.in_turn("place")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


def test_a_join_keeps_each_photo_with_its_record_and_retires_none(place: Place) -> None:
    begun(place)
    text = messages(place)
    done = vacuum(place)
    assert (done.into.files, done.findings) == (1, ())
    assert messages(place) == text
    check(place, THREE)
    assert retired(place) == {}
    assert stored(place) == ["a", "b", "c", "d"]


def test_what_was_joined_is_joined_again_with_files_that_came_since(place: Place) -> None:
    begun(place)
    vacuum(place)
    more = [["e"], ["a"], []]
    add(place, more, file_size=1)
    vacuum(place)
    (file,) = place.state().files
    assert file.messages == 9
    check(place, [*THREE, *more])


def test_vacuum_erasure_and_vacuum_in_turn_keep_the_right_photos(place: Place) -> None:
    begun(place)
    vacuum(place)
    erase(place, 0, 4)
    check(place, THREE, 0, 4)
    add(place, [["e"], ["b"]])
    vacuum(place)
    photos = [*THREE, ["e"], ["b"]]
    check(place, photos, 0, 4)
    erase(place, 3, 6)
    check(place, photos, 0, 3, 4, 6)
    assert set(retired(place)) == {"a", "c", "d", "e"}


def test_the_replaced_files_go_and_the_photos_stay(place: Place) -> None:
    begun(place)
    vacuum(place)
    for _ in range(4):
        collect(place, orphans=True)
        days(place, 8)
    assert stored(place) == ["a", "b", "c", "d"]
    check(place, THREE)


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.parametrize("other", ["erase", "add", "collect", "drop"])
def test_whoever_comes_at_any_step_of_a_vacuum_the_photos_are_right(kind: str, other: str) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place)
        acts = {
            "erase": lambda place=place: erase(place, 0, 3),
            "add": lambda place=place: add(place, [["e"], ["a"]]),
            "collect": lambda place=place: collect(place, orphans=True),
            "drop": lambda place=place: drop_stream(place.context(), dry_run=False),
        }
        met = at(place, number, acts[other])
        vacuum(place)
        place.storage.hook = lambda _: None
        if not met:
            break
        if other == "drop":
            assert set(retired(place)) == {"a", "b", "c", "d"}
            continue
        if other == "erase":
            check(place, THREE, 0, 3)
            assert retired(place) == {"a": "retired", "c": "retired"}
        else:
            check(place, [*THREE, ["e"], ["a"]] if other == "add" else THREE)
    assert number > 3
