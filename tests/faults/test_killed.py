"""Processes that die at the worst moments, and their reruns (cases 1 to 4 and 14)."""

from __future__ import annotations

import pytest

from singerlake.format import layout
from singerlake.lock_file import LockSettings
from singerlake.storage.keys import TEMPORARY_PREFIX
from tests.faults.support.crew import Crew
from tests.faults.support.files import data_files
from tests.faults.support.places import Kind, of_kinds
from tests.faults.support.worker import Point

pytestmark = pytest.mark.in_turn("kind")

MOMENTS = {
    "1-before-the-upload": (Point(r"^storage\.upload ", "kill", nth=2), (1, 1)),
    "2-after-the-upload": (Point(r"^storage\.upload ", "kill", after=True, nth=2), (1, 2)),
    "2-before-the-commit": (Point(r"^store\.commit", "kill", nth=2), (1, 2)),
    "3-after-the-commit": (Point(r"^store\.commit", "kill", after=True, nth=2), (2, 2)),
    "3-before-the-acknowledgement": (Point(r"^worker\.acknowledge", "kill", nth=2), (2, 2)),
}
"""What a writer of three files is killed at, and how many are committed and stored then."""


@pytest.mark.crossed("kind", "moment")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_writer_that_is_killed_is_run_again(crew: Crew, kind: Kind, moment: str) -> None:
    point, (committed, stored) = MOMENTS[moment]
    killed = crew.start("ada", point, files=3).killed()
    # Where commits are settled later, nothing is listed and so nothing acknowledged by then.
    listed = 0 if kind.settles else committed
    assert killed.acknowledged == killed.files[: min(listed, 1)]
    state = crew.check(orphans=stored - listed)
    assert [file.id for file in state.files] == killed.files[:listed]
    assert sorted(data_files(crew.place)) == sorted(killed.files[:stored])
    if kind.settles:
        crew.publish("bea", files=1)
        listed_now = [file.id for file in crew.check(orphans=stored - committed).files]
        assert [id for id in listed_now if id in killed.files] == killed.files[:committed]
    crew.rerun("ada").wait()
    assert [file.id for file in crew.check().files if file.id in killed.files] == killed.files


@of_kinds(lambda kind: kind.locks)
def test_4_the_lock_of_a_killed_writer_is_named_and_then_taken_over(crew: Crew) -> None:
    crew.start("ada", Point(r"^store\.commit", "kill")).killed()
    (lock,) = crew.place.keys_with(layout.LOCK)
    left = crew.place.objects()[lock]
    hasty = crew.start("bea", lock=LockSettings(max_wait=0.3, stale_after=10, refresh=1))
    assert "writer ada has held the lock" in hasty.failed()
    assert crew.place.objects()[lock] == left
    crew.publish("cleo")
    assert len(crew.check(orphans=1).files) == 2
    assert crew.place.keys_with(layout.LOCK) == []


@of_kinds(lambda kind: kind.on == "lake")
def test_14_a_rename_that_never_happened_leaves_the_state_before_it(crew: Crew, kind: Kind) -> None:
    crew.publish("first", files=1)
    before = crew.check()
    crew.start("ada", Point(rf"^os\.replace .*{kind.key}", "kill")).killed()
    torn = [path for path in crew.place.path.rglob(f"{TEMPORARY_PREFIX}*") if path.is_file()]
    assert torn
    for path in torn:
        path.write_bytes(path.read_bytes()[:20])
    assert crew.check(orphans=1) == before
    crew.publish("second")
    crew.rerun("ada").wait()
    assert crew.count() == 5
