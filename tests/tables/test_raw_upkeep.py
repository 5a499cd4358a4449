"""Tables while raw is looked after: streams that are vacuumed, collected, rebuilt or moved between and during runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from singerlake.errors import LineageChangedError, SingerlakeError
from singerlake.lake import Lake
from singerlake.tables.state.commit import load
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.defaults import TARGET_BYTES
from singerlake.upkeep.gc.apply import collect_stream
from singerlake.upkeep.migrate import migrate_stream
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from tests.fakes import FakeClock
from tests.storage.memory import Step
from tests.tables.tables import STREAM, TABLE, TAP, capture, run_and_check, runner_of, small_sizes
from tests.tables.test_crashes import DECLARED, EVERY, SIZES, World, at_step, numbers, requests

GRACE = timedelta(days=7)


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_sizes(SIZES):
        yield


def _context(lake: Lake) -> StreamContext:
    return StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, lake.stream(TAP, STREAM).store("lockfile"))


def _vacuum(world: World) -> None:
    vacuum_stream(_context(world.lake), target_bytes=TARGET_BYTES, threads=1)


def _vacuum_and_collect(world: World) -> None:
    """Long enough for the files before to be gone."""
    _vacuum(world)
    assert isinstance(world.clock, FakeClock)
    for _ in range(3):
        world.clock.seconds += 2 * GRACE.total_seconds()
        collect_stream(_context(world.lake), grace=GRACE, delete=True, threads=1)


def _rebuild(world: World) -> None:
    """Offsets mean other records from now on."""
    repair_stream(_context(world.lake), RepairOptions(discard=True))


def _move(world: World) -> None:
    migrate_stream(_context(world.lake), world.lake.stream(TAP, STREAM).store("log"))


UPKEEP: dict[str, Callable[[World], None]] = {
    "vacuum": _vacuum,
    "collect": _vacuum_and_collect,
    "rebuild": _rebuild,
    "move": _move,
}


@pytest.mark.crossed("kind", "upkeep")
@pytest.mark.parametrize("upkeep", UPKEEP)
@pytest.mark.parametrize("kind", DECLARED)
def test_between_runs(kind: str, upkeep: str) -> None:
    world = World(DECLARED[kind])
    UPKEEP[upkeep](world)
    run_and_check(runner_of(world.lake), world.declaration, world.new, "run")
    found = load(world.storage, TABLE)
    assert found is not None
    assert found.state.runs[-1].kind == ("rebuild" if upkeep == "rebuild" else "run")
    if upkeep != "move":
        UPKEEP[upkeep](world)
        capture(world.lake, world.batches[2], SIZES)
        run_and_check(runner_of(world.lake), world.declaration, world.wanted(3), "run again")


@pytest.mark.sampled(upkeep=1)
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("upkeep", UPKEEP)
def test_during_a_run(upkeep: str, every: int) -> None:
    world = World(DECLARED["latest"])
    for number in numbers(world, requests, every):
        world.again()
        done: list[Step] = []

        def act(step: Step, done: list[Step] = done) -> None:
            # What a stream cannot be brought to in the middle of a request of another is tried no further.
            UPKEEP[upkeep](world)
            done.append(step)

        with at_step(world.storage, number, act) as steps, suppress(LineageChangedError):
            world.run()
        assert done, f"step {number}, {steps[number]}"
        world.check(wanted=(world.old, world.new), when=f"step {number}, {steps[number]}")
        world.finish(f"step {number}")


def test_a_stream_that_lost_its_manifest_is_refused() -> None:
    world = World(DECLARED["latest"])
    key = next(entry.key for entry in world.storage.list("raw/") if entry.key.endswith("/manifest.json"))
    world.storage.delete(key)
    before = dict(world.storage._objects)
    with pytest.raises(SingerlakeError, match="manifest is lost"):
        world.run()
    assert world.storage._objects == before


def test_a_stream_that_was_put_back_is_refused_before_anything_is_written() -> None:
    """As from a backup: the table holds more than the stream."""
    world = World(DECLARED["latest"])
    earlier = dict(world.storage._objects)
    capture(world.lake, world.batches[2], SIZES)
    world.run()
    for key, stored in earlier.items():
        if key.endswith("/manifest.json"):
            world.storage._objects[key] = stored
    before = dict(world.storage._objects)
    with pytest.raises(SingerlakeError, match="the stream ends at 20"):
        world.run()
    assert world.storage._objects == before
