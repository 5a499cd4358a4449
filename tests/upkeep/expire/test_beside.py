"""Expiring beside writers, vacuums, drops and collectors, at every step of them, and with faults at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from singerlake.errors import TooManyConflictsError
from singerlake.format.metadata.retention import Retention
from singerlake.format.state.features import features_of
from singerlake.format.state.model import Manifest
from singerlake.upkeep.drop import drop_stream
from singerlake.upkeep.gc import expire as expiring
from singerlake.upkeep.gc.expire import Cut, Expired, expire_messages
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.format.state.test_fold import add as files_of
from tests.format.state.test_fold import new_file
from tests.storage.memory import Step
from tests.stores.stores import KINDS, ON_THE_LAKE, Place, make_place
from tests.upkeep.expire.expiring import expire, messages, problems, published
from tests.upkeep.gc.test_stores import days
from tests.upkeep.migrate.moving import lives_in, migrate
from tests.upkeep.vacuum.test_stores import add, begun


def calm(place: Place) -> None:
    place.storage.hook = lambda _: None


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
    loaded = place.loaded()
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
