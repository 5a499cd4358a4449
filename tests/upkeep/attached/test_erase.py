"""Erasing records with attached files at every manifest store: the object of the last record that had it goes."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest

from singerlake.errors import StorageUnavailableError, UnknownOutcomeError
from singerlake.upkeep.erase.erase import Erased
from singerlake.upkeep.erase.find import find_traces
from singerlake.upkeep.gc.apply import collect_now
from singerlake.work.engine import Threads
from tests.attached import lakes
from tests.attached.lakes import attach
from tests.stores.stores import ON_THE_LAKE, Place
from tests.upkeep.attached.photos import THREE, a_record, add, begun, check, digest, retired, stored
from tests.upkeep.erase.erasing import erase, erase_alone, where
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import Killed, kill_at, unanswered
from tests.upkeep.vacuum.test_stores import messages

pytestmark = pytest.mark.in_turn("place")


def unowned(done: Erased) -> dict[str, bool]:
    """The photos that no record has, by the first letters of their checksums; whether they are retired."""
    names = {digest(name): name for name in "abcdefgh"}
    found = {each.key.rpartition("/")[2]: each.id is not None for each in done.unowned}
    return {names[name[:64]] + name[64:]: is_retired for name, is_retired in found.items()}


def test_the_object_of_an_erased_record_is_retired_and_one_that_another_shares_stays(place: Place) -> None:
    begun(place)
    done = erase(place, 0, 1)
    check(place, THREE, 0, 1)
    assert retired(place) == {"b": "retired"}
    assert (done.records, done.attached.files, done.attached.bytes) == (2, 1, 1)
    assert (done.objects, unowned(done)) == ({digest("b")}, {"b": True})
    again = erase(place, 3)
    check(place, THREE, 0, 1, 3)
    assert retired(place) == dict.fromkeys("abc", "retired")
    assert (again.attached.files, again.objects) == (2, {digest("a"), digest("c")})
    assert unowned(again) == dict.fromkeys("abc", True)


def test_a_writer_that_has_the_bytes_again_makes_a_copy_while_the_first_is_collected(place: Place) -> None:
    begun(place)
    erase(place, 1)
    photos = [*THREE, ["b"]]
    add(place, [["b"]])
    assert stored(place) == ["a", "b", "b'", "c", "d"]
    (row,) = place.state().files[-1].attached
    assert (row.sha256, row.copy) == (digest("b"), 2)
    for _ in range(2):
        collect(place)
        days(place, 8)
    assert stored(place) == ["a", "b'", "c", "d"]
    check(place, photos, 1)
    assert retired(place) == {"b": "deleted"}
    collect(place)
    add(place, [["b"]])
    assert place.state().files[-1].attached[0].copy == 1
    assert stored(place) == ["a", "b", "b'", "c", "d"]
    check(place, [*photos, ["b"]], 1)


def test_at_once_an_object_that_is_listed_again_stays(place: Place) -> None:
    begun(place)
    done = erase(place, 1)
    base = place.loaded()
    (gone,) = [file for file in base.manifest.retired if file.id == digest("b")]
    assert gone.path.endswith(digest("b"))
    again(place, "b")
    collected = collect_now(place.context(), frozenset({digest("b")} | {each.id for each in done.left if each.id}))
    assert collected.deleted_attached.files == 0
    assert stored(place) == ["a", "b", "c", "d"]
    check(place, [*THREE, ["b"]], 1)


def again(place: Place, name: str) -> None:
    """A writer commits a record with the first copy of a photo, which it found on storage before it was retired."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lakes, "free_copy", lambda *_: 1)
        attach(place.lake, "t", "s", [[name.encode()]], first_id=place.state().next_offset, line=a_record)


# What is left, and traces


def traces(place: Place, *numbers: int) -> dict[str, str]:
    """What ``singerlake verify --erased`` finds, by the end of the key."""
    engine = Threads(place.storage, 1)
    found = list(find_traces(place.storage, "t", "s", where(*numbers), engine, place.state))
    assert {each.kind for each in found} <= {"erased"}
    return {each.key.rpartition("/")[2]: each.message for each in found}


# Beside others, and with faults


def ended(place: Place) -> None:
    """Another erasure ends what one began, and only what was erased is gone."""
    place.storage.hook = lambda _: None
    erase(place, 1, 3)
    check(place, THREE, 1, 3)
    assert set(retired(place)) == {"b", "c"}
    assert messages(place)[1] == messages(place)[3]


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_an_erasure_that_is_killed_at_any_step_is_ended_by_another(kind: str) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place)
        kill_at(place, number)
        try:
            erase_alone(place, 1, 3)
        except Killed:
            ended(place)
            continue
        break
    assert number > 10


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.parametrize("finished", [False, True])
def test_a_request_without_an_answer_loses_no_photo(kind: str, finished: bool) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place)
        failed = unanswered(place, number, "put", finished=finished)
        with suppress(UnknownOutcomeError, StorageUnavailableError):
            erase_alone(place, 1, 3)
        if not failed:
            break
        ended(place)
    assert number > 1
