"""Moving streams with attached files between all manifest stores."""

from __future__ import annotations

import pytest

from singerlake.format.state.features import features_of
from tests.upkeep.attached.photos import THREE, add, begun, check, retired, stored
from tests.upkeep.erase.erasing import erase
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import LAKE_PAIRS, PAIRS, Killed, content, kill_at, lives_in, migrate, newest
from tests.upkeep.vacuum.test_stores import vacuum


@pytest.mark.crossed("source", "target")
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_rows_and_retired_objects_move_as_they_are(source: str, target: str, request: pytest.FixtureRequest) -> None:
    place = lives_in(source, target, request=request)
    begun(place)
    erase(place, 1)
    collect(place)
    before = place.state()
    migrate(place, target)
    after = newest(place)
    assert (after.store, features_of(after), content(after)) == (target, ("attached", "erased"), content(before))
    place.kind = target
    assert place.state() == after
    check(place, THREE, 1)
    assert retired(place) == {"b": "shown"}
    add(place, [["b"], ["e"]])
    vacuum(place)
    erase(place, 3)
    photos = [*THREE, ["b"], ["e"]]
    check(place, photos, 1, 3)
    for _ in range(3):
        days(place, 8)
        collect(place)
    assert stored(place) == ["a", "b'", "d", "e"]
    check(place, photos, 1, 3)


@pytest.mark.crossed("source", "target")
@pytest.mark.parametrize(("source", "target"), LAKE_PAIRS)
def test_a_migration_that_is_killed_at_any_step_and_then_ended_moves_them(
    source: str, target: str, request: pytest.FixtureRequest, stride: int
) -> None:
    number = 0
    while True:
        place = lives_in(source, target, request=request)
        begun(place)
        erase(place, 1)
        before = place.state()
        kill_at(place, number)
        try:
            migrate(place, target)
        except Killed:
            place.storage.hook = lambda _: None
            place.lake = place.opened()
            migrate(place, target)
            place.kind = target
            assert content(place.state()) == content(before)
            check(place, THREE, 1)
            number += stride
            continue
        break
    assert number > 5
