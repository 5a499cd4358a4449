"""What a vacuum joins and what it leaves, from the manifest alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.clock import timestamp
from singerlake.format.state.files.data_file import DataFile
from singerlake.upkeep.result import Tally
from singerlake.upkeep.vacuum import plan as vacuum_plan
from singerlake.upkeep.vacuum.plan import VacuumPlan, make_plan
from tests.fakes import START

TARGET = 1000


def file(number: int, size: int, version: str = "a", offset: int | None = None) -> DataFile:
    return DataFile(
        id=f"{number:016d}",
        path=f"{version}/{number}",
        version=version,
        messages=2,
        records=2,
        bytes=size,
        raw_bytes=5 * size,
        sha256="",
        first="",
        last="",
        members=((0, 2),),
        offset=2 * number if offset is None else offset,
    )


def files(*sizes: int, versions: str = "") -> list[DataFile]:
    return [file(at, size, versions[at] if versions else "a") for at, size in enumerate(sizes)]


def joined(plan: VacuumPlan) -> list[list[int]]:
    return [[each.bytes for each in group] for group in plan.groups]


def after(listed: Sequence[DataFile], plan: VacuumPlan, extra: int) -> list[DataFile]:
    """The files once the plan is carried out, each new one ``extra`` bytes larger than what it was made of."""
    new = {
        run[0].id: DataFile(
            **{
                **{name: getattr(run[0], name) for name in run[0].__struct_fields__},
                "bytes": sum(each.bytes for each in run) + extra,
                "messages": sum(each.messages for each in run),
            }
        )
        for run in map(tuple, plan.groups)
    }
    gone = {each.id for group in plan.groups for each in group}
    return [new.get(each.id, each) for each in listed if each.id in new or each.id not in gone]


LISTED = st.lists(st.tuples(st.integers(1, 1200) | st.integers(1, 60), st.sampled_from("aaaab")), max_size=60).map(
    lambda drawn: [file(at, size, version) for at, (size, version) in enumerate(drawn)]
)


@given(LISTED)
def test_every_file_is_in_one_run_or_one_tally(listed: list[DataFile]) -> None:
    plan = make_plan(listed, TARGET)
    total = plan.joined + plan.large + plan.between + plan.others
    assert total == Tally(len(listed), sum(each.bytes for each in listed))
    places = [listed.index(each) for group in plan.groups for each in group]
    assert places == sorted(set(places))


@given(LISTED)
def test_a_run_is_of_small_neighbours_of_one_version_up_to_the_target(listed: list[DataFile]) -> None:
    for group in make_plan(listed, TARGET).groups:
        sizes = [each.bytes for each in group]
        assert len(group) >= 2
        assert len({each.version for each in group}) == 1
        assert all(before.end == following.offset for before, following in pairwise(group))
        assert sum(sizes) <= TARGET
        assert max(sizes) < TARGET / 2
        assert 3 * max(sizes) <= 2 * sum(sizes)


@given(LISTED, st.sampled_from([0, 7]))
def test_carrying_a_plan_out_comes_to_an_end(listed: list[DataFile], extra: int) -> None:
    for _ in range(4):
        plan = make_plan(listed, TARGET)
        if not plan.groups:
            return
        before, listed = len(listed), after(listed, plan, extra)
        assert len(listed) < before
    assert make_plan(listed, TARGET).groups == ()


@given(st.lists(st.integers(1, TARGET // 2 - 1), min_size=2, max_size=200))
def test_files_of_like_sizes_are_left_in_few_small_ones(sizes: list[int]) -> None:
    small = [1 + size % 3 + TARGET // 20 for size in sizes]
    left = after(files(*small), make_plan(files(*small), TARGET), 0)
    assert sum(each.bytes < TARGET / 2 for each in left) <= 1


@pytest.mark.parametrize("each", [1, 10, 40])
def test_a_vacuum_after_every_file_writes_each_message_again_only_a_few_times(each: int) -> None:
    listed: list[DataFile] = []
    written = 0
    for number in range(TARGET):
        listed.append(file(number, each))
        plan = make_plan(listed, TARGET)
        written += plan.joined.bytes
        listed = after(listed, plan, 0)
    assert len(listed) < 2 * each + 20
    assert written < 8 * TARGET * each


def test_a_large_file_is_left_alone_and_parts_its_neighbours() -> None:
    plan = make_plan(files(10, 10, 500, 10, 10, 499), TARGET)
    assert joined(plan) == [[10, 10], [10, 10]]
    assert (plan.large, plan.others) == (Tally(1, 500), Tally(1, 499))


def test_versions_that_alternate_leave_nothing_to_join_and_the_plan_says_so() -> None:
    plan = make_plan(files(10, 20, 30, 40, versions="abab"), TARGET)
    assert (plan.groups, plan.between) == ((), Tally(4, 100))


@given(sizes=st.lists(st.integers(1, 600), max_size=40), room=st.integers(0, 45))
def test_what_is_left_for_later_is_what_there_is_no_room_for(sizes: list[int], room: int) -> None:
    whole = make_plan(files(*sizes), TARGET)
    plan = whole.within(room)
    assert plan.groups == whole.groups[: len(plan.groups)]
    assert plan.joined.files <= room
    assert plan.joined + plan.later == whole.joined
    assert len(plan.groups) == len(whole.groups) or plan.joined.files + len(whole.groups[len(plan.groups)]) > room


def test_a_single_small_file_of_the_only_version_is_not_between_others() -> None:
    assert make_plan(files(10), TARGET).others == Tally(1, 10)
    assert make_plan(files(600, 10, 600), TARGET).others == Tally(1, 10)
    assert make_plan(files(600, 10, 600, versions="bab"), TARGET).between == Tally(1, 10)


def test_a_version_that_comes_back_is_joined_on_each_side() -> None:
    assert joined(make_plan(files(1, 2, 9, 3, 4, versions="aabaa"), TARGET)) == [[1, 2], [3, 4]]


def test_no_more_than_so_many_files_go_into_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum_plan, "MOST_FILES", 3)
    assert joined(make_plan(files(*[10] * 7), TARGET)) == [[10] * 3, [10] * 3]


def test_what_is_not_contiguous_is_not_joined() -> None:
    listed = [file(0, 10), file(1, 10), file(2, 10, offset=9), file(3, 10, offset=11)]
    assert [len(run) for run in make_plan(listed, TARGET).groups] == [2, 2]


def test_an_empty_stream_has_an_empty_plan() -> None:
    assert make_plan([], TARGET) == VacuumPlan()


def daily(days: int) -> list[DataFile]:
    """A file for each day, of the messages of that day."""

    def at(hours: int) -> str:
        return timestamp(START + timedelta(hours=hours))

    return [msgspec.structs.replace(file(day, 10), first=at(24 * day), last=at(24 * day + 23)) for day in range(days)]


def test_where_messages_expire_a_file_spans_a_tenth_of_their_age() -> None:
    listed = daily(25)
    assert [len(group) for group in make_plan(listed, TARGET, timedelta(days=100)).groups] == [10, 10, 5]
    assert [len(group) for group in make_plan(listed, TARGET, timedelta(days=5)).groups] == []
    assert [len(group) for group in make_plan(listed, TARGET).groups] == [25]


def test_files_whose_times_are_unknown_are_joined_with_their_like_alone() -> None:
    """One among others would keep them all: a search by age ends at it."""
    listed = daily(8)
    for at in (3, 4):
        listed[at] = msgspec.structs.replace(listed[at], last="soon")
    assert [len(group) for group in make_plan(listed, TARGET, timedelta(days=100)).groups] == [3, 2, 3]
    assert [len(group) for group in make_plan(listed, TARGET).groups] == [8]
