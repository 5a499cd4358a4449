"""What ``singerlake.lock_file`` asks of ``threading``, as simulated threads: its heartbeat becomes an actor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.world import scheduler


@dataclass
class SimulatedThreading:
    """Stands in for the module."""

    of: scheduler.Scheduler

    def Event(self) -> _Event:
        return _Event(self.of)

    def Thread(self, *, target: Callable[..., None], args: tuple[Any, ...], name: str, daemon: bool) -> _Thread:
        del daemon
        return _Thread(self.of, lambda: target(*args), name)


@dataclass
class _Event:
    of: scheduler.Scheduler
    happened: bool = False

    def set(self) -> None:
        self.happened = True

    def wait(self, timeout: float) -> bool:
        self.of.wait(lambda: self.happened, timeout)
        return self.happened


@dataclass
class _Thread:
    of: scheduler.Scheduler
    work: Callable[[], None]
    name: str
    ident: int | None = None

    def start(self) -> None:
        parent = scheduler.running()
        assert parent is not None
        self._thread = self.of.spawn(parent.process, self.name, self.work)
        self.ident = id(self._thread)

    def join(self) -> None:
        self.of.wait(lambda: self._thread.dead, None)
