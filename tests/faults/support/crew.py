"""Starting workers, waiting for what becomes of them, and what has to be true afterwards."""

from __future__ import annotations

import gzip
import hashlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import msgspec
import psutil

from singerlake.format import layout
from singerlake.format.state.manifest import from_json
from singerlake.format.state.model import Manifest
from singerlake.upkeep.verify import verify_stream
from tests.faults.support.files import prepare
from tests.faults.support.places import TAP, Place
from tests.faults.support.worker import Job, Point, Prepared, work
from tests.format.state.test_fold import check_log
from tests.processes.forked import FORKED
from tests.servers.fault_proxy.proxy import wait_until

_AT_ONCE = 24
_COUNTED_RUNS = 3
MAX_WAIT = 60.0
"""Seconds in which a worker that was not killed has to end."""
_starting = threading.Lock()
"""Starting a process asks for the exit codes of all others, which can be read once."""


@dataclass
class Worker:
    """One process and its job."""

    job: Job
    files: list[str]
    process: ForkServerProcess

    def wait(self) -> Worker:
        """Return when it has ended well."""
        assert self.ended() == 0, self.log
        assert self.acknowledged[-len(self.files) :] == self.files
        return self

    def read(self) -> list[str]:
        """The ids of the files that a reader saw."""
        self.wait()
        return self.job.file("read").read_text().splitlines()

    def killed(self) -> Worker:
        """Return when it has killed itself."""
        assert self.ended() == -signal.SIGKILL, self.log
        return self

    def failed(self) -> str:
        """Return what it said when it has ended with an error."""
        assert self.ended() == 1, self.log
        return self.log

    def ended(self, within: float = MAX_WAIT) -> int:
        """The exit code of a process that ends in so many seconds."""
        assert wait([self.process.sentinel], within), f"{self.job.name} did not end in {within} s: {self.log}"
        with _starting:
            self.process.join()
            code = self.process.exitcode
        assert code is not None
        return code

    def stopped(self) -> Worker:
        """Return when it has stopped itself."""
        wait_until(lambda: self._status() in (psutil.STATUS_STOPPED, None), f"{self.job.name} to stop\n{self.log}")
        assert self._status() == psutil.STATUS_STOPPED, self.log
        if any(point.call.startswith("^postgres") for point in self.job.points):
            self.job.place.end_idle_transactions()
        return self

    def met_its_point(self) -> bool:
        """Return when it has been killed, or stopped, or, since it never came there, has ended well: False."""
        wait_until(lambda: self._status() in (psutil.STATUS_STOPPED, None), f"{self.job.name} to stop\n{self.log}")
        code = None if self._status() is not None else self.ended()
        assert code in (None, 0, -signal.SIGKILL), self.log
        return code != 0

    def is_stopped(self) -> bool:
        """Whether it sleeps now."""
        return self._status() == psutil.STATUS_STOPPED

    @property
    def counted(self) -> int:
        """How often a worker that ended well came to the call that it was to count."""
        return int(self.wait().job.file("count").read_text())

    def go_on(self) -> Worker:
        self._signal(signal.SIGCONT)
        return self

    def kill(self) -> Worker:
        self._signal(signal.SIGKILL)
        return self

    @property
    def acknowledged(self) -> list[str]:
        path = self.job.file("acks")
        return path.read_text().splitlines() if path.exists() else []

    @property
    def log(self) -> str:
        path = self.job.file("log")
        return path.read_text() if path.exists() else ""

    def _status(self) -> str | None:
        assert self.process.pid is not None
        try:
            return psutil.Process(self.process.pid).status()
        except psutil.NoSuchProcess:
            return None

    def _signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


