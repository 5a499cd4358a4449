"""Finding out which conditions a storage honours, by asking it.

A storage that ignores conditions answers success to them. A balancer that sends a request again may answer 412 to a
write that took effect. So only a success that its condition excludes shows that conditions are ignored; a refusal of
the probe's own write shows nothing, and the probe asks again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from typing import Protocol, TypeVar

from singerlake.clock import Clock, IdSource
from singerlake.errors import (
    AccessDeniedError,
    ConditionNotSupportedError,
    ConditionsUnprovenError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from singerlake.storage.patience import backoff
from singerlake.storage.port import Capabilities, Refused, Storage, Stored, Written

logger = logging.getLogger(__name__)

PROBE_PREFIX = "_singerlake_probe/"
RACERS = 8
"""Requests sent at once to one key: enough for a storage that checks first and writes later to show two winners."""
_OBJECTS = ("created", "replaced", "absent", "deleted")
_LEFT_BEHIND = timedelta(hours=1)
_LONGEST_ROUND = 600.0
"""Seconds; what a slower round saw may be another probe's work, which takes over objects that are an hour old."""

Answer = TypeVar("Answer")


class Together(Protocol):
    """Does several things at once, and gives what came of each, in their order. Raises what one of them raised."""

    def __call__(self, works: Sequence[Callable[[], Answer]], /) -> list[Answer]: ...


class _Verdict(Enum):
    HONOURED = "every condition was honoured"
    IGNORED = "a write succeeded although its condition did not hold"
    NOTHING = "answers were lost, or the probe's own writes were refused"


