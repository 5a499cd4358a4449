"""Tables on storage that honours no conditions, of which a database says which state is the newest."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from singerlake.errors import ConditionNotSupportedError, CorruptObjectError, SingerlakeError, UnknownOutcomeError
from singerlake.tables.maintain.collect import collect, plan_collection
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.read import LakeTable
from singerlake.tables.state.arbitrated import DROPPED
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import kept_state_key, state_key, table_prefix
from tests.storage.memory import Step
from tests.tables.tables import TABLE, capture, plain_rows, rows_of, small_sizes
from tests.tables.test_crashes import (
    DECLARED,
    ERRORS,
    EVERY,
    SIZES,
    KilledError,
    World,
    at_step,
    each_step,
    effects,
    leaves,
    requests,
)

KEY, PREFIX = state_key(TABLE), table_prefix(TABLE)


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_sizes(SIZES):
        yield


def new_world(kind: str = "latest", *, runs: int = 1) -> World:
    return World(DECLARED[kind], runs=runs, arbitrated=True)


def finish(world: World, when: str) -> None:
    """The next run brings the table to what it should be, and readers see it."""
    world.finish(when)
    world.check(wanted=(world.new,), when=f"{when}, to readers")
    assert load(world.storage, TABLE) is not None


@pytest.mark.crossed("runs", "error")
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("error", ["killed", "unknown", "away"])
@pytest.mark.parametrize("runs", [0, 1])
def test_a_run_that_fails_leaves_the_old_table_or_the_new_one(runs: int, error: str, every: int) -> None:
    world = new_world(runs=runs)
    act = raising(ERRORS[error])
    for when in each_step(world, act, counts=leaves(error), every=every):
        world.check(wanted=(world.old, world.new), when=when)
        finish(world, when)


def raising(error: BaseException) -> Callable[[Step], None]:
    def act(step: Step) -> None:
        raise error

    return act


@pytest.mark.parametrize("every", EVERY)
def test_two_runs_at_once_make_one_table(every: int) -> None:
    world = new_world()
    for when in each_step(world, lambda step: world.run(), counts=requests, every=every):
        world.check(wanted=(world.new,), when=when)
        assert world.run().run is None, f"{when}: there is something to do"


@pytest.mark.in_turn("runs")
@pytest.mark.parametrize("runs", [0, 1])
@pytest.mark.parametrize("every", EVERY)
def test_a_stale_run_takes_nothing_back(every: int, runs: int) -> None:
    world = new_world("history", runs=runs)
    newest = world.wanted(3)

    def overtake(step: Step) -> None:
        capture(world.lake, world.batches[2], SIZES)
        world.run()

    for when in each_step(world, overtake, counts=requests, every=every):
        world.check(wanted=(newest,), when=when)


@pytest.mark.parametrize("dropped", [False, True])
def test_a_writer_that_sleeps_before_it_shows_its_state_looks_again(dropped: bool) -> None:
    world = new_world()
    newest = world.wanted(3)

    def overtake(step: Step) -> None:
        if dropped:
            drop(world.used, plan_drop(world.used, TABLE))
            return
        capture(world.lake, world.batches[2], SIZES)
        world.run()

    with at_step(world.storage, showing(world), overtake):
        world.run()
    world.check(wanted=(None if dropped else newest,), when="it woke up")
    assert (world.storage.get(KEY) is None) == dropped


def showing(world: World) -> int:
    """The number of the step of a run at which it is about to show its state to readers."""
    with at_step(world.storage, -1, lambda step: None) as steps:
        world.run()
    world.again()
    return next(at for at, step in enumerate(steps) if step == Step("put", KEY, False))


@pytest.mark.parametrize("every", EVERY)
def test_a_reader_sees_one_table_at_any_time(every: int) -> None:
    world = new_world()
    held: list[LakeTable] = []

    def read(step: Step) -> None:
        world.check(wanted=(world.old, world.new), when=f"while {step}")
        held.append(LakeTable.load(world.storage, TABLE))

    for when in each_step(world, read, counts=requests, every=every):
        assert world.old is not None
        assert rows_of(held[-1]) in (plain_rows(world.old), plain_rows(world.new)), f"{when}: a snapshot is gone"


@pytest.mark.parametrize("every", EVERY)
def test_a_collector_takes_nothing_from_a_run(every: int) -> None:
    world = new_world("history")
    for when in each_step(world, lambda step: world.collect(), counts=requests, every=every):
        world.check(wanted=(world.new,), when=when)


@pytest.mark.parametrize("every", EVERY)
def test_a_collector_removes_all_that_a_killed_run_left(every: int) -> None:
    world = new_world()
    for when in each_step(world, raising(KilledError()), counts=effects, every=every):
        world.collect()
        world.collect(days=18)
        found = load(world.storage, TABLE)
        assert found is not None
        there = {entry.key for entry in world.storage.list(PREFIX)}
        kept = kept_state_key(TABLE, found.state.id)
        assert there == {KEY, kept, *(PREFIX + path for path in found.state.paths())}, when
        before = dict(world.storage._objects)
        world.collect(days=18)
        assert world.storage._objects == before, f"{when}: there is something to collect"
        finish(world, when)


@pytest.mark.in_turn("runs")
@pytest.mark.parametrize("runs", [0, 1])
@pytest.mark.parametrize("every", EVERY)
def test_a_run_does_not_bring_back_a_table_that_was_dropped(runs: int, every: int) -> None:
    world = new_world(runs=runs)
    refused, number = 0, 0
    while True:
        world.again()

        def dropped(step: Step) -> None:
            if world.used.get(KEY) is not None:
                drop(world.used, plan_drop(world.used, TABLE))

        told = ""
        with at_step(world.storage, number, dropped) as steps:
            try:
                world.run()
            except SingerlakeError as error:
                told = str(error)
        if told:
            assert "dropped while the run was at work" in told, steps[number]
            refused += 1
            assert world.storage.get(KEY) is None, steps[number]
        finish(world, f"step {number}")
        if len(steps) <= number:
            break
        number += every
    assert refused > 3


def test_a_drop_of_a_table_that_was_written_meanwhile_deletes_nothing() -> None:
    world = new_world()
    plan = plan_drop(world.used, TABLE)
    world.run()
    before = dict(world.storage._objects)
    with pytest.raises(SingerlakeError, match="written meanwhile"):
        drop(world.used, plan)
    assert world.storage._objects == before
    drop(world.used, plan_drop(world.used, TABLE))
    assert list(world.storage.list(PREFIX)) == []
    finish(world, "dropped")


def test_a_drop_that_was_killed_is_ended_by_the_next_writer() -> None:
    world = new_world()
    for number in range(12):
        world.again()
        plan = plan_drop(world.used, TABLE)
        with at_step(world.storage, number, raising(KilledError())), suppress(KilledError):
            drop(world.used, plan)
        shown = load(world.storage, TABLE)
        world.collect()
        if world.marks.marks[TABLE].startswith(DROPPED):
            assert [entry.key for entry in world.storage.list(PREFIX)] == [], f"step {number}, {shown}"
        finish(world, f"step {number}")


def test_a_table_that_is_made_again_while_a_drop_sleeps_is_shown_to_readers() -> None:
    world = new_world()
    plan = plan_drop(world.used, TABLE)
    for step in (Step("delete", KEY, False), Step("delete", KEY, True), Step("delete_all", PREFIX, False)):
        world.again()
        with at_step(world.storage, -1, lambda step: None) as steps:
            drop(world.used, plan)
        world.again()
        number = next((at for at, each in enumerate(steps) if each == step), len(steps) - 1)
        with at_step(world.storage, number, lambda step: world.run()):
            drop(world.used, plan)
        world.check(wanted=(world.new,), when=f"made again at {steps[number]}")


def test_what_a_dead_writer_sent_late_is_put_right_by_the_next_one() -> None:
    """Also by one that has nothing to do, and by a collector."""
    world = new_world()
    older = world.storage.get(KEY)
    assert older is not None
    world.run()
    world.collect()
    for act in (world.run, world.collect):
        world.storage.put(KEY, older.body)
        act()
        world.check(wanted=(world.new,), when="sent late")


@pytest.mark.parametrize("mark", ["earlier", "none", "gone"])
def test_a_database_that_was_restored_is_gone_on_from(mark: str) -> None:
    """What readers were shown stays, whether the state of the mark is kept or not."""
    world = new_world()
    earlier, kept = dict(world.marks.marks), dict(world.storage._objects)
    world.run()
    world.marks.marks = {} if mark == "none" else earlier
    if mark == "gone":
        world.storage._objects |= {key: body for key, body in kept.items() if "_states/" in key}
    assert world.run().run is None
    world.check(wanted=(world.new,), when="restored")
    capture(world.lake, world.batches[2], SIZES)
    assert world.run().run is not None
    world.check(wanted=(world.wanted(3),), when="and gone on")


def test_a_lost_state_that_the_database_marks_is_made_again() -> None:
    world = new_world()
    for key in [entry.key for entry in world.storage.list(PREFIX) if entry.key == KEY or "_states/" in entry.key]:
        world.storage.delete(key)
    finish(world, "lost")


def test_a_broken_state_that_readers_are_shown_is_replaced_by_the_one_that_is_kept() -> None:
    world = new_world()
    world.run()
    world.storage.put(KEY, b"{")
    with pytest.raises(CorruptObjectError):
        load(world.storage, TABLE)
    assert world.run().run is None
    world.check(wanted=(world.new,), when="broken")


def test_a_mark_that_nobody_made_is_refused() -> None:
    world = new_world()
    world.marks.marks[TABLE] = "../../raw/singerlake"
    with pytest.raises(CorruptObjectError, match="mark of a table"):
        world.run()


def test_a_table_of_storage_that_honoured_conditions_goes_on() -> None:
    """As in a copy of a lake. Of two that take it over at once one is refused, and begins again."""
    plain, world = World(DECLARED["latest"]), new_world(runs=0)
    world.storage._objects |= {key: body for key, body in plain.storage._objects.items() if key.startswith(PREFIX)}
    world.lake, world.declaration = plain.lake, plain.declaration
    world._objects = {**plain.storage._objects}
    world.storage._objects = dict(world._objects)
    plain.lake.__dict__["storage"] = world.storage
    for when in each_step(world, lambda step: world.run(), counts=requests, every=5):
        world.check(wanted=(world.new,), when=when)


def test_a_delta_log_is_refused_before_anything_is_written() -> None:
    world = new_world("latest", runs=0)
    before = dict(world.storage._objects)
    delta = World(DECLARED["delta"], runs=0).declaration
    world.declaration = delta
    with pytest.raises(ConditionNotSupportedError, match="a Delta log needs them"):
        world.run()
    assert world.storage._objects == before


def test_storage_that_takes_no_conditions_gets_none() -> None:
    world = new_world(runs=0)
    world.storage._takes_conditions = False
    capture(world.lake, world.batches[2], SIZES)
    world.run()
    world.check(wanted=(world.wanted(3),), when="501 to conditions")


def test_files_are_not_deleted_a_grace_time_before_readers_were_shown_what_replaced_them() -> None:
    world = new_world("sorted")
    with at_step(world.storage, showing(world), raising(KilledError())), suppress(KilledError):
        world.run()
    held = LakeTable.load(world.storage, TABLE)
    grace = timedelta(hours=6)
    for hours in (100, 5):
        world.clock.seconds += hours * 3600
        plan = plan_collection(world.used, TABLE, now=world.clock.now(), grace=grace)
        assert collect(world.used, plan, clock=world.clock, ids=world.lake.ids) is not None
        assert world.old is not None
        assert rows_of(held) == plain_rows(world.old), f"after {hours} hours"
        world.check(wanted=(world.new,), when="collected")


def test_random_steps_of_many_runs_collectors_drops_and_readers() -> None:
    chance = random.Random(11)
    world = new_world("history")

    def drop_it(step: Step) -> None:
        if world.used.get(KEY) is not None:
            with suppress(SingerlakeError):
                drop(world.used, plan_drop(world.used, TABLE))

    acts: list[Callable[[Step], Any]] = [
        raising(KilledError()),
        raising(UnknownOutcomeError("unknown")),
        lambda step: world.run(),
        lambda step: world.run(full_refresh=True),
        lambda step: world.collect(),
        drop_it,
    ]
    for turn in range(60):
        act = chance.choice(acts)
        with at_step(world.storage, chance.randrange(80), act), suppress(KilledError, SingerlakeError):
            world.run(full_refresh=turn % 3 == 0)
        world.check(wanted=(None, world.old, world.new), when=f"turn {turn}")
    finish(world, "at the end")
