"""When ``manifest.json`` of which stream is looked after, though nothing else is to be done."""

from __future__ import annotations

import math
import threading

from singerlake.clock import Clock


class Looks:
    """Readers of some manifest stores see a commit only once ``manifest.json`` shows it, and the next commit, which
    brings it up, may be hours away. So a stream is looked after ``age`` seconds behind its last commit, and once more
    where the storage's clock is ahead. Threads may share it."""

    def __init__(self, clock: Clock, age: float) -> None:
        self._clock = clock
        self._age = age
        self._noting = threading.Lock()
        self._coming: dict[str, list[float]] = {}
        self.next = math.inf
        """When the next look is due, on the monotonic clock."""

    def committed(self, stream: str) -> None:
        """Something was committed to a stream just now."""
        now = self._clock.monotonic()
        with self._noting:
            self._coming[stream] = [now + self._age, now + 2 * self._age]
            self.next = min(self.next, now + self._age)

    def due(self) -> list[str]:
        """The streams to look after now; each look is given once."""
        now = self._clock.monotonic()
        if now < self.next:
            return []
        with self._noting:
            streams = [stream for stream, looks in self._coming.items() if looks[0] <= now]
            for stream in streams:
                if len(self._coming[stream]) > 1:
                    del self._coming[stream][0]
                else:
                    del self._coming[stream]
            self.next = min((looks[0] for looks in self._coming.values()), default=math.inf)
        return streams
