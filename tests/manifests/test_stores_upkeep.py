"""What every manifest store does for readers and for its own size: publishing the state, trimming what is behind it."""

from __future__ import annotations

import msgspec
import pytest

from singerlake.errors import ForeignManifestError
from singerlake.format import layout
from singerlake.format.state.manifest import from_json, to_json
from tests.format.state.test_fold import add, new_file
from tests.manifests.stores import KINDS, Place, make_place

KEY = layout.manifest_key("t", "s")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


def test_a_birth_is_published_for_readers(place: Place) -> None:
    born = place.born()
    stored = place.storage.get(KEY)
    assert stored is not None
    assert from_json(stored.body, key=KEY) == born.manifest


@pytest.mark.crossed("place", "field")
@pytest.mark.parametrize("field", ["tap", "stream", "store"])
def test_another_s_manifest_is_refused_and_stays_as_it_is(place: Place, field: str) -> None:
    body = to_json(msgspec.structs.replace(place.first(), **{field: "other"}))
    place.storage.put(KEY, body)
    with pytest.raises(ForeignManifestError, match=field):
        place.born()
    stored = place.storage.get(KEY)
    assert stored is not None
    assert stored.body == body


def test_publishing_goes_upwards_only(place: Place) -> None:
    older = place.born()
    newer = place.committed(older, *(add(new_file(f"f{number}")) for number in range(3)))
    place.store().publish(newer, run_ended=True)
    for state in (older, newer):
        place.store().publish(state, run_ended=True)
        stored = place.storage.get(KEY)
        assert stored is not None
        assert from_json(stored.body, key=KEY) == newer.manifest


def test_what_is_an_hour_behind_is_published_by_whoever_sees_it(place: Place) -> None:
    newer = place.committed(place.born(), add(new_file("a")))
    place.clock.seconds += 3700
    place.store().publish(newer)
    stored = place.storage.get(KEY)
    assert stored is not None
    assert from_json(stored.body, key=KEY).transaction == newer.manifest.transaction


def test_trimming_is_a_dry_run_unless_asked_and_changes_no_state(place: Place) -> None:
    behind = place.born()
    base = place.committed(behind, *(add(new_file(f"f{number}")) for number in range(8)))
    before = place.state()
    objects = {entry.key for entry in place.storage.list("raw/")}
    planned = place.store().trim(keep=2)
    assert {entry.key for entry in place.storage.list("raw/")} == objects
    done = place.store().trim(keep=2, dry_run=False)
    assert (planned.floor, planned.transactions) == (done.floor, done.transactions)
    assert place.state() == before
    caught = place.store().catch_up(behind)
    assert caught is not None
    assert caught.manifest == before
    place.committed(behind, add(new_file("late")))
    place.committed(base, add(new_file("later")))
    assert place.listed() == [*(f"f{number}" for number in range(8)), "late", "later"]


def test_trimming_again_and_again_keeps_the_stream_whole(place: Place) -> None:
    base = place.born()
    for number in range(6):
        base = place.committed(base, add(new_file(f"f{number}")))
        place.store().trim(keep=number % 3, dry_run=False)
        assert place.listed() == [f"f{each}" for each in range(number + 1)]
