"""Waiting for a storage or a database that does not answer, or answers that it is busy: one rule for all requests,
which "When a server is away" in ``docs/explanation/stores.md`` explains.

An *outage* begins with a first failure and ends with the first answer. Requests that fail in it wait for its end
together, and give up together, so that the cleaning up after one that gave up does not wait as long again. A request
also gives up once it alone has failed for so long, which is what a storage does to it that answers others.

Reads and writes have outages of their own: a storage may answer reads and fail each write. Both begin with the failure
of either, since a server that is gone fails both. An answer ends that of its own kind, and that of the other kind
unless a request of that kind failed in it.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from enum import Enum

from singerlake.clock import Backoff, Clock
from singerlake.humanize import shown

PATIENCE_SECONDS = 60
"""Where no setting says otherwise."""
DOWN = "run again when it is back; patience_seconds is how long requests wait for it"
"""The next step where what answered before was given up."""
LEAST_TRIES = 3
"""Of each request, however long the first took: one lost on its way is sent again even after a long time-out."""
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 5.0
_INSTANT = 0.001
"""Seconds that are not worth waiting for, and that rounding may leave over."""
_AT_FIRST = 0.25
"""Share of the patience for a place that never answered."""
_TOLD_AFTER = 1.0
_TOLD_EVERY = 10.0
_SHOWN = 300
"""Characters of what a server says that go to the log."""
_OVER_AFTER = 15.0
"""Seconds without a failure after which the next one begins another outage: no request was sent in between."""

logger = logging.getLogger(__name__)

_answered: set[str] = set()
"""Places that have answered this process."""


class RetryReason(Enum):
    """Why a request is to be sent again."""

    NO_SUCH_HOST = "its host name is not known"
    SILENT = "it does not answer"
    BUSY = "it answers with an error"
    CONFLICT = "another request is under way"


@dataclass(frozen=True, slots=True)
class GivenUp:
    """How a wait ended: the seconds it took, and whether the place ever answered this process."""

    trouble: RetryReason
    seconds: float
    answered: bool


def backoff(clock: Clock) -> Backoff:
    """The waits between requests, with full jitter: the ceiling doubles from 0.2 seconds up to 5."""
    return Backoff(clock, first=_FIRST_WAIT, longest=_LONGEST_WAIT, growth=2.0)


@dataclass
class _Outage:
    """Of reads or of writes. ``own``: whether a request of that kind failed in it."""

    began: float
    own: bool = False
    told: float | None = None
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.last = self.began


class Patience:
    """The patience with one place, safe to share between threads. ``what`` and ``place`` are what the log calls it;
    ``key`` tells it from others where ``place`` does not, and is never shown."""

    def __init__(
        self, seconds: float, clock: Clock, *, place: str, what: str = "storage", key: str | None = None
    ) -> None:
        self.seconds = seconds
        self.clock = clock
        self._place = place
        self._what = what
        self._key = key or place
        self._lock = threading.Lock()
        self._outages: dict[bool, _Outage] = {}
        """By whether it is that of writes."""

    def begin(self, *, writes: bool = False) -> Wait:
        """For one request, before or after its first try. ``writes``: whether it is to change something."""
        return Wait(self, writes=writes)

    def answered(self, *, writes: bool = False) -> None:
        """The place answered a request in some way, and is not busy. ``writes`` as in ``begin``."""
        if not self._outages and self._key in _answered:
            return
        _answered.add(self._key)
        with self._lock:
            outage, other = self._outages.pop(writes, None), self._outages.get(not writes)
            if other is not None and not other.own:
                del self._outages[not writes]
            elif other is not None and outage is not None and outage.told is not None:
                # What is said now is understood of both. If the other kind goes on failing, that is worth a new line.
                other.told = None
        if outage is not None and outage.told is not None:
            lasted = self.clock.monotonic() - outage.began
            logger.warning("%s answers again after %.0f s (%s)", self._what, lasted, self._place)

    def began(self, trouble: RetryReason, *, writes: bool = False) -> float:
        """When the outage began that this failure belongs to. ``writes`` as in ``begin``."""
        now = self.clock.monotonic()
        if trouble is RetryReason.CONFLICT:
            return now
        if trouble is RetryReason.BUSY:
            _answered.add(self._key)
        with self._lock:
            for kind in (False, True):
                outage = self._outages.get(kind)
                if outage is None or now - outage.last > _OVER_AFTER:
                    outage = self._outages[kind] = _Outage(now)
                outage.last = now
                outage.own = outage.own or kind is writes
            return self._outages[writes].began

    def limit(self, trouble: RetryReason) -> float:
        """Seconds to wait."""
        if self.has_answered or trouble in (RetryReason.BUSY, RetryReason.CONFLICT):
            return self.seconds
        return 0.0 if trouble is RetryReason.NO_SUCH_HOST else self.seconds * _AT_FIRST

    @property
    def has_answered(self) -> bool:
        """Whether the place ever answered this process."""
        return self._key in _answered

    def tell(self, trouble: RetryReason, left: float, *, writes: bool = False, said: str = "") -> None:
        """Say in the log that the outage continues, not at once and not too often. ``writes`` as in ``begin``; ``said``
        is what the place answered, in its own words and without secrets."""
        now = self.clock.monotonic()
        with self._lock:
            outage = self._outages.get(writes)
            if outage is None or now - outage.began < _TOLD_AFTER:
                return
            if any(each.told is not None and now - each.told < _TOLD_EVERY for each in self._outages.values()):
                return
            outage.told = now
            lasts = now - outage.began
        logger.warning(
            "waiting for %s for %.0f s now, since %s; giving up in %.0f s (%s)",
            self._what,
            lasts,
            f"{trouble.value}: {shown(said[:_SHOWN])}" if said else trouble.value,
            left,
            self._place,
        )


class Wait:
    """One request's tries."""

    def __init__(self, patience: Patience, *, writes: bool = False) -> None:
        self._patience = patience
        self._writes = writes
        self._backoff = backoff(patience.clock)
        self._tries = 0
        self._began: float | None = None
        self.given_up: GivenUp | None = None

    def again(self, trouble: RetryReason, *, at_least: float = 0.0, said: str = "") -> bool:
        """After a try that failed: wait, and True, or False at the patience's end, with ``given_up``. ``at_least``: the
        seconds that the server asked to wait, as far as they are left. ``said`` is its answer, for the log."""
        patience, clock = self._patience, self._patience.clock
        outage = patience.began(trouble, writes=self._writes)
        now = clock.monotonic()
        self._began = now if self._began is None else self._began
        self._tries += 1
        waited = now - min(outage, self._began)
        left = patience.limit(trouble) - waited
        if left < _INSTANT and self._tries >= LEAST_TRIES:
            self.given_up = GivenUp(trouble, waited, patience.has_answered)
            return False
        patience.tell(trouble, max(0.0, left), writes=self._writes, said=said)
        wanted = self._backoff.next()
        clock.sleep(wanted if left < _INSTANT else min(max(wanted, at_least), left))
        return True
