"""Erasing while vacuums, writers, collectors, rebuilds, drops and migrations are at work on the same stream."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.errors import ForeignManifestError, LostBookmarkError, StreamClosedError
from singerlake.format import layout
from singerlake.format.lines.holes import HOLE
from singerlake.format.state.bookmark import Bookmark
from singerlake.maintenance.engines.engine import Threads
from singerlake.maintenance.erase.erase_stream import Erased
from singerlake.maintenance.rebuild.repair_stream import RepairOptions, repair_stream
from tests.maintenance.erase.erasing import check, erase, holders, place_of, read, with_holes
from tests.maintenance.gc.test_stores import collect, days, is_there
from tests.maintenance.migrate.moving import LAKE_PAIRS, PAIRS, a_file, content, lives_in, migrate, newest, writer_of
from tests.maintenance.test_drop_stream import at, drop, is_empty
from tests.maintenance.vacuum.test_stores import PREFIX, add, begun, is_sound, messages, once, vacuum
from tests.manifests.stores import KINDS, ON_THE_LAKE, Place

pytestmark = pytest.mark.in_turn("place")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return place_of(request.param, request)


def erase_alone(place: Place, *numbers: int) -> Erased:
    """With one thread, whose steps can be counted."""
    return erase(place, *numbers, engine=Threads(place.storage, 1))


def data_files(place: Place) -> set[str]:
    paths = {entry.key.removeprefix(PREFIX) for entry in place.storage.list(PREFIX)}
    return {path for path in paths if path.endswith(layout.SUFFIX)}


def at_every_step(begin: Callable[[], Place], act: Callable[[Place], object], after: Callable[[Place], None]) -> int:
    """Erase message 1 from a new stream for each step that this takes, with ``act`` at that step; how many there
    are."""
    for number in itertools.count():
        place = begin()
        met = at(place, number, lambda place=place: act(place))  # type: ignore[misc]
        erase_alone(place, 1)
        place.storage.hook = lambda _: None
        if not met:
            return number
        after(place)
    raise AssertionError


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


# Writers


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_writer_that_commits_at_any_step_loses_nothing_but_what_is_meant(kind: str, tmp_path: Path) -> None:
    kept = gone = 0
    for number in itertools.count():
        place = Place(kind)
        begun(place, 2)
        text = messages(place)
        writer = writer_of(place)
        writer.open()
        # A file of one record, which is meant, too.
        upload = a_file(place, tmp_path)
        met = at(place, number, lambda: writer.publish(upload.spool, upload.file, upload.schema))  # noqa: B023
        done = erase_alone(place, 1)
        place.storage.hook = lambda _: None
        if not met:
            break
        found = messages(place)
        assert found[:8] == with_holes(text, 1), number
        assert len(found) == 9
        assert done.records == sum(file.erased for file in place.state().files), number
        assert is_sound(place)
        kept, gone = kept + (found[8] != HOLE[:-1]), gone + (found[8] == HOLE[:-1])
        writer.finish()
        erase(place, 1)
        assert messages(place)[8] == HOLE[:-1], number
    # It comes too late for the erasure, or in time.
    assert kept
    assert gone


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_an_erasure_at_any_step_of_a_writer_hinders_it_nowhere(kind: str, tmp_path: Path) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place, 2)
        text = messages(place)
        writer = writer_of(place)
        writer.open()
        upload = a_file(place, tmp_path)
        met = at(place, number, lambda place=place: erase(place, 2))
        writer.publish(upload.spool, upload.file, upload.schema)
        place.storage.hook = lambda _: None
        if not met:
            break
        assert upload.file.id in place.state().by_id, number
        assert messages(place)[:8] == with_holes(text, 2), number
        assert is_sound(place), number


# Collection


@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.in_turn("kind")
def test_a_collector_at_any_step_does_no_harm(kind: str) -> None:
    def begin() -> Place:
        place = Place(kind)
        begun(place, 3)
        vacuum(place)
        collect(place)
        days(place, 8)
        return place

    text = messages(begin())

    def after(place: Place) -> None:
        check(place, text, 1)
        for _ in range(4):
            days(place, 8)
            collect(place, orphans=True)
        assert holders(place, 1) == []
        check(place, text, 1)

    assert at_every_step(begin, lambda place: collect(place, orphans=True), after) > 5


def test_nothing_is_deleted_whose_replacement_with_holes_is_not_whole(place: Place) -> None:
    before = begun(place, 2)
    erase(place, 1)
    collect(place)
    days(place, 8)
    (file, _) = place.state().files
    place.storage.put(PREFIX + file.path, b"x" * file.bytes)
    done = collect(place)
    assert [finding.kind for finding in done.findings] == ["differs"]
    assert is_there(place, before.files[0])


# Rebuild


@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.in_turn("kind")
def test_a_rebuild_at_any_step_brings_nothing_back(kind: str) -> None:
    def begin() -> Place:
        place = Place(kind)
        begun(place, 3)
        return place

    text = messages(begin())

    def act(place: Place) -> None:
        repair_stream(place.context(), RepairOptions(discard=True))

    assert at_every_step(begin, act, lambda place: check(place, text, 1)) > 5


# Drop


def test_what_was_erased_stays_erased_after_a_drop_and_a_rebuild(place: Place) -> None:
    begun(place)
    text = messages(place)
    erase(place, 1, 9)
    drop(place)
    assert is_empty(place.state())
    assert place.state().format == 1
    told = erase(place, 1)
    assert (told.records, [trace.records for trace in told.left]) == (0, [1])
    repair_stream(place.context(), RepairOptions(discard=True))
    loaded = place.store().load()
    assert loaded is not None
    place.store().publish(loaded, run_ended=True)
    check(place, text, 1, 9)


def test_a_stream_that_begins_anew_after_a_drop_is_erased_from(place: Place) -> None:
    before = begun(place, 2)
    erase(place, 1)
    drop(place)
    add(place, 2)
    text = messages(place)
    erase(place, 2)
    check(place, text, 2)
    stream = place.lake.stream("t", "s")
    with pytest.raises(LostBookmarkError):
        stream.resume(stream.snapshot(), Bookmark(lineage=before.lineage, offset=2, file=before.files[0].id, line=2))


@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.in_turn("kind")
def test_a_drop_at_any_step_takes_all(kind: str) -> None:
    def begin() -> Place:
        place = Place(kind)
        begun(place, 2)
        return place

    def after(place: Place) -> None:
        assert is_empty(place.state())
        assert is_sound(place)
        for _ in range(3):
            days(place, 8)
            collect(place, orphans=True)
        assert data_files(place) == set()

    assert at_every_step(begin, drop, after) > 5


# Migration


@pytest.mark.crossed("source", "target")
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_stream_with_holes_is_moved_as_it_is(source: str, target: str, request: pytest.FixtureRequest) -> None:
    place = lives_in(source, target, request=request)
    begun(place)
    text = messages(place)
    erase(place, 1)
    before = place.state()
    migrate(place, target)
    after = newest(place)
    assert (after.store, after.format, content(after)) == (target, 2, content(before))
    place.kind = target
    assert place.state() == after
    check(place, text, 1)
    erase(place, 2, 9)
    vacuum(place)
    erase(place, 10)
    check(place, text, 1, 2, 9, 10)
    assert [offset for offset, _ in read(place.lake)] == [n for n in range(20) if n not in (1, 2, 9, 10)]


@pytest.mark.crossed("source", "target")
@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_a_migration_at_any_step_stops_an_erasure_and_a_new_one_ends_it(
    source: str, target: str, request: pytest.FixtureRequest
) -> None:
    stopped = 0
    for number in itertools.count():
        place = lives_in(source, target, request=request)
        begun(place, 3)
        text = messages(place)
        met = at(place, number, lambda place=place: migrate(place, target))
        try:
            erase_alone(place, 1, 9)
        except (StreamClosedError, ForeignManifestError):
            # The old store says where the stream goes on, or has nothing of it any more.
            stopped += 1
        place.storage.hook = lambda _: None
        if not met:
            break
        place.kind = target
        erase(place, 1, 9)
        check(place, text, 1, 9)
    assert stopped
