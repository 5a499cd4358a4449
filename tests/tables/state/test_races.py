"""Runs that others overtake: what they made is published behind what came first, wherever that is sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from singerlake.errors import CheckFailedError, MissingFileError, SingerlakeError, TooManyConflictsError
from singerlake.tables.maintain.collect import collect, plan_collection
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.run.write import TableAttempt
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import state_key, table_prefix
from singerlake.tables.state.model import TableState
from tests.storage.memory import MemoryStorage, Step
from tests.tables.tables import TABLE, capture, declaration_of, runner_of, small_sizes
from tests.tables.test_crashes import DECLARED, SIZES, World

PREFIX = table_prefix(TABLE)


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_sizes(SIZES):
        yield


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The offsets that each work took in, from its beginning on."""
    found: list[tuple[int, int]] = []
    do = TableAttempt.do

    def noted(work: TableAttempt) -> None:
        found.append((work.plan.start, work.plan.stop))
        do(work)

    monkeypatch.setattr(TableAttempt, "do", noted)
    return found


def before_commits(storage: MemoryStorage, times: int, act: Callable[[], object]) -> list[int]:
    """Do ``act`` right before each of the next commits; gives which of them were met."""
    met: list[int] = []

    def hook(step: Step) -> None:
        if (step.operation, step.key, step.done) == ("put", state_key(TABLE), False) and len(met) < times:
            met.append(len(met))
            storage.hook = lambda step: None
            act()
            storage.hook = hook

    storage.hook = hook
    return met


def state_of(world: World) -> TableState:
    found = load(world.storage, TABLE)
    assert found is not None
    return found.state


def garbage_collected(world: World, *, grace: timedelta) -> None:
    """A collector's write at this moment. There is always a file for it to delete."""
    plan = plan_collection(world.storage, TABLE, now=world.clock.now(), grace=grace)
    key = PREFIX + f"g1/{TABLE}-{'v' * 16}.parquet"
    world.storage.put(key, b"")
    entry = world.storage.head(key)
    assert entry is not None
    plan = replace(plan, unlisted=(*plan.unlisted, entry))
    assert collect(world.storage, plan, clock=world.clock, ids=world.lake.ids) is not None


def next_capture(world: World) -> None:
    """The third capture, in the lake and in the table."""
    capture(world.lake, world.batches[2], SIZES)
    world.run()


@pytest.mark.parametrize("refresh", [False, True])
@pytest.mark.parametrize("kind", DECLARED)
def test_a_run_goes_behind_collectors_that_spare_its_files(
    kind: str, refresh: bool, done: list[tuple[int, int]]
) -> None:
    world = World(DECLARED[kind])
    done.clear()
    before = state_of(world)
    met = before_commits(world.storage, 9, lambda: garbage_collected(world, grace=timedelta(seconds=1)))
    outcome = runner_of(world.lake).run(world.declaration, full_refresh=refresh)
    assert (len(met), len(done)) == (9, 1), "the work was done again"
    state = state_of(world)
    assert [run.kind for run in state.runs[-10:]] == ["collect"] * 9 + ["rebuild" if refresh else "run"]
    assert (state.number, state.generation) == (before.number + 10, before.generation + refresh)
    assert outcome.state == state
    gone = before.paths() - state.paths()
    assert {file.path for file in state.retired} == gone
    world.check(wanted=(world.new,), when="behind nine collectors")


@pytest.mark.parametrize("kind", DECLARED)
def test_a_run_whose_files_a_collector_may_delete_is_done_again(kind: str, done: list[tuple[int, int]]) -> None:
    world = World(DECLARED[kind])
    done.clear()
    deleted: list[Callable[[], None]] = []
    real = world.storage.delete_all

    def late(keys: object) -> None:
        # The collector sleeps between its write and what it deletes.
        deleted.append(lambda: real(keys))  # type: ignore[arg-type]

    def collected() -> None:
        world.storage.delete_all = late  # type: ignore[method-assign]
        try:
            garbage_collected(world, grace=timedelta(seconds=0))
        finally:
            world.storage.delete_all = real  # type: ignore[method-assign]

    met = before_commits(world.storage, 1, collected)
    runner_of(world.lake).run(world.declaration)
    assert (len(met), len(done)) == (1, 2)
    for delete in deleted:
        delete()
    world.check(wanted=(world.new,), when="when the collector woke up")


