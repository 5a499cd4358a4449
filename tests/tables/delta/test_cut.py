"""Logs without some of their commits: a drop deletes what it listed, and a run may begin meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from singerlake.errors import TooManyConflictsError
from singerlake.tables.declaration.model import Format
from singerlake.tables.delta.log import commit_key
from singerlake.tables.maintain.collect import collect_table
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.maintain.verify import verify_derived
from singerlake.tables.read import LakeTable
from singerlake.tables.state.keys import state_key
from tests.tables.delta.test_readers import DECLARED as READ
from tests.tables.delta.test_readers import PROPERTIES, capture, check_readers, lake_in, record
from tests.tables.delta.world import DECLARED, GRACE, World
from tests.tables.tables import check_log, runner_of
from tests.tables.test_crashes import at_step


def as_it_is(world: World) -> None:
    """Nothing comes before."""


def half_dropped(world: World) -> None:
    """A dropper died behind its first request."""
    world.storage.delete(state_key("t"))


def in_another_format(world: World) -> None:
    """The table is one of parquet for a while, and its log is to be collected."""
    world.run(replace(DECLARED, format=Format.PARQUET))


def drops(world: World) -> None:
    drop(world.storage, plan_drop(world.storage, "t"))


def collects(world: World) -> None:
    now = world.clock.now() + 2 * GRACE
    collect_table(world.storage, "t", now=lambda: now, grace=GRACE, clock=world.clock, ids=world.lake.ids)


def check(world: World) -> None:
    """The log shows the table. One that was dropped counts its writes anew, so ``World.check`` does not fit."""
    check_log(LakeTable.load(world.storage, "t"), "mended")
    assert list(verify_derived(world.storage, world.state)) == []


@pytest.mark.parametrize("versions", [2, pytest.param(13, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("prepare", "delete"), [(as_it_is, drops), (half_dropped, collects), (in_another_format, collects)]
)
def test_a_run_while_the_log_is_deleted_leaves_one_that_the_next_run_mends(
    prepare: Callable[[World], None], delete: Callable[[World], None], versions: int
) -> None:
    """At each step of what deletes, a run makes the table one of delta; the next one has nothing else to do."""
    world = World()
    world.turns(versions)
    prepare(world)
    before = dict(world.storage._objects)
    told = set()
    for number in itertools.count():
        world.storage._objects = dict(before)
        steps = at_step(world.storage, number, lambda step: world.run())
        with steps as done, suppress(TooManyConflictsError):
            delete(world)
        if len(done) <= number:
            break
        if world.storage.head(state_key("t")) is not None:
            told |= {each.what for each in verify_derived(world.storage, world.state)}
        world.run()
        check(world)
        world.turns(1)
        check(world)
    assert "a commit of the Delta log is gone; run 'singerlake project run'" in told


@pytest.mark.parametrize(
    "gone", [subset for count in (1, 2, 3, 4) for subset in itertools.combinations(range(4), count)]
)
def test_any_commits_may_be_gone(gone: tuple[int, ...]) -> None:
    world = World()
    world.turns(4)
    for version in gone:
        world.storage.delete(commit_key("t", version))
    assert [each.what for each in verify_derived(world.storage, world.state)]
    world.run()
    world.check()
    world.turns(2)
    world.check()


def test_a_writer_that_dies_between_the_whole_commit_and_its_checkpoint_is_followed() -> None:
    world = World()
    world.turns(3)
    world.storage.delete(commit_key("t", 1))
    world.behind()
    put = world.storage.put

    def without_checkpoint(key: str, *given: object, **more: object) -> object:
        if "checkpoint" in key:
            raise KeyboardInterrupt
        return put(key, *given, **more)  # type: ignore[arg-type]

    world.storage.put = without_checkpoint  # type: ignore[assignment,method-assign]
    with pytest.raises(KeyboardInterrupt):
        world.run()
    world.storage.put = put  # type: ignore[method-assign]
    (found,) = verify_derived(world.storage, world.state)
    assert found.what == "a commit of the Delta log is gone; run 'singerlake project run'"
    world.run()
    world.check()
    world.turns(12)
    world.check()


def test_readers_of_delta_read_a_log_that_was_mended(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    for turn in range(3):
        capture(lake, PROPERTIES, [record(id, turn) for id in range(turn, turn + 3)])
        runner_of(lake).run(READ)
    lake.storage.delete(commit_key("t", 0))
    runner_of(lake).run(READ)
    check_readers(tmp_path, LakeTable.load(lake.storage, "t"))
    capture(lake, PROPERTIES, [record(9, 9)])
    runner_of(lake).run(READ)
    check_readers(tmp_path, LakeTable.load(lake.storage, "t"))