@dataclass
class Crew:
    """The workers of one test at one place, and what was seen there."""

    place: Place
    folder: Path
    workers: list[Worker] = field(default_factory=list)
    others: list[Crew] = field(default_factory=list)
    ballast: list[str] = field(default_factory=list)
    last: Manifest | None = None
    records: dict[str, bytes] = field(default_factory=dict)

    def start(
        self,
        name: str,
        *points: Point,
        files: int = 2,
        place: Place | None = None,
        schema: int = 0,
        barrier: Barrier | None = None,
        **more: Any,
    ) -> Worker:
        """Start a process; a writer with as many files of its own, unless it is a rerun."""
        job = Job(place=place or self.place, name=name, folder=self.folder, points=points, **more)
        prepared = []
        if job.task == "write":
            prepared = self._plan(job, files, schema)
        process = FORKED.Process(target=work, args=(job, barrier), name=name)
        with _starting:
            process.start()
        worker = Worker(job, [each.file.id for each in prepared], process)
        self.workers.append(worker)
        return worker

    def at_each_step(self, steps: Callable[[Crew], int], scenario: Callable[[Crew, int], bool]) -> None:
        """Play a scenario once for each step, several at a time, each in a stream of its own. ``steps`` counts them in
        other streams. The fewest of several counts is taken, since a slow process may take more steps, for example to
        settle the log in two turns. A scenario that does not come to its step says so."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            number = min(pool.map(steps, [self.elsewhere(f"whole{run}") for run in range(_COUNTED_RUNS)]))
            assert number > 2
            crews = [self.elsewhere(f"s{step}") for step in range(1, number + 1)]
            met = list(pool.map(scenario, crews, range(1, number + 1)))
        assert sum(met) > number * 3 // 4

    def elsewhere(self, stream: str) -> Crew:
        """A crew at another stream of the same lake."""
        folder = self.folder / stream
        folder.mkdir()
        self.others.append(Crew(replace(self.place, stream=stream), folder))
        return self.others[-1]

    def publish(self, name: str, **options: Any) -> Worker:
        """Start a writer and wait until it has published everything."""
        return self.start(name, **options).wait()

    def rerun(self, name: str, *points: Point, **options: Any) -> Worker:
        """Start a writer again with the files it had, acknowledged or not."""
        return self.start(name, *points, **options)

    def trim(self) -> None:
        """Remove all transactions there are now, in this process."""
        if self.place.kind.tail:
            self.ripen()
            self.place.store().trim(keep=0, dry_run=False)

    def ripen(self) -> None:
        """Return when all transactions there are now can be removed: a store may keep the newest for a time, which
        others are then that are written meanwhile."""
        state = self.place.state()
        assert state is not None
        while self.place.store().trim(keep=0, dry_run=True).floor < state.transaction.number:
            assert self.place.kind.settles
            self.ballast += self.publish(f"ballast{len(self.ballast)}", files=1, schema=99).files

    @staticmethod
    def barrier(parties: int) -> Barrier:
        return FORKED.Barrier(parties)

    def end(self) -> None:
        """Leave no process behind."""
        for crew in self.others:
            crew.end()
        for worker in self.workers:
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def check(self, *, orphans: int | None = 0) -> Manifest:
        """Every acknowledged file is listed exactly once (I1); every listed file is there as described (I2); nothing
        that was ever listed is lost or moved (I3); offsets, labels and transactions are gap-free and records of a log
        never change (I4). Gives the state."""
        state = self.place.state()
        assert state is not None
        check_log(state)
        listed = Counter(file.id for file in state.files)
        acknowledged = {id for worker in self.workers for id in worker.acknowledged}
        assert {id: listed[id] for id in acknowledged} == dict.fromkeys(acknowledged, 1)
        known = {id for worker in self.workers for id in worker.files}
        assert set(listed) <= known, "files are listed that nobody wrote"
        found = verify_stream(self.place.storage, TAP, self.place.stream, lambda: state).findings
        strays = [finding for finding in found if finding.kind == "unlisted"]
        others = [finding for finding in found if finding.kind != "unlisted"]
        assert others == [], others
        assert orphans is None or len(strays) == orphans
        for file in state.files:
            stored = self.place.storage.get(self.place.prefix + file.path)
            assert stored is not None
            assert (len(stored.body), hashlib.sha256(stored.body).hexdigest()) == (file.bytes, file.sha256)
            assert gzip.decompress(stored.body).count(b"\n") == file.messages + 1
        self._continues(state)
        self._published_follows(state)
        self.last = state
        return state

    def count(self, *, orphans: int | None = 0) -> int:
        """How many files are listed, after a check."""
        return sum(file.id not in self.ballast for file in self.check(orphans=orphans).files)

    def _continues(self, state: Manifest) -> None:
        before, self.last = self.last, state
        if before is not None:
            assert state.lineage == before.lineage
            assert state.transaction.number >= before.transaction.number
            assert list(state.files[: len(before.files)]) == list(before.files)
        assert list(state.versions.values()) == [f"v{number}" for number in range(1, len(state.versions) + 1)]
        for key in self.place.keys_with("/_log/"):
            name = key.rpartition("/")[2]
            if layout.log_number(name) is not None or layout.log_snapshot_number(name) is not None:
                stored = self.place.storage.get(key)
                if stored is not None:
                    assert self.records.setdefault(key, stored.body) == stored.body, f"{key} was changed"

    def _published_follows(self, state: Manifest) -> None:
        """manifest.json may lag, never lead."""
        key = layout.manifest_key(TAP, self.place.stream)
        stored = self.place.storage.get(key)
        assert stored is not None
        published = from_json(stored.body, key=key)
        assert published.transaction.number <= state.transaction.number
        assert list(state.files[: len(published.files)]) == list(published.files)

    def _plan(self, job: Job, files: int, schema: int) -> list[Prepared]:
        path = job.file("plan")
        if not path.exists():
            made = [prepare(job, number, schema) for number in range(files)]
            path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in made))
        return [msgspec.json.decode(line, type=Prepared) for line in path.read_bytes().splitlines()]
