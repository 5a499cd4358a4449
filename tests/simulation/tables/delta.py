"""A table with a Delta log: what has to hold of the log, looked at when an effect happens, and who reads by it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

from singerlake.clock import Clock
from singerlake.errors import MissingFileError
from singerlake.storage.port import Storage, Stored
from singerlake.tables.declaration.model import Format, TableDeclaration
from singerlake.tables.delta import publish as publish_module
from singerlake.tables.delta.log import commit_key, read
from singerlake.tables.delta.publish import next_commit
from singerlake.tables.maintain import collect as collect_module
from singerlake.tables.state.commit import load
from singerlake.tables.state.model import TableFile, TableState
from tests.simulation.jobs import Actor
from tests.simulation.stores.kinds import Kind
from tests.simulation.tables.jobs import HELD, RunJob, TableActor, TableAuditor, table_cast
from tests.simulation.tables.watch import TableWatch
from tests.simulation.tables.work import DECLARATION, PREFIX, TABLE, SimulatedRunner, rows_in
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World

DELTA = replace(DECLARATION, format=Format.DELTA)
CHECKPOINT_AFTER = 3
_NAME = re.compile(r"_delta_log/(?:(\d{20})(\.json|\.checkpoint\.parquet)|(_last_checkpoint))\Z")


class DeltaWatch(TableWatch):
    """Each version of the log is written once and shows a state of the table, none an older one than the version before
    it; what it names is there. A checkpoint says what its version does, and there is one of each version that the log
    begins with."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._states: dict[str, TableState] = {}
        self._commits: dict[int, bytes] = {}
        self._begins = 0
        self.shown: TableState | None = None
        self._versions: list[frozenset[str]] = []

    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None:
        found = _NAME.match(key.removeprefix(PREFIX))
        if found is None:
            super().changed(key, before, after, by)
            if self.newest is not None:
                self._states[self.newest.id] = self.newest
        elif found[3]:
            assert after is not None
            assert int(json.loads(after.body)["version"]) < len(self._versions)
        elif after is None:
            self._deleted(int(found[1]))
        elif found[2] == ".json":
            self._committed(int(found[1]), after.body)
        else:
            self._checkpoint(int(found[1]), after.body)

    def _gone(self, path: str, by: str) -> None:
        super()._gone(path, by)
        if self._versions and path in self._versions[-1]:
            self._world.fail(f"a file that the Delta log names was deleted by {by or 'a late request'}: {path}")

    def _committed(self, version: int, body: bytes) -> None:
        if version < self._begins:
            # Readers begin with a later checkpoint.
            return
        if self._commits.setdefault(version, body) != body:
            self._world.fail(f"version {version} of the Delta log was written again")
        if version < len(self._versions):
            return
        if version != len(self._versions):
            self._world.fail(f"the Delta log went from {len(self._versions) - 1} to {version}")
        files = set(self._versions[-1]) if self._versions else set()
        actions = [json.loads(line) for line in body.splitlines()]
        for action in actions:
            if "add" in action:
                files.add(action["add"]["path"])
            elif "remove" in action:
                files.remove(action["remove"]["path"])
        (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
        state = self._states[info["singerlake"]["id"]]
        if self.shown is not None and state.number <= self.shown.number:
            self._world.fail(f"the Delta log went from state {self.shown.number} to {state.number}")
        if files != state.paths():
            self._world.fail(f"version {version} of the Delta log has other files than its state")
        for path in files:
            if self._world.storage.as_it_is(PREFIX + path) is None:
                self._world.fail(f"the Delta log names a file that is gone: {path}")
        self.shown = state
        self._versions.append(frozenset(files))

    def _checkpoint(self, version: int, body: bytes) -> None:
        rows = pq.ParquetFile(io.BytesIO(body)).read(columns=["add"], use_threads=False)["add"].to_pylist()
        if {row["path"] for row in rows if row is not None} != self._versions[version]:
            self._world.fail(f"the checkpoint of version {version} has other files than the version")

    def _deleted(self, version: int) -> None:
        there = self._world.storage.keys()
        known = (_NAME.match(key.removeprefix(PREFIX)) for key in there)
        checkpoints = [found for found in known if found and found[2] == ".checkpoint.parquet"]
        if not any(int(found[1]) > version for found in checkpoints):
            self._world.fail(f"version {version} of the Delta log was deleted, and there is no later checkpoint")
        self._begins = max(self._begins, version + 1)


@dataclass(eq=False)
class DeltaRun(RunJob):
    declaration: TableDeclaration = DELTA


class _NeverLogs(SimulatedRunner):
    """Dies each time that the log is its turn, for good."""

    def catch_up(self, state: TableState) -> None:
        del state


@dataclass(eq=False)
class DyingRun(DeltaRun):
    """Commits, and leaves the log to others."""

    def runner(self, process: Process) -> SimulatedRunner:
        sound = super().runner(process)
        return _NeverLogs(sound.storage, sound.lake_id, sound.manifest, sound.engine, sound.clock, sound.ids)


@dataclass(eq=False)
class DeltaReader(TableActor):
    """Reads the table by its log, a few times, with rests between its files."""

    times: int

    def run(self, process: Process) -> None:
        while self.times:
            self.rest(process)
            self.look(process)
            self.times -= 1

    def look(self, process: Process) -> None:
        log = read(self.world.storage, TABLE)
        began = self.world.scheduler.now
        for path in log.added:
            self.rest(process)
            try:
                with self.world.storage.open(PREFIX + path) as stored:
                    rows_in(stored.read())
            except MissingFileError:
                if self.world.scheduler.now - began <= HELD:
                    self.world.fail(f"a reader of Delta misses a file within its grace time: {path}")
                return


@dataclass(eq=False)
class DeltaAuditor(TableAuditor):
    """When all is over: the log shows the table, too."""

    def brought_up(self, process: Process) -> None:
        DeltaRun(self.name, self.world, self.kind, 1).run(process)
        watch = self.watch()
        assert isinstance(watch, DeltaWatch)
        if watch.shown is not watch.newest:
            self.world.fail("the Delta log is behind the table at the end")

    def is_known(self, key: str) -> bool:
        return super().is_known(key) or _NAME.match(key.removeprefix(PREFIX)) is not None


def delta_cast(world: World, kind: Kind) -> Iterator[Actor]:
    for actor in table_cast(world, kind, patient=True):
        if isinstance(actor, RunJob):
            yield DeltaRun(actor.name, world, kind, actor.times, refresh=actor.refresh)
        else:
            yield actor
    for number in range(world.choices.below(2)):
        yield DyingRun(f"dying{number}", world, kind, 1 + world.choices.below(4))
    for number in range(world.choices.below(3)):
        yield DeltaReader(f"delta{number}", world, kind, 1 + world.choices.below(4))


def _stats(storage: Storage, state: TableState, files: list[TableFile]) -> dict[str, str]:
    """Rows of the stand-in are not in parquet."""
    del storage, state
    return {file.id: json.dumps({"numRecords": file.rows}) for file in files}


@contextmanager
def small_logs(*patches: Any) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(publish_module, "CHECKPOINT_AFTER", CHECKPOINT_AFTER))
        stack.enter_context(mock.patch.object(publish_module, "_stats", _stats))
        for patch in patches:
            stack.enter_context(patch)
        yield


