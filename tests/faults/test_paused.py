"""Processes that stand still at the worst moments while others go on, and then wake up (cases 5 and 9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from singerlake.format import layout
from tests.faults.support.crew import Crew
from tests.faults.support.network import Network
from tests.faults.support.places import Kind, of_kinds
from tests.faults.support.worker import Point
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.in_turn("kind")


@pytest.mark.in_turn("kind", "moment")
@pytest.mark.parametrize("moment", ["before-it-commits", "on-the-way"])
def test_5_a_writer_that_slept_through_others_commits_finds_its_place_after_them(
    crew: Crew, kind: Kind, moment: str
) -> None:
    call = r"^store\.commit" if moment == "before-it-commits" else kind.call
    asleep = crew.start("asleep", Point(call, "stop", nth=2)).stopped()
    others = crew.publish("awake", files=3).files
    crew.check(orphans=1)
    asleep.go_on().wait()
    state = crew.check()
    assert [file.id for file in state.files if file.id in others] == others
    assert len(state.files) == 5


@of_kinds(lambda kind: kind.locks)
def test_5_a_writer_that_slept_past_its_lock_leaves_its_successors_alone(crew: Crew) -> None:
    asleep = crew.start("asleep", Point(r"^storage\.upload ", "stop", after=True), files=1).stopped()
    successor = crew.start("successor", Point(r"^storage\.upload ", "stop", after=True), files=1).stopped()
    (lock,) = crew.place.keys_with(layout.LOCK)
    held = crew.place.objects()[lock]
    assert b'"successor"' in held
    asleep.go_on().wait()
    assert crew.place.objects()[lock] == held
    successor.go_on().wait()
    assert crew.count() == 2
    assert crew.place.keys_with(layout.LOCK) == []


@of_kinds(lambda kind: kind.locks)
def test_5_so_it_does_where_storage_would_let_it_delete_them(bucket: Network, s3: S3Server) -> None:
    s3.ignore_conditions("DELETE")
    place = replace(bucket.reached, honoured=None)
    point = Point(r"^storage\.upload ", "stop", after=True)
    asleep = bucket.crew.start("asleep", point, files=1, place=place).stopped()
    successor = bucket.crew.start("successor", point, files=1, place=place).stopped()
    (lock,) = bucket.crew.place.keys_with(layout.LOCK)
    held = bucket.crew.place.objects()[lock]
    assert b'"successor"' in held
    asleep.go_on().wait()
    assert bucket.crew.place.objects()[lock] == held
    successor.go_on().wait()
    assert bucket.crew.count() == 2


def test_5_a_writer_that_slept_after_its_commit_finds_it_in_its_place(crew: Crew) -> None:
    asleep = crew.start("asleep", Point(r"^store\.commit", "stop", after=True), files=1).stopped()
    crew.check(orphans=None)
    crew.publish("awake", files=3)
    asleep.go_on().wait()
    assert crew.count() == 4


@of_kinds(lambda kind: kind.locks)
def test_5_so_does_one_whose_questions_to_the_storage_were_refused_by_their_own_success(bucket: Network) -> None:
    bucket.crew.publish("before", files=1)
    misled = bucket.proxy.twice(r"^PUT .*/_singerlake_probe/", times=8)
    place = replace(bucket.reached, honoured=None)
    commit = Point(r"^storage\.put .*/manifest\.json$", "stop")
    asleep = bucket.crew.start("asleep", commit, files=1, schema=1, place=place).stopped()
    assert misled.hits == 8
    bucket.crew.publish("awake", files=2, schema=2)
    asleep.go_on().wait()
    assert bucket.crew.count() == 4
