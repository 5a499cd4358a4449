"""Who takes part: runs, readers, collectors, and a tap whose stream grows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from singerlake.errors import MissingFileError, TooManyConflictsError, UnknownNameError
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.maintain.collect import TableCollection, collect, plan_collection
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import state_key
from singerlake.tables.tasks.files import _body
from tests.simulation.jobs import Actor
from tests.simulation.stores.kinds import Kind
from tests.simulation.tables.watch import TableWatch
from tests.simulation.tables.work import DECLARATION, PREFIX, TABLE, SimulatedRunner, rows_in, runner_of
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World

GRACE = 4 * 3600.0
"""Seconds: a process stands still for less, and the clocks of two processes are less apart."""
HELD = 3600.0
"""Seconds for which a reader may hold a snapshot and have its files."""


@dataclass(eq=False)
class TableActor(Actor):
    def watch(self) -> TableWatch:
        """What is known of the table."""
        assert isinstance(self.world.watches, TableWatch)
        return self.world.watches

    def check_snapshot(self, process: Process, *, rest: bool) -> None:
        """Read the table, with rests between its files: all of them are there, and they are one table."""
        drops = self.watch().drops
        found = load(self.world.storage, TABLE)
        began = self.world.scheduler.now
        if found is None:
            return
        rows = []
        for file in found.state.files:
            if rest:
                self.rest(process)
            assert file.path is not None
            try:
                rows.append(rows_in(_body(self.world.storage, PREFIX + file.path, file.bytes, file.sha256)))
            except MissingFileError:
                if self.world.scheduler.now - began <= HELD and self.watch().drops == drops:
                    self.world.fail(f"a reader misses a file within its grace time: {file.path}")
                return
        self.watch().check(found.state, rows)


@dataclass(eq=False)
class RunJob(TableActor):
    """Brings the table up to its stream, a few times; ``refresh``: made anew each second time."""

    times: int
    refresh: bool = False
    declaration: TableDeclaration = DECLARATION

    def run(self, process: Process) -> None:
        runner = self.runner(process)
        while self.times:
            self.rest(process)
            if self.world.choices.below(2):
                self.world.shared["offset"] = self.world.shared.get("offset", 1) + 1 + self.world.choices.below(5)
            wanted = self.world.shared.get("offset", 1)
            self.watch().begins(process.name)
            drops = self.watch().drops
            try:
                outcome = runner.run(self.declaration, full_refresh=self.refresh and self.times % 2 == 0)
            except (TooManyConflictsError, MissingFileError):
                if self.watch().drops == drops:
                    raise
                continue
            assert outcome.state is not None
            self.watch().told(outcome.state, self.name)
            if outcome.state.sources[0].offset < wanted:
                self.world.fail(f"{self.name} ended at {outcome.state.sources[0].offset}, before {wanted}")
            self.times -= 1

    def runner(self, process: Process) -> SimulatedRunner:
        """What runs tables in a process."""
        return runner_of(self.world, process.clock)


@dataclass(eq=False)
class TableReaderJob(TableActor):
    """Reads the table, a few times."""

    times: int

    def run(self, process: Process) -> None:
        while self.times:
            self.rest(process)
            self.check_snapshot(process, rest=True)
            self.times -= 1


@dataclass(eq=False)
class TableDropperJob(TableActor):
    """Drops the table, once in a while."""

    times: int

    def run(self, process: Process) -> None:
        self.watch().droppers.add(process.name)
        while self.times:
            self.rest(process)
            try:
                self.drop()
            except (UnknownNameError, TooManyConflictsError):
                continue
            finally:
                self.times -= 1

    def drop(self) -> None:
        """Once, where it is there and nobody writes it."""
        drop(self.world.storage, plan_drop(self.world.storage, TABLE))


@dataclass(eq=False)
class _FilesFirst(TableDropperJob):
    """Deletes the files before the state."""

    def drop(self) -> None:
        plan = plan_drop(self.world.storage, TABLE)
        self.world.storage.delete_all(plan.keys)
        drop(self.world.storage, plan)


@dataclass(eq=False)
class TableCollectorJob(TableActor):
    """Collects, a few times, hours apart; ``hasty``: many times, seconds apart, and what is unlisted for one goes."""

    times: int
    hasty: bool = False

    def run(self, process: Process) -> None:
        while self.times:
            if self.hasty:
                process.clock.sleep(self.world.choices.one_of((1.0, 5.0, 20.0)))
            else:
                self.rest(process)
                if self.world.choices.below(2):
                    process.clock.sleep(GRACE)
            self.collect(process)
            self.times -= 1

    def collect(self, process: Process) -> TableCollection | None:
        """Once; None where a run came first."""
        world = self.world
        grace = timedelta(seconds=1 if self.hasty else GRACE)
        plan = plan_collection(world.storage, TABLE, now=world.clock.now(), grace=grace)
        return collect(world.storage, plan, clock=process.clock, ids=world.ids)


@dataclass(eq=False)
class TableAuditor(TableCollectorJob):
    """When all is over: a run has nothing in its way, a reader finds the newest state, and after the grace time a
    collector leaves nothing but what is listed."""

    times: int = 1

    def run(self, process: Process) -> None:
        self.brought_up(process)
        self.check_snapshot(process, rest=False)
        for _ in range(3):
            process.clock.sleep(1.5 * GRACE)
            self.collect(process)
        there = self.world.storage.keys()
        left = [key for key in there if key.startswith(PREFIX) and not self.is_known(key)]
        if left:
            self.world.fail(f"a collector leaves {left[0]}")

    def brought_up(self, process: Process) -> None:
        """A last run."""
        RunJob(self.name, self.world, self.kind, 1).run(process)

    def is_known(self, key: str) -> bool:
        """Whether an object may be there at the end."""
        newest = self.watch().newest
        assert newest is not None
        return key in {state_key(TABLE), *(PREFIX + path for path in newest.paths())}


def table_cast(world: World, kind: Kind, *, patient: bool = False) -> Iterator[Actor]:
    """Who takes part. ``patient``: nobody drops the table, and collectors leave files their grace time."""
    choices = world.choices
    for number in range(choices.one_of((2, 2, 3, 1, 4))):
        yield RunJob(f"run{number}", world, kind, 1 + choices.below(4), refresh=not choices.below(4))
    readers = choices.below(3)
    for number in range(readers):
        yield TableReaderJob(f"reader{number}", world, kind, 1 + choices.below(4))
    for number in range(choices.one_of((1, 0, 1, 2))):
        hasty = not (patient or readers) and bool(choices.below(2))
        times = (1 + choices.below(3)) * (10 if hasty else 1)
        yield kind_collector(kind)(f"collector{number}", world, kind, times, hasty=hasty)
    if not patient and not choices.below(3):
        yield _DROPPERS.get(kind.name, TableDropperJob)("dropper", world, kind, 1 + choices.below(2))


def kind_collector(kind: Kind) -> type[TableCollectorJob]:
    """The collector of a kind: one of the faulty ones has its own."""
    return _COLLECTORS.get(kind.name, TableCollectorJob)


@dataclass(eq=False)
class _Unfenced(TableCollectorJob):
    """Goes by age alone."""

    def run(self, process: Process) -> None:
        for _ in range(20 * self.times):
            process.clock.sleep(self.world.choices.one_of((1.0, 20.0, 60.0)))
            self.collect(process)

    def collect(self, process: Process) -> TableCollection | None:
        world = self.world
        plan = plan_collection(world.storage, TABLE, now=world.clock.now(), grace=timedelta(seconds=30))
        world.storage.delete_all([entry.key for entry in plan.unlisted])
        return plan


_DROPPERS: dict[str, type[TableDropperJob]] = {"tables-files-first": _FilesFirst}
_COLLECTORS: dict[str, type[TableCollectorJob]] = {"tables-unfenced": _Unfenced}