def test_a_full_refresh_takes_in_what_increments_took_in_meanwhile(done: list[tuple[int, int]]) -> None:
    """Runs of every minute overtake it each time, and it is published all the same, ahead of none of them."""
    world = World(DECLARED["latest"])
    done.clear()
    first = state_of(world)
    generation, overtaken = first.generation, []

    def increment() -> None:
        if not overtaken:
            next_capture(world)
        else:
            garbage_collected(world, grace=timedelta(seconds=1))
        overtaken.append(state_of(world))

    met = before_commits(world.storage, 7, increment)
    outcome = runner_of(world.lake).run(world.declaration, full_refresh=True)
    world.storage.hook = lambda step: None
    state = state_of(world)
    stop = overtaken[-1].sources[0].offset
    assert len(met) == 7
    # The refresh, the increment that overtook it, and the same offsets once more.
    assert done == [(0, 20), (first.sources[0].offset, stop), (20, stop)]
    assert (outcome.run, state.generation) == (state.runs[-1], generation + 1)
    assert outcome.run is not None
    assert (outcome.run.kind, outcome.run.start, outcome.run.stop) == ("rebuild", 0, stop)
    assert outcome.run.records == 27
    assert state.number == overtaken[-1].number + 1
    assert all(path.startswith(("g2/", "_side/")) for path in state.paths())
    assert {file.path for file in state.retired} >= overtaken[-1].paths()
    world.check(wanted=(world.wanted(3),), when="after increments")
    assert runner_of(world.lake).run(world.declaration).run is None
    there = {entry.key.removeprefix(PREFIX) for entry in world.storage.list(PREFIX)} - {"_table.json"}
    assert there == state.paths() | {file.path for file in state.retired}, "something is left that nothing names"


@pytest.mark.parametrize("kind", DECLARED)
def test_two_full_refreshes_at_once_are_both_made(kind: str, done: list[tuple[int, int]]) -> None:
    world = World(DECLARED[kind])
    done.clear()
    generation = state_of(world).generation
    before_commits(world.storage, 1, lambda: runner_of(world.lake).run(world.declaration, full_refresh=True))
    runner_of(world.lake).run(world.declaration, full_refresh=True)
    assert (len(done), state_of(world).generation) == (2, generation + 2)
    world.check(wanted=(world.new,), when="twice")


def test_a_full_refresh_that_new_messages_fail_leaves_nothing() -> None:
    world = World(DECLARED["latest"])
    declared = replace(DECLARED["latest"], null_keys="fail")
    declaration = declaration_of(declared)
    there: list[set[str]] = []

    def increment() -> None:
        lines = ({"type": "RECORD", "stream": "s", "record": {"id": None, "at": 1}, "version": 9},)
        capture(world.lake, replace(world.batches[2], messages=lines), SIZES)
        runner_of(world.lake).run(declaration_of(replace(declared, null_keys="drop")))
        there.append({entry.key for entry in world.storage.list(PREFIX)})

    runner_of(world.lake).run(declaration)
    before_commits(world.storage, 1, increment)
    with pytest.raises(CheckFailedError):
        runner_of(world.lake).run(declaration, full_refresh=True)
    left = {entry.key for entry in world.storage.list(PREFIX)}
    named = state_of(world).paths() | {file.path for file in state_of(world).retired}
    assert left == {state_key(TABLE), *(PREFIX + path for path in named)}


@pytest.mark.crossed("refresh", "runs")
@pytest.mark.parametrize("refresh", [False, True])
@pytest.mark.parametrize("runs", [0, 1])
def test_a_run_does_not_bring_back_a_table_that_was_dropped(runs: int, refresh: bool) -> None:
    """At each of its steps: a run that has begun ends with an error, and one that begins later makes the table anew."""
    number, refused = 0, 0
    world = World(DECLARED["latest"], runs=runs)
    while True:
        world.again()
        steps: list[Step] = []

        def hook(step: Step, number: int = number, steps: list[Step] = steps) -> None:
            steps.append(step)
            if len(steps) == number + 1 and world.storage.head(state_key(TABLE)) is not None:
                world.storage.hook = lambda step: None
                drop(world.storage, plan_drop(world.storage, TABLE))
                world.storage.hook = hook

        world.storage.hook = hook
        told = ""
        try:
            runner_of(world.lake).run(world.declaration, full_refresh=refresh)
        except SingerlakeError as error:
            told = str(error)
        world.storage.hook = lambda step: None
        if told:
            assert "dropped while the run was at work" in told, steps[number]
            refused += 1
            assert world.storage.get(state_key(TABLE)) is None, steps[number]
        world.finish(f"step {number}")
        if len(steps) <= number:
            break
        number += 5
    assert refused > 5


