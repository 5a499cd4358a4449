"""Time and identities that a test decides on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Stands still until somebody sleeps or moves it; ``on_sleep`` runs what happens meanwhile."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.on_sleep: Callable[[float], None] = lambda _: None

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.on_sleep(seconds)

    def jitter(self) -> float:
        return 0.5


def counting_ids() -> Callable[[], str]:
    """Identities of the right shape, in order: ``0000000000000000``, ``0000000000000001``, ..."""
    counter = itertools.count()
    return lambda: f"{next(counter):016d}"
