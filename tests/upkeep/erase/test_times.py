"""The times of a file from which records were erased, when the state is made anew or mended."""

from __future__ import annotations

import pytest

from singerlake.format import layout
from tests.lakes import build_stream, record_line
from tests.stores.stores import Place
from tests.upkeep.erase.erasing import erase, place_of
from tests.upkeep.erase.test_rebuild import rebuild
from tests.upkeep.shelf import SCHEMA


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    """A stream of one file with three records, a day apart."""
    place = place_of("lockfile", request)
    place.born()
    lines = [record_line("s", {"n": n}, time_extracted=f"2026-01-0{n + 1}T00:00:00.000000Z") for n in range(3)]
    build_stream(place.lake, "t", "s", SCHEMA, lines)
    return place


@pytest.mark.parametrize("gone", [(0,), (2,), (0, 2), (0, 1, 2)])
def test_the_times_of_a_file_stay_though_records_that_had_them_are_gone(place: Place, gone: tuple[int, ...]) -> None:
    times = [(file.first, file.last) for file in place.state().files]
    assert times == [("2026-01-01T00:00:00.000000Z", "2026-01-03T00:00:00.000000Z")]
    erase(place, *gone)
    assert not rebuild(place).needed
    assert not rebuild(place, discard=True).difference.mended
    assert [(file.first, file.last) for file in place.state().files] == times


def test_times_of_a_file_with_holes_that_leave_a_record_out_are_mended(place: Place) -> None:
    erase(place, 0)
    key = layout.manifest_key("t", "s")
    stored = place.storage.get(key)
    assert stored is not None
    narrow = stored.body.replace(b'"last":"2026-01-03', b'"last":"2026-01-02')
    assert narrow != stored.body
    place.storage.put(key, narrow)
    rebuild(place)
    assert [(file.first, file.last) for file in place.state().files] == [
        ("2026-01-02T00:00:00.000000Z", "2026-01-03T00:00:00.000000Z")
    ]
