"""What time it is on storage, as far as one's own writes have shown, and the object that is written for that.

MPS3 corrects slow clocks alone; here fast ones are, too, and a wall clock that steps afterwards changes nothing.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import msgspec

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import SingerlakeError
from singerlake.storage.port import Storage
from singerlake.stores.merge.settings import MergeSettings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RESOLUTION = 1_000_000
_DRIFT = 1_000
"""Two clocks come apart by less than one part in this many: ten times what a quartz may."""

logger = logging.getLogger(__name__)


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
        """An object was written between two moments of the monotonic clock; ``modified`` may be in whole seconds."""
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


class LastChange:
    """One writer's or poller's view of the object at ``key``."""

    def __init__(
        self, storage: Storage, key: str, settings: MergeSettings, time: StorageTime, clock: Clock, ids: IdSource
    ) -> None:
        self._storage = storage
        self._key = key
        self._settings = settings
        self._time = time
        self._clock = clock
        self._ids = ids
        self._touched: float | None = None
        self._etag: str | None = None
        self._looked: float | None = None

    def touch(self, *, always: bool = False) -> None:
        """Change the object, for entries once in a while. It only tells others sooner, so its failure is nobody's."""
        now = self._clock.monotonic()
        if not always and self._touched is not None and now - self._touched < self._settings.touch:
            return
        self._touched = now
        try:
            self._write()
        except SingerlakeError as error:
            logger.debug("could not touch %s: %s", self._key, error)

    def measure(self) -> None:
        """Ask storage for the time, by writing. Raises what storage raises."""
        sent = self._clock.monotonic()
        self._write()
        head = self._storage.head(self._key)
        if head is not None:
            # Another's touch in between was later than the own one, and earlier than this answer.
            self._time.observe(head.last_modified, sent=sent, received=self._clock.monotonic())

    def changed(self) -> bool:
        """Whether there may be something new; at intervals in any case, as a writer may crash before its touch."""
        head = self._storage.head(self._key)
        etag = head.etag if head else None
        now = self._clock.monotonic()
        due = self._looked is None or now - self._looked >= self._settings.look
        if not due and etag == self._etag:
            return False
        self._etag, self._looked = etag, now
        return True

    def _write(self) -> None:
        body = {"at": timestamp(self._clock.now()), "nonce": self._ids()}
        self._storage.put(self._key, msgspec.json.encode(body))
