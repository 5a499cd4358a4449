"""Actors as coroutines in simulated time: one runs at a time, and where it pauses the next is picked by ``Choices``.

The product's code is synchronous, so each actor is a greenlet: it can pause inside any call. A ``Process`` is a
simulated process with a clock of its own; its threads are greenlets that stall, crash and end together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from greenlet import getcurrent, greenlet

from tests.simulation.world.choices import Choices
from tests.simulation.world.clocks import RIGHT, MachineClock, Wrongness

_NEVER = float("inf")


class Crashed(BaseException):
    """The process died here. Nothing of it may have an effect any more, whatever its ``finally`` blocks try."""


class Violated(BaseException):
    """An invariant does not hold; the simulation is over. No handler of the product's may swallow this."""


@dataclass(eq=False)
class Process:
    """One simulated process. ``resumes``: it is stopped until that simulated second."""

    name: str
    clock: MachineClock
    resumes: float = 0.0
    dead: bool = False
    threads: list[Thread] = field(default_factory=list)


class Thread(greenlet):
    """One thread of a process: runs when ``wake`` has come or ``until`` has come true."""

    def __init__(self, process: Process, name: str, work: Callable[[], None], hub: greenlet) -> None:
        super().__init__(self._work, hub)
        self._do = work
        self.process = process
        self.name = name
        self.wake = 0.0
        self.until: Callable[[], bool] | None = None
        process.threads.append(self)

    def _work(self) -> None:
        with suppress(Crashed, Violated):
            self._do()

    def ready_at(self) -> float:
        """When it can run next, as things stand."""
        wake = self.wake if self.until is None or not self.until() else 0.0
        return max(wake, self.process.resumes)


def running() -> Thread | None:
    """The simulated thread that this call comes from; None outside the simulation's actors."""
    current = getcurrent()
    return current if isinstance(current, Thread) else None


class Scheduler:
    """Simulated time, and who runs next. ``stick`` is how many times in a hundred the same actor goes on; ``ticks``
    are the seconds, dull ones first, that a step may take."""

    def __init__(self, choices: Choices, *, stick: int, ticks: tuple[float, ...]) -> None:
        self.choices = choices
        self.now = 0.0
        self.steps = 0
        self._stick = stick
        self._ticks = ticks
        self._hub = getcurrent()
        self._threads: list[Thread] = []
        self._last: Thread | None = None
        self._late: list[tuple[float, Callable[[], None]]] = []

    def process(self, name: str, wrong: Wrongness = RIGHT) -> Process:
        """A new process, without threads."""
        return Process(name, MachineClock(lambda: self.now, self.sleep, self.choices, wrong))

    def spawn(self, process: Process, name: str, work: Callable[[], None], *, after: float = 0.0) -> Thread:
        """A thread of ``process`` that does ``work``, beginning ``after`` seconds from now."""
        thread = Thread(process, name, work, self._hub)
        thread.wake = self.now + after
        self._threads.append(thread)
        return thread

    def pause(self) -> None:
        """Let others go first. Raises ``Crashed`` in a process that is dead."""
        thread = running()
        if thread is None:
            return
        if thread.process.dead:
            raise Crashed
        self._hub.switch()

    def sleep(self, seconds: float) -> None:
        """Wait that long in simulated time."""
        self.wait(None, seconds)

    def wait(self, until: Callable[[], bool] | None, seconds: float | None) -> None:
        """Wait until a condition is true, at most that long; None: for ever. Where no actor calls, time just passes."""
        thread = running()
        if thread is None:
            self.now += seconds or 0.0
            return
        thread.wake = _NEVER if seconds is None else self.now + max(seconds, 0.0)
        thread.until = until
        try:
            self.pause()
        finally:
            thread.wake, thread.until = 0.0, None

    def later(self, seconds: float, effect: Callable[[], None]) -> None:
        """Have ``effect`` happen by itself after that long."""
        self._late.append((self.now + seconds, effect))

    def crash(self, process: Process) -> None:
        """End a process where each of its threads stands."""
        process.dead = True

    def land(self, *, everything: bool = False) -> None:
        """Let those late effects happen whose time has come."""
        due = [one for one in self._late if everything or one[0] <= self.now]
        if due:
            self._late = [one for one in self._late if one not in due]
            for _, effect in sorted(due, key=lambda one: one[0]):
                effect()

    def run(self, *, goes_on: Callable[[], bool]) -> None:
        """Run the actors until none is left, or ``goes_on`` is False after a step."""
        while self._threads and goes_on():
            self.land()
            ready = [thread for thread in self._threads if thread.ready_at() <= self.now or thread.process.dead]
            if not ready:
                soonest = min(thread.ready_at() for thread in self._threads)
                soonest = min([soonest, *(moment for moment, _ in self._late)])
                if soonest == _NEVER:
                    return
                self.now = soonest
                continue
            self._resume(self._pick(ready))

    def end(self) -> None:
        """End all that is left, as by a crash."""
        for thread in list(self._threads):
            thread.process.dead = True
            self._resume(thread)

    def _pick(self, ready: list[Thread]) -> Thread:
        last = self._last
        if last is not None and last in ready:
            if self._stick and self.choices.below(100) < self._stick:
                return last
            ready.remove(last)
            ready.insert(0, last)
        return ready[self.choices.below(len(ready))]

    def _resume(self, thread: Thread) -> None:
        self._last = thread
        self.steps += 1
        self.now += self._ticks[self.choices.below(len(self._ticks))]
        if not thread.process.dead:
            thread.switch()
        elif thread:  # begun, and so to be unwound
            thread.throw(Crashed())
        if thread.dead or (thread.process.dead and not thread):
            self._threads.remove(thread)
            thread.process.threads.remove(thread)
