"""What is left of expired messages in files that were never listed."""

from __future__ import annotations

import pytest

from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.rebuild.repair import Repair
from tests.stores.stores import Place
from tests.upkeep.expire.expiring import expire, messages
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.vacuum.test_stores import add, begun, once, vacuum

pytestmark = pytest.mark.in_turn("place")


def adopt(place: Place) -> Repair:
    return repair_stream(place.context(), RepairOptions(adopt=True))


def killed_vacuum(place: Place) -> None:
    """A vacuum that dies between its upload and its commit."""

    def die() -> None:
        raise ConnectionError("the process is gone")

    once(place, "compose", die, done=True)
    with pytest.raises(ConnectionError):
        vacuum(place)


def forgotten(place: Place) -> None:
    for _ in range(4):
        collect(place)
        days(place, 8)
    assert not place.state().retired


@pytest.mark.parametrize("before", [3, 8, 20])
def test_what_a_killed_vacuum_made_of_expired_messages_is_not_adopted(place: Place, before: int) -> None:
    end = begun(place).next_offset
    killed_vacuum(place)
    expire(place, min(before, end))
    forgotten(place)
    kept, floor = messages(place), place.state().floor
    made = adopt(place)
    expired = "its messages have expired" in "".join(finding.message for finding in made.findings)
    assert expired == (floor > 0)
    assert messages(place) == kept
    add(place, 1)
    assert min(messages(place).keys() - kept.keys()) == end


def test_what_a_killed_vacuum_made_of_messages_that_are_left_is_told_of(place: Place) -> None:
    begun(place)
    killed_vacuum(place)
    kept = messages(place)
    assert not [finding for finding in adopt(place).findings if "expired" in finding.message]
    assert messages(place) == kept
