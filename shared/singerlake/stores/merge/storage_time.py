"""What time it is on storage, as far as one's own writes have shown.

MPS3 corrects clocks that are slow and ignores those that are fast; here both are. What is measured is bound to the
monotonic clock, so that a wall clock that steps afterwards changes nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from singerlake.clock import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RESOLUTION = 1_000_000
_DRIFT = 1_000
"""Two clocks come apart by less than one part in this many: ten times what a quartz may."""


class StorageTime:
    """Storage's clock, as an interval that each measurement narrows; the machine's own until the first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._interval: tuple[int, int] | None = None
        self._measured = 0
        self._offset: int | None = None

    def now(self) -> int:
        """The likeliest time, in milliseconds since 1970."""
        if self._offset is None:
            return _microseconds(self._clock.now()) // 1000
        return (self._monotonic() + self._offset) // 1000

    def at_least(self) -> int | None:
        """A time that has certainly come; None before the first measurement."""
        if self._interval is None:
            return None
        return (self._monotonic() + self._widened(self._interval)[0]) // 1000

    def age(self) -> float:
        """Seconds since the last measurement."""
        return (self._monotonic() - self._measured) / 1_000_000

    def observe(self, modified: datetime, *, sent: float, received: float) -> None:
        """An object was written between two moments of the monotonic clock, and storage says when, perhaps in whole
        seconds."""
        shown = _microseconds(modified)
        latest = shown if modified.microsecond else shown + _RESOLUTION
        bounds = shown - _whole(received), latest - _whole(sent)
        if self._interval is not None:
            known = self._widened(self._interval)
            both = max(bounds[0], known[0]), min(bounds[1], known[1])
            # Where they do not overlap, one of the clocks was set: only the newer measurement is worth anything.
            bounds = both if both[0] <= both[1] else bounds
        believed = self._offset if self._offset is not None else _microseconds(self._clock.now()) - self._monotonic()
        self._interval = bounds
        self._measured = self._monotonic()
        self._offset = min(max(believed, bounds[0]), bounds[1])

    def _widened(self, interval: tuple[int, int]) -> tuple[int, int]:
        drift = (self._monotonic() - self._measured) // _DRIFT
        return interval[0] - drift, interval[1] + drift

    def _monotonic(self) -> int:
        return _whole(self._clock.monotonic())


def _whole(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
