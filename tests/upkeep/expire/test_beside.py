"""Expiring beside writers, vacuums, drops and collectors, at every step of them, and with faults at every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import SingerlakeError, TooManyConflictsError
from singerlake.format.metadata.retention import Retention
from singerlake.format.state.features import features_of
from singerlake.format.state.model import Manifest
from singerlake.upkeep.drop import drop_stream
from singerlake.upkeep.gc import expire as expiring
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.gc.expire import Cut, Expired, expire_messages
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.format.state.test_fold import add as files_of
from tests.format.state.test_fold import new_file
from tests.storage.memory import Step
from tests.stores.stores import KINDS, ON_THE_LAKE, Place, make_place
from tests.upkeep.expire.expiring import expire, messages, problems, published
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import Killed, a_file, at, kill_at, lives_in, migrate, unanswered, writer_of
from tests.upkeep.vacuum.test_stores import PREFIX, add, begun, vacuum


def damage(place: Place) -> list[str]:
    """What is wrong, but for a file that a vacuum made in vain."""
    return [found for found in problems(place) if "'unlisted'" not in found]


def calm(place: Place) -> None:
    place.storage.hook = lambda _: None


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_writer_that_commits_at_any_step_loses_nothing(kind: str, tmp_path: Path) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place, 3)
        text = messages(place)
        writer = writer_of(place)
        writer.open()
        upload = a_file(place, tmp_path)

        def publish(writer: Any = writer, upload: Any = upload) -> None:
            writer.publish(upload.spool, upload.file, upload.schema)

        met = at(place, number, publish)
        done = expire(place, 8)
        calm(place)
        if not met:
            break
        assert (done.files.files, done.floor) == (2, 8), number
        state = place.state()
        assert (state.floor, state.by_id[upload.file.id].offset) == (8, 12), (number, met)
        assert {offset: line for offset, line in messages(place).items() if offset < 12} == {
            offset: line for offset, line in text.items() if offset >= 8
        }
        assert problems(place) == []
    assert number > 3


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_an_expiry_at_any_step_of_a_writer_leaves_what_it_writes(kind: str, tmp_path: Path) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place, 3)
        writer = writer_of(place)
        writer.open()
        upload = a_file(place, tmp_path)
        met = at(place, number, lambda place=place: expire(place, 12))
        writer.publish(upload.spool, upload.file, upload.schema)
        calm(place)
        if not met:
            break
        state = place.state()
        assert (state.floor, state.next_offset, list(state.by_id)) == (12, 13, [upload.file.id]), (number, met)
        assert problems(place) == []
    assert number > 3


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_an_expiry_that_was_killed_at_any_step_is_whole_or_nothing_and_the_next_ends_it(kind: str) -> None:
    for number in itertools.count():
        place = Place(kind)
        before = begun(place, 3)
        kill_at(place, number)
        try:
            expire(place, 8)
        except Killed:
            calm(place)
        else:
            calm(place)
            break
        state = place.state()
        assert state.files in (before.files, before.files[2:]), number
        assert place.lake.stream("t", "s").snapshot().files in (before.files, before.files[2:]), number
        place.clock.sleep(1000)
        expire(place, 8)
        state = place.state()
        assert (state.files, features_of(state), len(state.retired)) == (before.files[2:], ("expired",), 2), number
        assert problems(place) == []
        assert place.lake.stream("t", "s").snapshot().floor == 8
    assert number > 3


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_deleting_at_once_that_was_killed_at_any_step_is_ended_by_a_collector(kind: str) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place, 3)
        vacuum(place)
        add(place, 2)
        text = messages(place)
        done = expire(place, 12)
        kill_at(place, number)
        try:
            collect_now(place.context(), frozenset(done.ids))
        except Killed:
            calm(place)
        else:
            calm(place)
            break
        place.clock.sleep(1000)
        assert messages(place) == {offset: line for offset, line in text.items() if offset >= 12}, number
        for _ in range(4):
            assert not [finding for finding in collect(place).findings if finding.problem], number
            days(place, 8)
        assert not place.state().retired, number
        assert len([each for each in place.storage.list(PREFIX) if each.key.endswith(".gz")]) == 2, number
        assert problems(place) == []
    assert number > 5


@pytest.mark.crossed("kind", "operation")
@pytest.mark.parametrize("finished", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", ["put", "get", "list"])
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_request_without_answer_leaves_it_whole_or_expired(kind: str, operation: str, finished: bool) -> None:
    for number in itertools.count():
        place = Place(kind)
        before = begun(place, 3)
        failed = unanswered(place, number, operation, finished=finished)
        try:
            done = expire(place, 8)
            assert done.floor == 8
        except SingerlakeError:
            calm(place)
            assert place.state().files in (before.files, before.files[2:]), number
            expire(place, 8)
        calm(place)
        state = place.state()
        assert (state.files, len(state.retired)) == (before.files[2:], 2), number
        assert problems(place) == []
        if not failed:
            break


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_vacuum_at_any_step_leaves_each_message_once_and_the_report_says_what_expired(kind: str) -> None:
    floors = set()
    for number in itertools.count():
        place = Place(kind)
        before = begun(place, 4)
        text = messages(place)
        met = at(place, number, lambda place=place: vacuum(place))
        done = expire(place, 8)
        calm(place)
        if not met:
            break
        state = place.state()
        assert done.floor == state.floor, (number, met)
        assert done.records == state.floor, number
        floors.add(state.floor)
        assert messages(place) == {offset: line for offset, line in text.items() if offset >= state.floor}, number
        assert damage(place) == []
        # What is deleted at once is what expired: files that a vacuum alone replaced wait as ever.
        collect_now(place.context(), frozenset(done.ids))
        there = {each.key for each in place.storage.list(PREFIX)}
        assert [PREFIX + file.path in there for file in before.files[:2]] == [not state.floor] * 2, number
        assert damage(place) == []
    # A vacuum that came first joined files across the offset, so that nothing expired.
    assert floors == {0, 8}


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_an_expiry_at_any_step_of_a_vacuum_brings_no_expired_message_back(kind: str) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place, 4)
        text = messages(place)
        met = at(place, number, lambda place=place: expire(place, 8))
        vacuum(place)
        calm(place)
        if not met:
            break
        floor = place.state().floor
        assert floor in (0, 8)
        assert messages(place) == {offset: line for offset, line in text.items() if offset >= floor}, (number, met)
        for _ in range(6):
            assert not [finding for finding in collect(place, orphans=True).findings if finding.problem], number
            days(place, 8)
        assert messages(place) == {offset: line for offset, line in text.items() if offset >= floor}, (number, met)
        assert not place.state().retired
        assert damage(place) == [], number


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_collector_at_any_step_does_no_harm(kind: str) -> None:
    for number in itertools.count():
        place = Place(kind)
        begun(place, 3)
        vacuum(place)
        add(place, 2)
        text = messages(place)
        collect(place)
        days(place, 8)
        met = at(place, number, lambda place=place: collect(place))
        done = expire(place, 16)
        calm(place)
        if not met:
            break
        assert done.floor == place.state().floor == 16, (number, met)
        for _ in range(4):
            assert not [finding for finding in collect(place).findings if finding.problem], number
            days(place, 8)
        assert messages(place) == {offset: line for offset, line in text.items() if offset >= 16}
        assert not place.state().retired
        assert problems(place) == []


def anew(place: Place) -> None:
    """Drop the stream, and capture as much as it had, and more: offsets mean other messages then."""
    drop_stream(place.context(), dry_run=False)
    add(place, 5)


def rebuilt(place: Place) -> None:
    repair_stream(place.context(), RepairOptions(discard=True))


@pytest.mark.crossed("kind", "other")
@pytest.mark.parametrize("other", [anew, rebuilt])
@pytest.mark.parametrize("kind", KINDS)
def test_an_offset_of_the_lineage_before_expires_nothing_of_the_next(
    kind: str, other: Callable[[Place], None], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """What was seen before a drop or a rebuild is looked at again after it: by age, what is young stays."""
    place = make_place(kind, request)
    begun(place, 3)
    days(place, 20)
    cut = Cut(retention=Retention(older_than="10d"), now=place.clock.now())
    real, states = expiring.commit_change, list[Manifest]()

    def meanwhile(*arguments: Any, **more: Any) -> Any:
        if not states:
            other(place)
            states.append(place.state())
        return real(*arguments, **more)

    monkeypatch.setattr(expiring, "commit_change", meanwhile)
    done = expire_messages(place.context(), cut, dry_run=False)
    (state,) = states
    after = place.state()
    expected = 0 if other is anew else 3
    assert (done.files.files, len(state.files) - len(after.files)) == (expected, expected)
    assert after.lineage == state.lineage
    assert problems(place) == []


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_that_came_first_makes_no_second_look_necessary(kind: str, request: pytest.FixtureRequest) -> None:
    place = make_place(kind, request)
    base = place.born()
    base = place.committed(base, files_of(new_file("a", 3), new_file("b", 2)))
    context = place.context()
    loaded = context.load()
    assert loaded is not None
    place.committed(base, files_of(new_file("c", 4)))
    done = expire_messages(context, Cut(before=3), dry_run=False)
    assert (done.floor, done.records) == (3, 3)
    assert [(file.id, file.offset) for file in place.state().files] == [("b", 3), ("c", 5)]


def test_a_stream_that_never_stands_still_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("log")
    begun(place, 3)
    real = expiring.commit_change

    def restless(*arguments: Any, **more: Any) -> Any:
        rebuilt(place)
        return real(*arguments, **more)

    monkeypatch.setattr(expiring, "commit_change", restless)
    with pytest.raises(TooManyConflictsError, match="kept being changed; nothing expired"):
        expire(place, 8)
    assert place.state().floor == 0


@pytest.mark.crossed("source", "target")
@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_a_migration_takes_the_floor_along(source: str, target: str, request: pytest.FixtureRequest) -> None:
    if source == target:
        target = next(kind for kind in KINDS if kind != source)
    place = lives_in(source, target, request=request)
    begun(place, 3)
    expire(place, 8)
    before, text = place.state(), messages(place)
    done = migrate(place, target)
    assert (done.files, done.messages) == (1, 4)
    place.kind = target
    after = place.state()
    assert (after.files, features_of(after), after.next_offset, after.retired) == (
        before.files,
        ("expired",),
        before.next_offset,
        before.retired,
    )
    assert messages(place) == text
    assert expire(place, 12) != Expired()
    assert [file.offset for file in add(place, 1).files] == [12]
    assert problems(place) == []


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_whoever_reads_manifest_json_alone_sees_what_was_or_what_is(kind: str) -> None:
    place = Place(kind)
    before = begun(place, 3)
    loaded = place.store().load()
    assert loaded is not None
    place.store().publish(loaded, run_ended=True)
    seen: list[int] = []

    def looked(step: Step) -> None:
        place.storage.hook = lambda _: None
        state = published(place)
        seen.append(state.floor)
        assert state.files in (before.files, before.files[2:])
        assert (state.floor > 0) == (features_of(state) == ("expired",))
        place.storage.hook = looked

    place.storage.hook = looked
    expire(place, 8)
    calm(place)
    assert seen == sorted(seen)
    assert published(place).floor == 8