def test_a_drop_of_a_table_that_was_written_meanwhile_deletes_nothing() -> None:
    world = World(DECLARED["latest"])
    plan = plan_drop(world.storage, TABLE)
    world.run()
    before = dict(world.storage._objects)
    with pytest.raises(TooManyConflictsError):
        drop(world.storage, plan)
    assert world.storage._objects == before
    drop(world.storage, plan_drop(world.storage, TABLE))
    assert list(world.storage.list(PREFIX)) == []


def test_a_collector_without_a_state_spares_one_that_comes_meanwhile() -> None:
    """The state is there while the collector lists, gone when it looks again, and there when it deletes."""
    world = World(DECLARED["latest"])
    state = world.storage.get(state_key(TABLE))
    assert state is not None
    world.storage.delete(state_key(TABLE))
    seen: list[Step] = []

    def hook(step: Step) -> None:
        seen.append(step)
        world.storage.hook = lambda step: None
        if (step.operation, step.done) == ("list", False):
            world.storage.put(state_key(TABLE), b"{}")
        elif (step.operation, step.done) == ("list", True):
            world.storage.delete(state_key(TABLE))
        world.storage.hook = hook

    world.storage.hook = hook
    plan = plan_collection(world.storage, TABLE, now=world.clock.now(), grace=timedelta(0))
    world.storage.hook = lambda step: None
    assert plan.base is None
    assert plan.unlisted
    world.run()
    assert collect(world.storage, plan, clock=world.clock, ids=world.lake.ids) is not None
    world.check(wanted=(world.new,), when="after the collector")


@pytest.mark.parametrize(
    "wrong", [timedelta(hours=1), timedelta(hours=-1), timedelta(days=1), timedelta(days=-1)], ids=str
)
def test_a_replaced_file_stays_its_grace_time_whatever_a_writers_clock_says(wrong: timedelta) -> None:
    world = World(DECLARED["sorted"])
    clock, grace, hour = world.clock, timedelta(hours=6), 3600.0
    reader = state_of(world)
    runner = runner_of(world.lake)
    writers = type(clock)()
    writers.seconds = clock.seconds + wrong.total_seconds()
    replace(runner, clock=writers).run(world.declaration, full_refresh=True)
    replaced = {PREFIX + path for path in reader.paths()}

    def hours(count: float) -> set[str]:
        """What of the replaced files is left when a collector came that much later."""
        clock.seconds += count * hour
        plan = plan_collection(world.storage, TABLE, now=clock.now(), grace=grace)
        collect(world.storage, plan, clock=writers, ids=world.lake.ids)
        return replaced & {entry.key for entry in world.storage.list(PREFIX)}

    assert replaced
    assert hours(30) == replaced, "gone before any collector saw that they are replaced"
    assert hours(5.9) == replaced
    assert hours(0.2) == set()
    assert state_of(world).retired == ()
    world.check(wanted=(world.new,), when="collected")


@pytest.mark.parametrize("collected", [False, True])
def test_an_older_state_that_was_put_back_is_gone_on_from_or_made_anew(collected: bool) -> None:
    world = World(DECLARED["latest"])
    older = world.storage.get(state_key(TABLE))
    assert older is not None
    world.run()
    if collected:
        for _ in range(2):
            world.collect()
            world.clock.seconds += 10 * 86400
    world.storage.put(state_key(TABLE), older.body)
    if collected:
        with pytest.raises(MissingFileError, match="--full-refresh"):
            world.run()
        runner_of(world.lake).run(world.declaration, full_refresh=True)
    world.finish("put back")