def at_once(works: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """``Together`` in threads, all of which begin at the same moment."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], Answer]) -> Answer:
        barrier.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def in_turn(works: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """``Together`` one after the other, for a simulation."""
    return [work() for work in works]


def prove(
    storage: Storage,
    *,
    clock: Clock,
    ids: IdSource,
    max_wait: float,
    setting: str = "s3_probe_max_wait_seconds",
    together: Together = at_once,
    racers: int = RACERS,
) -> Capabilities:
    """What the storage honours. Asks again for up to ``max_wait`` seconds where the answers prove nothing; ``setting``
    is the one that says how many.

    Raises ``ConditionsUnprovenError`` after that, and what storage raises.
    """
    began, tries, waits = clock.monotonic(), 0, backoff(clock)
    while (seen := probe(storage, clock=clock, ids=ids, together=together, racers=racers)) is None:
        waited, tries = clock.monotonic() - began, tries + 1
        if waited >= max_wait:
            raise ConditionsUnprovenError(
                "the answers of storage do not show whether it honours conditional writes",
                hint=f"run again when it answers reliably, or raise {setting}; nothing was written",
                lake_root=storage.url,
                **{setting: max_wait},
            )
        if tries == 1:
            logger.warning(
                "%s does not show whether it honours conditional writes; asking again for up to %.0f s",
                storage.url,
                max_wait - waited,
            )
        waits.wait()
    return seen


def probe(
    storage: Storage, *, clock: Clock, ids: IdSource, together: Together = at_once, racers: int = RACERS
) -> Capabilities | None:
    """One round of questions, with a few small objects under ``_singerlake_probe/``; None where the answers prove
    nothing. Raises what storage raises.

    The objects are removed where the credentials may delete. Where they may not, a later probe takes over what an
    earlier one left, so that probes do not pile up. Two might take the same, so only its good news counts.
    """
    began = clock.monotonic()
    left = _left_behind(storage)
    if left is not None:
        seen = _Round(storage, left, ids().encode(), together, racers).capabilities(fresh=False)
        if seen is not None and seen.conditional_put:
            return seen
    seen = _Round(storage, f"{PROBE_PREFIX}{ids()}", ids().encode(), together, racers).capabilities(fresh=True)
    return seen if clock.monotonic() - began <= _LONGEST_ROUND else None


def storage_time(storage: Storage, *, ids: IdSource) -> datetime:
    """What time it is on the storage's clock, by an object that is written to find out and removed again."""
    key = f"{PROBE_PREFIX}{ids()}"
    storage.put(key, ids().encode())
    try:
        entry = storage.head(key)
    finally:
        with suppress(AccessDeniedError, UnknownOutcomeError):
            storage.delete(key)
    if entry is None:
        raise StorageUnavailableError("an object that was just written is not there", hint="run again", key=key)
    return entry.last_modified


def _left_behind(storage: Storage) -> str | None:
    """The oldest objects of a probe that ended long before the newest one, both on the storage's clock."""
    entries = (entry for entry in storage.list(PROBE_PREFIX) if "/" in entry.key[len(PROBE_PREFIX) :])
    newest_last = sorted(entries, key=lambda entry: entry.last_modified)
    if len(newest_last) > 1 and newest_last[-1].last_modified - newest_last[0].last_modified > _LEFT_BEHIND:
        return newest_last[0].key.rpartition("/")[0]
    return None


@dataclass(frozen=True, slots=True)
class _Round:
    """All questions once. Each has objects of its own below ``base``, so that they can be asked at once: a writer waits
    for the answers. ``nonce`` makes all bodies, and so all ETags, new."""

    storage: Storage
    base: str
    nonce: bytes
    together: Together
    racers: int

    def capabilities(self, *, fresh: bool) -> Capabilities | None:
        """``fresh``: nothing is below ``base`` yet. None where the answers prove nothing."""
        created, replaced, absent, deleted = (f"{self.base}/{name}" for name in _OBJECTS)
        try:
            create, replace, delete = self.together(
                [
                    lambda: self._create(created, fresh=fresh),
                    lambda: self._replace(replaced, absent),
                    lambda: self._delete(deleted),
                ]
            )
        except ConditionNotSupportedError:
            return Capabilities(conditional_put=False, conditional_delete=False, takes_conditions=False)
        except UnknownOutcomeError:
            return None
        finally:
            _remove(self.storage, [created, replaced, absent, deleted])
        ignored = _Verdict.IGNORED in (create, replace)
        if not ignored and _Verdict.NOTHING in (create, replace):
            return None
        return Capabilities(conditional_put=not ignored, conditional_delete=delete is _Verdict.HONOURED)

    def _create(self, key: str, *, fresh: bool) -> _Verdict:
        told, _ = self._race(lambda body: self.storage.put(key, body, if_absent=True))
        stored = self.storage.get(key)
        if fresh:
            judged = _judge_race(told, stored)
        else:
            judged = _Verdict.NOTHING if told or stored is None else _Verdict.HONOURED
        if judged is not _Verdict.HONOURED:
            return judged
        again = self.storage.put(key, self.nonce + b" again", if_absent=True)
        return _Verdict.IGNORED if isinstance(again, Written) else _Verdict.HONOURED

    def _replace(self, key: str, absent: str) -> _Verdict:
        put, nonce = self.storage.put, self.nonce
        # On condition, too: one without that is sent again later would make an old ETag valid again.
        made = put(key, nonce + b" first", if_absent=True)
        first = made if isinstance(made, Written) else self.storage.get(key)
        if first is None or isinstance(put(key, nonce + b" next", if_match=first.etag), Refused):
            return _Verdict.NOTHING
        old = first.etag
        # No other write is under way then: a storage may refuse one for that, and not for its ETag.
        second, late = self.together([lambda: self.storage.get(key), lambda: put(key, nonce + b" late", if_match=old)])
        if isinstance(late, Written):
            return _Verdict.IGNORED
        if not isinstance(second, Stored) or second.etag == old:
            return _Verdict.NOTHING
        told, (elsewhere,) = self._race(
            lambda body: put(key, body, if_match=second.etag),
            lambda: put(absent, nonce + b" absent", if_match=old),
        )
        if isinstance(elsewhere, Written):
            return _Verdict.IGNORED
        return _judge_race(told, self.storage.get(key))

    def _delete(self, key: str) -> _Verdict:
        """Whether a DELETE under the ETag of an earlier body leaves the object alone."""
        try:
            old = self.storage.put(key, self.nonce + b" before the last")
            self.storage.put(key, self.nonce + b" last")
            if isinstance(old, Refused):
                return _Verdict.NOTHING
            kept = not self.storage.delete(key, if_match=old.etag) and self.storage.head(key) is not None
        except (AccessDeniedError, ConditionNotSupportedError, UnknownOutcomeError):
            return _Verdict.NOTHING
        return _Verdict.HONOURED if kept else _Verdict.IGNORED

    def _race(
        self, attempt: Callable[[bytes], Written | Refused], *beside: Callable[[], Written | Refused]
    ) -> tuple[list[bytes], list[Written | Refused | None]]:
        """Send several bodies at once; those that were answered with success. A lost answer is none. ``beside`` is done
        with them, and what came of that is given, too."""

        def answered(body: bytes) -> Written | Refused | None:
            try:
                return attempt(body)
            except UnknownOutcomeError:
                return None

        bodies = [self.nonce + b" racer %d" % number for number in range(self.racers)]
        works: list[Callable[[], Written | Refused | None]] = [*beside, *(partial(answered, body) for body in bodies)]
        outcomes = self.together(works)
        raced = zip(bodies, outcomes[len(beside) :], strict=True)
        return [body for body, outcome in raced if isinstance(outcome, Written)], outcomes[: len(beside)]


def _judge_race(told: Sequence[bytes], stored: Stored | None) -> _Verdict:
    """Of writes that exclude each other, ``told`` were answered with success, and ``stored`` was there afterwards."""
    if len(told) > 1 or (told and stored is not None and stored.body != told[0]):
        return _Verdict.IGNORED
    return _Verdict.HONOURED if told and stored is not None else _Verdict.NOTHING


def _remove(storage: Storage, keys: Sequence[str]) -> None:
    with suppress(AccessDeniedError, UnknownOutcomeError):
        storage.delete_all(keys)
