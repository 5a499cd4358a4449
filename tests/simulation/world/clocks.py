"""Clocks of simulated machines: what one believes of the time, beside the time that storage goes by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.fakes import START
from tests.simulation.world.choices import Choices

HOUR = 3600.0


@dataclass(frozen=True)
class Wrongness:
    """How a wall clock differs from storage's: ``offset`` seconds from the beginning, ``drift`` seconds a second more,
    and one jump by ``step`` seconds at the time ``step_at``. A monotonic clock runs at its own speed all the same."""

    offset: float = 0.0
    drift: float = 0.0
    step: float = 0.0
    step_at: float = 0.0

    def at(self, seconds: float) -> float:
        """The wall clock at a true time, both in seconds since the beginning."""
        return seconds * (1 + self.drift) + self.offset + (self.step if seconds >= self.step_at else 0.0)


RIGHT = Wrongness()
_NEAR = (0.0, 0.3, -0.3, 1.5, -1.5, 4.9, -4.9)
_FAR = (HOUR, -HOUR, 60.0, -60.0)


def wrongness(choices: Choices, now: float) -> Wrongness:
    """A wrong clock: near, or an hour away, drifting, or stepped while it is looked at."""
    offset = choices.one_of(_NEAR if choices.below(3) else _FAR)
    drift = choices.one_of((0.0, 0.0, 0.001, -0.001, 0.05, -0.05))
    step = choices.one_of((0.0, 0.0, 1.0, -1.0, -5.0, HOUR, -HOUR))
    return Wrongness(offset, drift, step, now + choices.below(120) if step else 0.0)


class MachineClock:
    """One machine's ``Clock``. ``true`` gives the simulated time, ``wait`` lets it pass."""

    def __init__(
        self, true: Callable[[], float], wait: Callable[[float], None], choices: Choices, wrong: Wrongness = RIGHT
    ) -> None:
        self._true = true
        self._wait = wait
        self._choices = choices
        self.wrong = wrong

    def now(self) -> datetime:
        return START + timedelta(seconds=self.wrong.at(self._true()))

    def monotonic(self) -> float:
        return self._true()

    def sleep(self, seconds: float) -> None:
        self._wait(seconds)

    def jitter(self) -> float:
        return self._choices.below(997) / 997
