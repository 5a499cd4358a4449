"""Streams with attached files, of which one thing is done while another comes at any step: no photo is lost, and none
is left behind."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from singerlake.errors import CommitRefusedError
from singerlake.format.state.attached_objects import objects_in
from singerlake.upkeep.drop import drop_stream
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.stores.stores import ON_THE_LAKE, Place
from tests.upkeep.attached.photos import THREE, Photos, add, begun, check, digest, key, retired, stored, whole
from tests.upkeep.attached.test_erase import again
from tests.upkeep.attached.test_gc import upload
from tests.upkeep.erase.erasing import erase, erase_alone
from tests.upkeep.expire.expiring import expire
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import at
from tests.upkeep.vacuum.test_stores import PREFIX, vacuum

Act = Callable[[Place], Any]
MORE: list[Photos] = [["b"], ["e"]]


def drop(place: Place) -> None:
    drop_stream(place.context(), dry_run=False)


def rebuild(place: Place) -> None:
    repair_stream(place.context(), RepairOptions(discard=True))


def collected(place: Place) -> None:
    collect(place)
    days(place, 8)
    collect(place)


def commit_again(place: Place) -> None:
    """A writer that saw the photos before they were retired; it may come too late."""
    with suppress(CommitRefusedError, AssertionError):
        again(place, "b")
        again(place, "f")


def due(place: Place) -> None:
    """A retired photo and an orphan whose grace time is over."""
    upload(place, "f")
    erase(place, 1)
    add(place, [["e"]])
    days(place, 8)
    collect(place, orphans=True)
    collect(place)
    days(place, 8)


OTHERS: dict[str, Act] = {
    "vacuum": vacuum,
    "add": lambda place: add(place, MORE),
    "again": commit_again,
    "erase": lambda place: erase(place, 0, 3),
    "collect": lambda place: collect(place, orphans=True),
    "collect twice": collected,
    "rebuild": rebuild,
    "drop": drop,
}
DEEDS: dict[str, tuple[Act, Act, tuple[str, ...]]] = {
    "erasure": (
        lambda _: None,
        lambda place: erase_alone(place, 1, 3),
        ("vacuum", "add", "collect twice", "rebuild", "drop"),
    ),
    "drop": (lambda _: None, drop, ("vacuum", "add", "erase")),
    "expiry": (lambda _: None, lambda place: expire(place, 2), ("vacuum", "add")),
    "vacuum": (lambda _: None, vacuum, ("erase", "add", "collect", "drop")),
    "collection": (due, lambda place: collect(place, orphans=True), ("add", "again", "erase", "drop", "collect")),
}
"""What comes before, what is done, and what comes at any step of it."""
GONE = {"erasure": {1, 3}, "collection": {1}}
CASES = [
    (deed, other) for deed, (_, _, others) in DEEDS.items() for other in (*others, *["drop"] * (deed == "erasure"))
]


@pytest.mark.crossed("kind", "case")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.parametrize("case", CASES, ids=" and ".join)
def test_whoever_comes_at_any_step_the_photos_are_right(kind: str, case: tuple[str, str], stride: int) -> None:
    deed, other = case
    before, act, _ = DEEDS[deed]
    for number in itertools.count(0, stride):
        place = Place(kind)
        begun(place)
        before(place)
        met = at(place, number, lambda: OTHERS[other](place))  # noqa: B023
        done = act(place)
        place.storage.hook = lambda _: None
        if not met:
            break
        gone = GONE.get(deed, set()) | ({0, 3} if other == "erase" else set())
        photos = [*THREE, *([["e"]] if deed == "collection" else [])]
        photos += MORE if other == "add" else [["b"], ["f"]][: len(place.state().files) - 4] if other == "again" else []
        if "drop" in case:
            # What came behind the drop is all that is there.
            assert whole(place) == []
        else:
            check(place, photos, *gone)
        if deed == "expiry":
            names = {name for name in done.ids if len(name) == 64}
            state = place.state()
            assert names == {file.id for file in state.retired if len(file.id) == 64}
            assert done.attached.files == len(names)
            assert len({name[:64] for name in objects_in(state.files)} | names) == (5 if other == "add" else 4)
        if other == "drop" and deed != "collection":
            assert (place.state().files, set(retired(place))) == ([], set("abcd"))
        for _ in range(4):
            collect(place, grace=timedelta(0))
        listed = {row.path() for file in place.state().files for row in file.attached if row.sha256}
        left = {key(name[0], len(name)).removeprefix(PREFIX) for name in stored(place)}
        assert listed <= left
        # An orphan that nobody asked to collect may be there yet.
        assert left - listed <= {key("f").removeprefix(PREFIX)}, number
        if "drop" not in case:
            check(place, photos, *gone)
            assert {digest(name) for at, names in enumerate(photos) for name in names if name and at not in gone} >= {
                name[:64] for name in objects_in(place.state().files)
            }
    assert number > 3