def _state_first(storage: Storage, table: str, clock: Clock) -> None:
    """Reads the state, and then a log that may show a later one."""
    found = load(storage, table)
    log = read(storage, table)
    if found is not None and publish_module.has_log(found.state) and log.shows != found.state.id:
        body = next_commit(log, found.state, _stats(storage, found.state, list(found.state.files)), clock.now())
        storage.put(commit_key(table, log.version + 1), body, if_absent=True)


def _unconditional(storage: Storage, table: str, clock: Clock) -> None:
    """Writes whatever came between."""
    log = read(storage, table)
    found = load(storage, table)
    if found is not None and publish_module.has_log(found.state) and log.shows != found.state.id:
        body = next_commit(log, found.state, _stats(storage, found.state, list(found.state.files)), clock.now())
        storage.put(commit_key(table, log.version + 1), body)


def _nothing(storage: Storage, state: TableState, objects: Any, **_: Any) -> set[str]:
    """Takes the log for what no state lists."""
    del storage, state, objects
    return set()


def _faulty(kind: Kind, name: str, target: Any, attribute: str, other: Any) -> Kind:
    return replace(kind, name=name, patched=lambda: small_logs(mock.patch.object(target, attribute, other)))


def kinds(tables: Kind) -> tuple[Kind, tuple[Kind, ...]]:
    """Delta tables under simulation, and such with a known hole each."""
    sound = replace(
        tables,
        name="tables-delta",
        watches=DeltaWatch,
        cast=delta_cast,
        auditor=DeltaAuditor,
        patched=small_logs,
    )
    faulty = (
        _faulty(sound, "delta-state-first", publish_module, "publish", _state_first),
        _faulty(sound, "delta-unconditional", publish_module, "publish", _unconditional),
        _faulty(sound, "delta-unkept", collect_module, "kept", _nothing),
    )
    return sound, faulty
