"""Moving a stream to another manifest store while others write it, read it or move it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from singerlake.errors import ForeignManifestError, StreamClosedError, UnknownOutcomeError
from singerlake.format.state.model import Manifest
from singerlake.stores.writer import StreamWriter, Upload
from tests.stores.stores import ON_THE_LAKE, Place
from tests.upkeep.migrate.moving import (
    LAKE_PAIRS,
    Killed,
    a_file,
    at,
    content,
    kill_at,
    lives_in,
    migrate,
    newest,
    places,
    publish,
    published,
    steps_of,
    with_history,
    writer_of,
)

pytestmark = pytest.mark.in_turn("source", "target")


@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_a_writer_that_commits_at_any_step_goes_over_or_stops_and_nothing_is_lost(
    source: str, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    outcomes = []
    for number, place, before in places(source, target, request):
        writer, upload = writer_of(place), a_file(place, tmp_path)
        writer.open()
        closed: list[StreamClosedError] = []

        def commit(
            writer: StreamWriter = writer, upload: Upload = upload, closed: list[StreamClosedError] = closed
        ) -> None:
            try:
                publish(upload, writer)
            except StreamClosedError as error:
                closed.append(error)

        at(place, number, commit)
        migrate(place, target)
        place.storage.hook = lambda _: None
        outcomes.append(bool(closed))
        if closed:
            assert "store migrate" in str(closed[0])
            publish(upload, writer_of(place))
        after = newest(place)
        assert (after.store, after.lineage) == (target, before.lineage), number
        assert [file.id for file in after.files] == ["ab", "c", upload.file.id], number
        publish(upload, writer)
        assert [file.id for file in newest(place).files] == ["ab", "c", upload.file.id], number
    assert set(outcomes) == {False, True}


@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_half_way_a_writer_that_comes_is_told_what_to_do(
    source: str, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    told = 0
    for number, place, _ in places(source, target, request):
        kill_at(place, number)
        with pytest.raises(Killed):
            migrate(place, target)
        place.storage.hook = lambda _: None
        upload = a_file(place, tmp_path)
        try:
            publish(upload, writer_of(place))
        except StreamClosedError as error:
            told += "finish it with 'singerlake store migrate'" in error.hint
            migrate(place, target)
            publish(upload, writer_of(place))
        migrate(place, target)
        assert [file.id for file in newest(place).files] == ["ab", "c", upload.file.id], number
        assert newest(place).store == target
    assert told > 0


@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_a_reader_in_whose_midst_a_stream_is_moved_reads_it(
    source: str, target: str, request: pytest.FixtureRequest
) -> None:
    for number in itertools.count():
        place = lives_in(source, target, request=request)
        before = with_history(place)
        met = at(place, number, lambda: migrate(place, target))  # noqa: B023
        assert content(place.lake.stream("t", "s").snapshot()) == content(before), number
        if not met:
            assert number > 0
            break


@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_two_migrations_at_once_end_as_one(source: str, target: str, request: pytest.FixtureRequest) -> None:
    for number, place, before in places(source, target, request):
        at(place, number, lambda: migrate(place, target))  # noqa: B023
        done = migrate(place, target)
        after = newest(place)
        assert (after.store, content(after)) == (target, content(before)), number
        assert done.transaction == after.transaction.number == before.transaction.number + 2, number
        assert published(place) == after, number


@pytest.mark.parametrize(
    ("source", "target", "on_to"),
    [(*pair, kind) for pair in LAKE_PAIRS for kind in ON_THE_LAKE if kind != pair[1]] + [("log", "merge", "postgres")],
)
def test_one_that_slept_while_others_moved_the_stream_further_forgets_nothing_that_was_committed_since(
    source: str, target: str, on_to: str, tmp_path: Path, request: pytest.FixtureRequest, stride: int
) -> None:
    refused = 0
    for number in range(0, steps_of(with_a_past(source, target, on_to, request), target), stride):
        place = with_a_past(source, target, on_to, request)
        since: list[Manifest] = []

        def overtake(place: Place = place, since: list[Manifest] = since) -> None:
            for kind in (target, on_to):
                migrate(place, kind)
                publish(a_file(place, tmp_path), writer_of(place))
            since.append(newest(place))

        at(place, number, overtake)
        try:
            migrate(place, target)
        except (StreamClosedError, ForeignManifestError, UnknownOutcomeError):
            refused += 1
            assert newest(place) == since[0], number
        assert content(newest(place)) == content(since[0]), number
    assert refused > 0


def with_a_past(source: str, target: str, on_to: str, request: pytest.FixtureRequest) -> Place:
    place = lives_in(source, target, on_to, request=request)
    with_history(place)
    return place
