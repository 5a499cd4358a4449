"""One simulated lake: storage, time, faults, the truth, and the actors' processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from singerlake.clock import Clock, IdSource
from singerlake.errors import MissingFileError, RetryableError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.lock_file import LockSettings
from singerlake.storage.port import Stored
from tests.fakes import START
from tests.simulation.watches.truth import Truth
from tests.simulation.watches.watch import Watches
from tests.simulation.world.choices import Choices
from tests.simulation.world.faults import Fate, Faults, Profile
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Crashed, Process, Scheduler, Violated, running
from tests.simulation.world.storage import SimulatedStorage
from tests.storage.memory import Step

LOCK = LockSettings(max_wait=600.0, stale_after=6.0, refresh=1.5)
_RESTART_AFTER = (0.0, 0.5, 10.0)
_RERUN_AFTER = (60.0, 600.0)
"""Seconds; the second where others have to finish something before."""
RESTARTS_WHEN_CALM = 3
"""Times that one job's runs may still fail once faults have ceased: of what happened before."""
TRANSIENT = (RetryableError, UnknownOutcomeError)
"""After these an operator runs the same thing again."""


class _StorageClock:
    """The only clock that is right."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now(self) -> datetime:
        return START + timedelta(seconds=self._scheduler.now)

    def monotonic(self) -> float:
        return self._scheduler.now

    def sleep(self, seconds: float) -> None:
        raise AssertionError("storage does not sleep")

    def jitter(self) -> float:
        raise AssertionError("storage has no jitter")


class Job:
    """What one actor is there to do, over as many processes as it takes. ``run`` does what is left of it."""

    name: str

    def run(self, process: Process) -> None:
        raise NotImplementedError


class World:
    """What actors, storage and watches share. ``lines`` is the trace, None where nobody reads it;
    ``shared`` is for what the processes of one kind of store have in common."""

    def __init__(
        self,
        choices: Choices,
        profile: Profile,
        ids: IdSource,
        truth: type[Truth] = Truth,
        *,
        conditions: bool = True,
        trace: bool = False,
    ) -> None:
        self.choices = choices
        self.profile = profile
        self.ids = ids
        self.lines: list[str] | None = [] if trace else None
        self.violation: str | None = None
        self.faults = Faults(profile, choices)
        self.scheduler = Scheduler(choices, stick=profile.stick, ticks=profile.ticks)
        self.clock = _StorageClock(self.scheduler)
        self.prefix = layout.stream_prefix(TAP, STREAM)
        self.storage = SimulatedStorage(
            self,
            clock=self.clock,
            ids=ids,
            ignore_conditions=not conditions,
            ignore_delete_conditions=bool(choices.below(2)),
        )
        self.truth = truth(self.fail, lambda path: self.storage.as_it_is(self.prefix + path) is not None)
        self.truth.peek = lambda key: self.storage.as_it_is(key)
        self.watches: Watches | None = None
        self.shared: dict[str, Any] = {}
        self.unfinished: set[Job] = set()
        self.transient: tuple[type[Exception], ...] = TRANSIENT
        self._by = ""
        self._probing: dict[Process, bool] = {}
        self._restarts: Counter[Job] = Counter()

    def fail(self, what: str) -> None:
        """An invariant does not hold: remember the first, and go no further."""
        if self.violation is None:
            self.note(f"VIOLATION: {what}")
            self.violation = what
        raise Violated(what)

    def probes(self) -> Clock | None:
        thread = running()
        if thread is None:
            return None
        process = thread.process
        if process not in self._probing:
            self._probing[process] = not self.choices.below(4)
        return process.clock if self._probing[process] else None

    def note(self, text: str) -> None:
        """A line of the trace, which ends with a violation: what is on its way then only comes to its end."""
        if self.lines is not None and self.violation is None:
            thread = running()
            who = thread.process.name if thread else "-"
            self.lines.append(f"{self.scheduler.steps:5} {self.scheduler.now:12.3f} {who:14} {text}")

    def start(self, job: Job, *, after: float = 0.0) -> None:
        """Have a job done, and done again by a fresh process as long as it does not end well."""
        self.unfinished.add(job)
        self._begin(job, 1, after)

    def step(self, step: Step) -> None:
        thread = running()
        if thread is None:
            return
        process = thread.process
        if process.dead:
            raise Crashed
        if self.faults.crashes():
            self.note(f"CRASHES {'after' if step.done else 'before'} {step.operation} {step.key}")
            self.scheduler.crash(process)
            raise Crashed
        stalled = self.faults.stall()
        if stalled:
            process.resumes = self.scheduler.now + stalled
            self.note(f"STALLS {stalled:g} s {'after' if step.done else 'before'} {step.operation} {step.key}")
        self.scheduler.pause()

    def fate(self, operation: str, key: str) -> Fate:
        if running() is None:
            return Fate.GOES_WELL
        fate = self.faults.fate(operation, self.scheduler.now)
        if fate is not Fate.GOES_WELL:
            self.note(f"FAULT {operation} {key} {fate.value}")
        return fate

    def later(self, what: str, effect: Callable[[], object]) -> None:
        thread = running()
        by = thread.process.name if thread else ""

        def happen() -> None:
            self._by = by
            try:
                answer = effect()
            except MissingFileError as error:
                # What was to be copied is gone by now. Nobody waits for the answer.
                answer = error
            self.note(f"LANDS late, of {by}: {what}: {answer if isinstance(answer, bool) else type(answer).__name__}")
            self._by = ""

        self.scheduler.later(self.faults.lateness(), happen)

    def changed(self, key: str, before: Stored | None, after: Stored | None) -> None:
        thread = running()
        assert self.watches is not None
        self.watches.changed(key, before, after, thread.process.name if thread else self._by)

    def _begin(self, job: Job, times: int, after: float) -> None:
        process = self.scheduler.process(f"{job.name}.{times}", self.faults.clock(self.scheduler.now))

        def work() -> None:
            patient = False
            self.note(f"starts, its clock {process.clock.wrong}")
            try:
                job.run(process)
                self.unfinished.discard(job)
                self.note("ends")
            except self.transient as error:
                patient = not isinstance(error, TRANSIENT)
                self.note(f"fails: {type(error).__name__}: {error}")
                self._count_restart(job, error)
            finally:
                process.dead = True
                if job in self.unfinished and self.violation is None:
                    self._begin(job, times + 1, self.choices.one_of(_RERUN_AFTER if patient else _RESTART_AFTER))

        self.scheduler.spawn(process, "main", work, after=after)

    def _count_restart(self, job: Job, error: Exception) -> None:
        if self.faults.ceased and isinstance(error, TRANSIENT):
            self._restarts[job] += 1
            if self._restarts[job] > RESTARTS_WHEN_CALM:
                self.fail(f"{job.name} keeps failing though all goes well by now: {error}")
