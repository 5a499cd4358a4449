"""Moving a stream to another manifest store, and dying or getting no answer at any step of it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import (
    ForeignManifestError,
    SingerlakeError,
    StreamClosedError,
)
from singerlake.stores.port import ManifestStore
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.migrate import migrate_stream
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.stores import IN_A_DATABASE, ON_THE_LAKE, Place
from tests.upkeep.migrate.moving import (
    LAKE_PAIRS,
    PAIRS,
    Killed,
    a_file,
    content,
    kill_at,
    lives_in,
    migrate,
    newest,
    places,
    publish,
    published,
    unanswered,
    with_history,
    writer_of,
)
from tests.upkeep.vacuum.test_stores import begun

pytestmark = pytest.mark.in_turn("source", "target")

LONGEST_LAST = [pytest.param(kind, marks=[pytest.mark.soak] if kind == "merge" else []) for kind in ON_THE_LAKE]
"""Merges make most requests, and one dies at each."""


@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_after_a_crash_at_any_step_no_store_takes_the_state_for_lost(source: str, target: str) -> None:
    """To rebuild the stream then would make a second one of it."""
    met = set()
    for number in itertools.count():
        place = Place(source)
        begun(place, 1)
        kill_at(place, number)
        with suppress(Killed):
            migrate(place, target)
            break
        place.storage.hook = lambda _: None
        for kind in ON_THE_LAKE:
            context = dataclasses.replace(place.context(), store=place.store(kind=kind))
            try:
                assert context.load() is not None, number
            except (ForeignManifestError, StreamClosedError) as error:
                met.add(type(error))
    # One log begins with a copy of the other, so that it has a state as soon as it has anything.
    closed = {StreamClosedError} if "lockfile" in (source, target) else set()
    assert met == {ForeignManifestError, *closed}


@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_after_a_crash_at_any_step_readers_read_and_the_next_attempt_ends_it(
    source: str, target: str, request: pytest.FixtureRequest
) -> None:
    resumed = 0
    for number, place, before in places(source, target, request):
        kill_at(place, number)
        with pytest.raises(Killed):
            migrate(place, target)
        place.storage.hook = lambda _: None
        assert content(place.lake.stream("t", "s").snapshot()) == content(before), number
        done = migrate(place, target)
        resumed += done.resumed
        after = newest(place)
        assert (after.store, after.closed, content(after)) == (target, None, content(before)), number
        assert published(place) == after, number
        assert not migrate(place, target).needed, number
        place.kind = target
        place.committed(place.store().load(), add(new_file("later", 1)))  # type: ignore[arg-type]
        assert place.listed() == ["ab", "c", "later"], number
    assert resumed > 5


@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_after_a_crash_at_any_step_what_a_run_commits_is_read_when_it_has_ended(
    source: str, target: str, tmp_path: Path
) -> None:
    """However little it is beside what the stream had."""
    moved = 0
    for number in itertools.count():
        place = Place(source)
        place.committed(place.born(), add(*(new_file(f"f{each}", 1) for each in range(40))))
        kill_at(place, number)
        with suppress(Killed):
            migrate(place, target)
            break
        place.storage.hook = lambda _: None
        writer, file = writer_of(place), a_file(place, tmp_path)
        try:
            publish(file, writer)
        except StreamClosedError:
            continue
        writer.finish()
        moved += writer.store.kind == target
        if writer.store.kind == target:
            assert file.file.id in [each.id for each in place.lake.stream("t", "s").snapshot().files], number
        migrate(place, target)
        assert newest(place).store == target
        assert len(place.lake.stream("t", "s").snapshot().files) == 41, number
    assert moved


@pytest.mark.parametrize("target", IN_A_DATABASE)
@pytest.mark.parametrize("source", LONGEST_LAST)
def test_a_writer_of_a_database_does_not_take_for_lost_what_has_not_come_to_it(
    source: str, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """One that asked which store the stream has, just before that changed."""
    met = set()
    for number, place, _ in places(source, target, request):
        kill_at(place, number)
        with suppress(Killed):
            migrate(place, target)
        place.storage.hook = lambda _: None
        writer = writer_of(place)
        writer.store = place.lake.stream("t", "s").store(target)
        try:
            publish(a_file(place, tmp_path), writer)
        except StreamClosedError:
            met.add(None)
        else:
            met.add(writer.store.kind)
    assert met == {source, None, target}


class Mortal:
    """A manifest store whose process ends before or after the call of some number."""

    def __init__(self, store: ManifestStore, calls: Iterator[int], number: int, *, after: bool) -> None:
        self._store, self._calls, self._number, self._after = store, calls, number, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def called(*arguments: Any, **more: Any) -> Any:
            mine = next(self._calls) == self._number
            if mine and not self._after:
                raise Killed
            try:
                return found(*arguments, **more)
            finally:
                if mine:
                    raise Killed

        return called


@pytest.mark.crossed("source", "target", "after")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_after_a_crash_around_any_call_of_a_store_the_next_attempt_ends_it(
    source: str, target: str, after: bool, request: pytest.FixtureRequest
) -> None:
    for number in itertools.count():
        place = lives_in(source, target, request=request)
        before = with_history(place)
        stream, calls = place.lake.stream("t", "s"), itertools.count()
        old, new = (Mortal(stream.store(kind), calls, number, after=after) for kind in (source, target))
        try:
            migrate_stream(StreamContext(place.storage, "t", "s", place.clock, place.ids, old), new)
        except Killed:
            if place.lake.stream("t", "s").kind() in ON_THE_LAKE:
                assert content(place.lake.stream("t", "s").snapshot()) == content(before), number
            migrate(place, target)
        else:
            break
        found = newest(place)
        assert (found.store, found.closed, content(found)) == (target, None, content(before)), number
        assert published(place) == found, number
        assert found.transaction.number == before.transaction.number + 2, number
    assert number >= 4


@pytest.mark.crossed("source", "target", "done")
@pytest.mark.parametrize("operation", ["put", "get", "read_range", "list"])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_a_request_that_fails_leaves_what_the_next_attempt_ends(
    source: str, target: str, done: bool, operation: str, request: pytest.FixtureRequest
) -> None:
    for number in itertools.count():
        place = lives_in(source, target, request=request)
        before = with_history(place)
        failed = unanswered(place, number, operation, finished=done)
        try:
            migrate(place, target)
        except SingerlakeError:
            assert failed
            migrate(place, target)
        place.storage.hook = lambda _: None
        after = newest(place)
        assert (after.store, content(after)) == (target, content(before)), number
        assert published(place) == after
        if not failed:
            assert number > 0
            break


@pytest.mark.sampled(source=1, target=1)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(*pair, marks=[pytest.mark.soak] if pair == ("merge", "log") else [])
        for pair in LAKE_PAIRS
        if pair[0] != "lockfile"
    ],
)
def test_a_trim_at_any_step_and_a_crash_at_any_later_one_leave_what_can_be_read_and_ended(
    source: str, target: str, request: pytest.FixtureRequest
) -> None:
    for trimmed, place, _ in places(source, target, request):
        for later in itertools.count(1, 4):
            place = lives_in(source, target, request=request)
            before = with_history(place)
            left = itertools.count()

            def hook(
                step: Step, place: Place = place, left: Iterator[int] = left, at: int = trimmed, later: int = later
            ) -> None:
                now = next(left)
                if now == at:
                    hook, place.storage.hook = place.storage.hook, lambda _: None
                    place.lake.stream("t", "s").store().trim(keep=0, dry_run=False)
                    place.storage.hook = hook
                if now >= at + later:
                    raise Killed

            place.storage.hook = hook
            killed = ends_in(place, target, Killed)
            place.storage.hook = lambda _: None
            assert content(place.lake.stream("t", "s").snapshot()) == content(before), (trimmed, later)
            ended = not ends_in(place, target, SingerlakeError)
            assert content(place.lake.stream("t", "s").snapshot()) == content(before), (trimmed, later)
            if not ended:
                migrate(place, target)
            assert (newest(place).store, content(newest(place))) == (target, content(before)), (trimmed, later)
            assert published(place) == newest(place), (trimmed, later)
            if not killed:
                break


def ends_in(place: Place, target: str, error: type[BaseException]) -> bool:
    """Whether a migration does not come to its end, but to that one."""
    try:
        migrate(place, target)
    except error:
        return True
    return False
