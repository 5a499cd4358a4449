"""What maintenance notes of itself among a stream's runs, through whichever manifest store keeps it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from singerlake.clock import parse_timestamp
from singerlake.errors import StorageUnavailableError
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import RecordRun
from singerlake.upkeep.context import record_run
from singerlake.upkeep.reports.census import take_census
from singerlake.upkeep.reports.status import last_signs, track
from singerlake.upkeep.result import Tally
from tests.stores.stores import Place

START = "2026-03-01T00:00:00.000000Z"


def note(place: Place, kind: str = "vacuum") -> None:
    started = place.clock.now() - timedelta(seconds=5)
    record_run(
        place.context(),
        kind,
        Tally(3, 300),
        started=started,
    )


def capture(id: str) -> RecordRun:
    return RecordRun(run=Run(id=id, writer="w", started=START, updated=START, status="finished"))


def test_a_run_of_maintenance_stands_beside_the_captures(place: Place) -> None:
    place.committed(place.born(), capture("c"))
    note(place)
    first, noted = place.state().runs
    assert (first.id, first.kind, first.captures) == ("c", "capture", True)
    assert (noted.kind, noted.status, noted.files, noted.records, noted.bytes) == ("vacuum", "finished", 3, 0, 300)
    assert noted.writer == f"singerlake vacuum {noted.id}"
    manifest = place.state()
    found = track(manifest, (), last_signs([manifest]), now=place.clock.now(), last=1)
    assert [(one.kind, one.outcome) for one in found] == [("vacuum", "completed"), ("capture", "completed")]
    (only,) = track(manifest, (), {}, now=place.clock.now(), last=1, maintenance=False)
    assert only.id == "c"


def test_it_says_nothing_of_how_fresh_a_stream_is(place: Place) -> None:
    place.committed(place.born(), capture("c"))
    note(place)
    census = take_census(place.storage, "t", "s", place.state)
    assert census.last_write == parse_timestamp(START)


def test_a_stream_that_is_not_there_gets_none(place: Place) -> None:
    note(place)
    assert place.store().load() is None


def test_what_cannot_be_noted_is_a_warning(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("lockfile")
    place.born()
    store = place.store()

    def fails(*_: object, **__: object) -> None:
        raise StorageUnavailableError("down", hint="wait")

    monkeypatch.setattr(type(store), "commit", fails)
    note(place)
    assert "the run of 'vacuum' succeeded, but could not be recorded: down; wait" in caplog.text
