"""One simulated run, from a seed or a schedule to a verdict."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import singerlake.lock_file
import singerlake.stores.segments.objects
from tests.simulation.jobs import Actor, CollectorJob, PublisherJob, ReaderJob, SweeperJob, TrimmerJob, VacuumJob
from tests.simulation.stores.kinds import MERGE, Kind
from tests.simulation.watches.merge import MergeWatch
from tests.simulation.watches.segments import SegmentWatch
from tests.simulation.watches.watched import WatchedStore
from tests.simulation.world.choices import identities, scripted, seeded
from tests.simulation.world.faults import profile
from tests.simulation.world.scheduler import Process, Violated
from tests.simulation.world.threads import SimulatedThreading
from tests.simulation.world.world import World

CALM_AFTER = 400
"""Steps after which nothing more goes wrong."""
MOST_STEPS = 8000
_SETTLE_ROUNDS = 6
LONGEST = 96 * 3600.0
"""Simulated seconds in which everybody who is not dead for good must have finished."""


@dataclass(frozen=True)
class Verdict:
    """What became of a run. ``schedule`` replays it without the seed."""

    kind: str
    seed: int
    violation: str | None
    steps: int
    seconds: float
    schedule: tuple[int, ...]
    trace: tuple[str, ...]


def simulate(kind: Kind, seed: int, *, schedule: Sequence[int] | None = None, trace: bool = False) -> Verdict:
    """Run ``kind`` by a seed, or by a schedule in place of the seed's own."""
    choices = seeded(seed) if schedule is None else scripted(schedule)
    world = World(choices, profile(choices), identities(seed), kind.truth, conditions=kind.conditions, trace=trace)
    world.watches = kind.watches(world)
    world.watches.segments = SegmentWatch(world.fail, world.storage.as_it_is, world.storage.keys, world.prefix)
    world.transient += kind.transient
    world.note(f"{kind.name}, {world.profile}")
    with _in_simulation(world), kind.patched():
        try:
            _work(world, kind)
        except Violated:
            pass
        except Exception:
            # What no actor may raise: an error for people to look at where there was nothing to see, or a defect.
            world.violation = world.violation or f"an actor ended with an error\n{traceback.format_exc()}"
        finally:
            world.scheduler.end()
    return Verdict(
        kind=kind.name,
        seed=seed,
        violation=world.violation,
        steps=world.scheduler.steps,
        seconds=world.scheduler.now,
        schedule=tuple(choices.taken),
        trace=tuple(world.lines or ()),
    )


def _work(world: World, kind: Kind) -> None:
    for job in (kind.cast or cast_of)(world, kind):
        world.start(job, after=world.choices.one_of((0.0, 0.1, 5.0)))
    _until(world, lambda: not world.unfinished)
    if world.violation is not None:
        return
    world.faults.cease()
    world.scheduler.land(everything=True)
    auditor = (kind.auditor or Auditor)("auditor", world, kind)
    world.start(auditor)
    _until(world, lambda: not world.unfinished)


def cast_of(world: World, kind: Kind) -> Iterator[Actor]:
    """Who takes part."""
    choices = world.choices
    for number in range(choices.one_of((2, 2, 3, 1, 4))):
        batches = tuple(1 + choices.below(4) for _ in range(1 + choices.below(4)))
        yield kind.writer_job(f"writer{number}", world, kind, batches)
    for number in range(choices.below(3)):
        yield ReaderJob(f"reader{number}", world, kind, 2 + choices.below(6))
    for number in range(choices.below(4)):
        yield TrimmerJob(f"trimmer{number}", world, kind, 1 + choices.below(5))
    for number in range(choices.one_of((0, 0, 1, 1, 2))):
        yield VacuumJob(f"vacuum{number}", world, kind, 2 + choices.below(5))
    if choices.below(3) == 1:
        yield SweeperJob("sweeper", world, kind, 1 + choices.below(3))
    if choices.below(3) == 1:
        yield CollectorJob("collector", world, kind, 2 + choices.below(6))
    if choices.below(2):
        yield PublisherJob("publisher", world, kind, 1 + choices.below(3))
    yield from kind.extras(world, kind)


class Auditor(Actor):
    """A fresh reader when all is over: it sees every acknowledged file, and the state that is the newest."""

    def run(self, process: Process) -> None:
        world, store = self.world, self.store(process)
        if store.abilities.settles and self.kind.successor is None:
            self._settle(store, process)
        loaded = store.load()
        if loaded is None or world.truth.newest is None:
            world.fail("there is no state at the end")
            return
        if loaded.manifest.transaction != world.truth.newest.transaction:
            world.fail("a fresh reader does not find the newest state")
        lost = world.truth.unlisted()
        if lost:
            world.fail(f"acknowledged files are lost: {', '.join(lost)}")
        for file in loaded.manifest.files:
            if world.storage.as_it_is(world.prefix + file.path) is None:
                world.fail(f"listed file {file.id} is not on storage")

    def _settle(self, store: WatchedStore, process: Process) -> None:
        """Let everything take its place, whoever left it behind."""
        assert self.world.watches is not None
        watch = self.world.watches.log
        assert isinstance(watch, MergeWatch)
        for _ in range(_SETTLE_ROUNDS):
            process.clock.sleep(MERGE.lag_ms / 1000 + 1)
            store.trim(keep=1000, dry_run=False)
            if not watch.unplaced():
                return
        self.world.fail(f"receipts were given for what no record holds: {', '.join(sorted(watch.unplaced()))}")


def _until(world: World, over: Callable[[], bool]) -> None:
    scheduler = world.scheduler

    def goes_on() -> bool:
        if scheduler.steps == CALM_AFTER:
            world.faults.cease()
        return world.violation is None and not over() and scheduler.steps < MOST_STEPS and scheduler.now < LONGEST

    scheduler.run(goes_on=goes_on)
    if world.violation is None and not over():
        names = ", ".join(sorted(job.name for job in world.unfinished))
        world.fail(f"not finished after {scheduler.steps} steps and {scheduler.now:.0f} s: {names}")


@contextmanager
def _in_simulation(world: World) -> Iterator[None]:
    """The product's threads and the names of its segments are the world's, and its warnings nobody's."""
    logger = logging.getLogger("singerlake")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with (
            mock.patch.object(singerlake.lock_file, "threading", SimulatedThreading(world.scheduler)),
            mock.patch.object(singerlake.stores.segments.objects, "random_id", world.ids),
        ):
            yield
    finally:
        logger.setLevel(level)
