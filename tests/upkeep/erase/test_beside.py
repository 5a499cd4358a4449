"""Erasing while vacuums, other erasures and writers are at work on the same stream."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from singerlake.errors import UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.lines.holes import HOLE
from singerlake.format.state.transactions import RetireFiles
from singerlake.upkeep.erase.erase import Erased
from singerlake.upkeep.gc.apply import collect_now
from tests.storage.memory import Step
from tests.stores.stores import KINDS, ON_THE_LAKE, Place
from tests.upkeep.erase.erasing import (
    check,
    data_files,
    erase,
    erase_alone,
    holders,
    place_of,
    with_holes,
)
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import a_file, at, writer_of
from tests.upkeep.vacuum.test_stores import PREFIX, begun, is_sound, messages, once, vacuum

pytestmark = pytest.mark.in_turn("place")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return place_of(request.param, request)


# Vacuum


@pytest.mark.parametrize("done", [False, True], ids=["before the upload", "after it"])
def test_a_vacuum_between_look_and_commit_takes_the_records_along_and_they_are_found_there(
    place: Place, done: bool
) -> None:
    before = begun(place)
    text = messages(place)
    once(place, "upload", lambda: vacuum(place), done=done)
    erased = erase_alone(place, 1)
    place.storage.hook = lambda _: None
    (file,) = place.state().files
    check(place, text, 1)
    assert erased.records == 1
    # What was made for the file that the vacuum replaced is gone, and what was joined is retired.
    (joined,) = [gone for gone in place.state().retired if gone.by == file.id]
    assert data_files(place) == {file.path, joined.path, *(each.path for each in before.files)}
    assert {trace.id for trace in erased.left} == {before.files[0].id, joined.id}


@pytest.mark.parametrize("done", [False, True], ids=["before it is made", "after it"])
def test_an_erasure_between_a_vacuum_s_read_and_its_commit_stays(place: Place, done: bool) -> None:
    before = begun(place)
    text = messages(place)
    seen: list[Erased] = []
    once(place, "compose", lambda: seen.append(erase(place, 1)), done=done)
    vacuumed = vacuum(place)
    place.storage.hook = lambda _: None
    assert vacuumed.into.files == 0
    assert "the stream changed meanwhile" in vacuumed.findings[0].message
    check(place, text, 1)
    # The file that the vacuum made in vain holds the record, is listed nowhere, and is told of by those who look.
    (stray,) = data_files(place) - {each.path for each in (*place.state().files, *place.state().retired)}
    assert {trace.key.removeprefix(PREFIX) for trace in seen[0].left} == {
        before.files[0].path,
        *([stray] if done else []),
    }
    assert {trace.key.removeprefix(PREFIX) for trace in erase(place, 1).left} == {before.files[0].path, stray}
    vacuum(place)
    for _ in range(4):
        days(place, 8)
        collect(place, orphans=True)
    assert holders(place, 1) == []
    check(place, text, 1)


def test_of_two_erasures_at_once_both_take_effect(place: Place) -> None:
    begun(place)
    text = messages(place)
    once(place, "upload", lambda: erase(place, 2, 9), done=True)
    first = erase_alone(place, 1)
    place.storage.hook = lambda _: None
    check(place, text, 1, 2, 9)
    assert first.records == 1
    known = {each.path for each in (*place.state().files, *place.state().retired)}
    assert data_files(place) == known


def test_the_same_erasure_twice_at_once_erases_once(place: Place) -> None:
    begun(place)
    text = messages(place)
    seen: list[Erased] = []
    once(place, "upload", lambda: seen.append(erase(place, 1)), done=True)
    first = erase_alone(place, 1)
    place.storage.hook = lambda _: None
    assert (first.records, seen[0].records) == (0, 1)
    check(place, text, 1)


@pytest.mark.parametrize("operation", ["open", "beginning"], ids=["looked into", "written again"])
def test_a_file_that_others_replaced_and_removed_before_it_is(place: Place, operation: str) -> None:
    before = begun(place)
    text = messages(place)

    def replace_and_remove() -> None:
        vacuum(place)
        for file in before.files:
            place.storage.delete(PREFIX + file.path)

    once(place, operation, replace_and_remove)
    done = erase_alone(place, 1)
    place.storage.hook = lambda _: None
    assert (done.records, done.findings) == (1, ())
    check(place, text, 1)


def test_a_file_that_was_retired_before_it_was_committed_is_written_anew(place: Place) -> None:
    begun(place)
    text = messages(place)

    def sweep() -> None:
        known = {file.path for file in place.state().files}
        orphans = tuple((layout.file_id_in(path) or "", path) for path in data_files(place) - known)
        assert orphans
        loaded = place.loaded()
        place.committed(loaded, RetireFiles(files=orphans))

    once(place, "upload", sweep, done=True)
    done = erase_alone(place, 1)
    place.storage.hook = lambda _: None
    assert (done.records, done.findings) == (1, ())
    check(place, text, 1)
    assert data_files(place) == {
        *(file.path for file in place.state().files),
        *(file.path for file in place.state().retired if file.by is not None),
    }


@pytest.mark.parametrize("kind", ["lockfile", "merge"])
def test_where_storage_honours_no_conditions_the_stream_s_lock_is_held(kind: str) -> None:
    place = Place(kind, ignore_conditions=True)
    begun(place)
    text = messages(place)
    locked: list[str] = []
    place.storage.hook = lambda step: locked.append(step.key) if step.operation == "put" else None
    erase(place, 1, 9)
    place.storage.hook = lambda _: None
    assert (layout.stream_lock_key("t", "s") in locked) is place.store().exclusive
    check(place, text, 1, 9)


# Writers


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_writer_whose_file_is_erased_from_and_deleted_at_once_while_it_commits_knows_that_it_is_committed(
    kind: str, tmp_path: Path
) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place, 2)
        text = messages(place)
        writer = writer_of(place)
        writer.open()
        # A file of one record, which is meant, too.
        upload = a_file(place, tmp_path)

        def act(place: Place = place) -> None:
            collect_now(place.context(), {each.id for each in erase(place, 1).left if each.id is not None})

        met = at(place, number, act)
        writer.publish(upload.spool, upload.file, upload.schema)
        writer.finish()
        place.storage.hook = lambda _: None
        if not met:
            break
        found = messages(place)
        assert (found[:8], len(found)) == (with_holes(text, 1), 9), number
        assert is_sound(place), number
        state = place.state()
        assert (upload.file.id in state.by_id) != (upload.file.id in state.retired_by_id), number
    assert number > 5


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_commit_whose_reply_is_lost_is_not_made_again_after_its_file_was_deleted_at_once(
    kind: str, tmp_path: Path
) -> None:
    place = Place(kind)
    begun(place, 2)
    writer = writer_of(place)
    writer.open()
    upload = a_file(place, tmp_path)
    waiting = [True]

    def hook(step: Step) -> None:
        written = (step.operation, step.done) == ("put", True) and not step.key.endswith(layout.LOCK)
        if written and waiting and is_listed(place, upload.file.id):
            waiting.clear()
            collect_now(place.context(), {each.id for each in erase(place, 1).left if each.id is not None})
            raise UnknownOutcomeError("no answer", key=step.key)

    place.storage.hook = hook
    writer.publish(upload.spool, upload.file, upload.schema)
    writer.finish()
    place.storage.hook = lambda _: None
    assert not waiting
    found = messages(place)
    assert (len(found), found[8]) == (9, HOLE[:-1])
    assert is_sound(place)


def is_listed(place: Place, id: str) -> bool:
    hook, place.storage.hook = place.storage.hook, lambda _: None
    try:
        return id in place.state().by_id
    finally:
        place.storage.hook = hook
