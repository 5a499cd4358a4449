"""Erasing records with attached files at every manifest store: the object of the last record that had it goes."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest

from singerlake.errors import StorageUnavailableError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.state.attached_objects import objects_in
from singerlake.upkeep.drop import drop_stream
from singerlake.upkeep.erase.erase import Erased, erase_messages
from singerlake.upkeep.erase.find import find_traces
from singerlake.upkeep.erase.match import OfRun
from singerlake.upkeep.gc.apply import Collected, collect_now
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.work.engine import Threads
from tests.attached import lakes
from tests.attached.lakes import attach
from tests.stores.stores import KINDS, ON_THE_LAKE, Place, make_place
from tests.upkeep.attached.photos import THREE, a_record, add, begun, check, digest, key, retired, stored
from tests.upkeep.erase.erasing import erase, erase_alone, where
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import Killed, at, kill_at, unanswered
from tests.upkeep.vacuum.test_stores import messages, vacuum

pytestmark = pytest.mark.in_turn("place")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


def erase_now(place: Place, *numbers: int) -> tuple[Erased, Collected]:
    """As ``singerlake erase --now``."""
    done = erase(place, *numbers)
    held = frozenset(trace.id for trace in done.left if trace.id is not None)
    return done, collect_now(place.context(), held | done.objects)


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


def test_without_a_change_it_says_the_same(place: Place) -> None:
    begun(place)
    for numbers in ((0,), (0, 1), (0, 3), (2,), (4,), (0, 1, 3, 4)):
        told = erase(place, *numbers, dry_run=True)
        assert (told.unowned, place.state().retired) == ((), [])
        wanted = {name for at in numbers for name in THREE[at] if name is not None}
        left = {name for at, names in enumerate(THREE) for name in names if at not in numbers}
        assert told.objects == {digest(name) for name in wanted - left}
        assert told.attached.files == len(wanted - left)
    made = erase(place, 0, 1, 3, 4)
    assert (told.attached, told.objects) == (made.attached, made.objects)


def test_it_is_deleted_with_the_file_that_held_the_record(place: Place) -> None:
    before = begun(place)
    erase(place, 1, 4)
    assert stored(place) == ["a", "b", "c", "d"]
    collect(place)
    assert retired(place) == {"b": "shown", "d": "shown"}
    days(place, 6.9)
    assert collect(place).deleted.files == 0
    days(place, 0.2)
    done = collect(place)
    assert (done.deleted.files, done.deleted_attached.files, done.deleted_attached.bytes) == (4, 2, 2)
    assert [layout.is_attached_key(gone) for gone in done.keys] == [False, False, True, True]
    assert stored(place) == ["a", "c"]
    days(place, 7.1)
    assert len(collect(place).plan.forgotten) == 4
    assert (retired(place), place.state().retired) == ({}, [])
    check(place, THREE, 1, 4)
    assert len(before.files) == len(place.state().files)


def test_a_photo_that_could_not_be_read_is_erased_with_its_record(place: Place) -> None:
    begun(place, [[None], ["a"]])
    assert erase(place, 0).attached.files == 0
    check(place, [[None], ["a"]], 0)
    assert retired(place) == {}


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


def test_at_once_the_objects_of_what_was_erased_go_and_no_others(place: Place) -> None:
    begun(place)
    erase(place, 4)
    done, collected = erase_now(place, 0, 1)
    assert (done.objects, unowned(done)) == ({digest("b")}, {"b": True, "d": True})
    assert key("b") in collected.keys
    assert (collected.deleted_attached.files, len(collected.keys)) == (1, 2)
    assert stored(place) == ["a", "c", "d"]
    assert retired(place) == {"b": "deleted", "d": "retired"}
    check(place, THREE, 0, 1, 4)


def test_at_once_what_was_erased_before_goes_too(place: Place) -> None:
    """Of a run that was killed before it deleted anything, by the rows of the file that held the record."""
    begun(place)
    vacuum(place)
    erase(place, 1, 4)
    erase(place, 3)
    done, collected = erase_now(place, 1)
    assert (done.records, done.attached.files, done.objects) == (0, 0, {digest("b")})
    assert set(done.objects) == {digest("b")}
    assert key("b") in collected.keys
    assert stored(place) == ["a", "c", "d"]
    assert retired(place) == {"b": "deleted", "c": "retired", "d": "retired"}


def test_at_once_an_object_that_is_listed_again_stays(place: Place) -> None:
    begun(place)
    done = erase(place, 1)
    base = place.store().load()
    assert base is not None
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


def test_the_messages_of_a_run_go_with_their_photos(place: Place) -> None:
    begun(place)
    vacuum(place)
    done = erase_messages(place.context(), OfRun("a-test-run"), who="kim", dry_run=True)
    assert (done.messages, done.attached.files) == (6, 4)
    done = erase_messages(place.context(), OfRun("a-test-run"), who="kim", dry_run=False)
    assert (done.messages, done.attached.files, len(done.objects)) == (6, 4, 4)
    check(place, THREE, *range(6))
    assert set(retired(place)) == set("abcd")


# What is left, and traces


def traces(place: Place, *numbers: int) -> dict[str, str]:
    """What ``singerlake verify --erased`` finds, by the end of the key."""
    engine = Threads(place.storage, 1)
    found = list(find_traces(place.storage, "t", "s", where(*numbers), engine, place.state))
    assert {each.kind for each in found} <= {"erased"}
    return {each.key.rpartition("/")[2]: each.message for each in found}


def test_a_photo_that_no_record_has_is_a_trace_and_a_listed_one_is_none(place: Place) -> None:
    begun(place)
    assert traces(place, 99) == {}
    assert len(traces(place, 1)) == 1
    erase(place, 1)
    place.storage.put(key("h"), b"h")
    add(place, [["e"]])
    found = traces(place, 99)
    assert "'singerlake gc --delete' deletes it after a grace time" in found.pop(digest("b"))
    assert "'singerlake gc --orphans --delete'" in found.pop(digest("h"))
    assert found == {}
    assert unowned(erase(place, 99)) == {"b": True, "h": False}
    for _ in range(3):
        collect(place, orphans=True)
        days(place, 8)
        add(place, [["e"]])
    collect(place, orphans=True)
    assert traces(place, 1) == {}
    assert unowned(erase(place, 1)) == {}


def test_a_rebuild_leaves_no_photo_behind_that_nobody_can_collect(place: Place) -> None:
    begun(place)
    erase(place, 1)
    days(place, 1)
    repair_stream(place.context(), RepairOptions(discard=True))
    check(place, THREE, 1)
    assert retired(place) == {"b": "retired"}
    assert unowned(erase(place, 1)) == {"b": True}
    add(place, [["e"]])
    for _ in range(3):
        days(place, 8)
        add(place, [["e"]])
        collect(place)
    assert stored(place) == ["a", "c", "d", "e"]
    check(place, [*THREE, *[["e"]] * 4], 1)


# Beside others, and with faults


@pytest.mark.crossed("kind", "other")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.parametrize("other", ["vacuum", "add", "collect", "rebuild", "drop"])
def test_whoever_comes_at_any_step_of_an_erasure_the_photos_are_right(kind: str, other: str) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place)
        acts = {
            "vacuum": lambda place=place: vacuum(place),
            "add": lambda place=place: add(place, [["b"], ["e"]]),
            "collect": lambda place=place: (collect(place), days(place, 8), collect(place)),
            "rebuild": lambda place=place: repair_stream(place.context(), RepairOptions(discard=True)),
            "drop": lambda place=place: drop_stream(place.context(), dry_run=False),
        }
        met = at(place, number, acts[other])
        erase_alone(place, 1, 3)
        place.storage.hook = lambda _: None
        if not met:
            break
        if other == "drop":
            assert place.state().files == []
            assert set(retired(place)) == set("abcd")
            continue
        photos = [*THREE, ["b"], ["e"]] if other == "add" else THREE
        check(place, photos, 1, 3)
        listed = {name[:64] for name in objects_in(place.state().files)}
        assert listed == {
            digest(name) for at, names in enumerate(photos) for name in names if name and at not in (1, 3)
        }
        for _ in range(4):
            days(place, 8)
            add(place, [[]])
            collect(place, orphans=True)
        assert {name.rstrip("'") for name in stored(place)} == {"a", "d", *("be" if other == "add" else "")}
    assert number > 5


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
