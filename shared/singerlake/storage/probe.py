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
from datetime import datetime, timedelta
from enum import Enum

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
_LEFT_BEHIND = timedelta(hours=1)
_LONGEST_ROUND = 600.0
"""Seconds; what a slower round saw may be another probe's work, which takes over objects that are an hour old."""

Attempt = Callable[[bytes], Written | Refused]
"""Writes the body that it is given, on the condition of the race."""
Race = Callable[[Attempt, Sequence[bytes]], list[bytes]]
"""Sends all bodies at once; gives those that were answered with success."""


class _Verdict(Enum):
    HONOURED = "every condition was honoured"
    IGNORED = "a write succeeded although its condition did not hold"
    NOTHING = "answers were lost, or the probe's own writes were refused"


def at_once(attempt: Attempt, bodies: Sequence[bytes]) -> list[bytes]:
    """A ``Race`` in threads. Raises what an attempt raises, except ``UnknownOutcomeError``, which counts as no
    success."""
    barrier = threading.Barrier(len(bodies))

    def run(body: bytes) -> bool:
        barrier.wait()
        return _won(attempt, body)

    with ThreadPoolExecutor(len(bodies)) as pool:
        return [body for body, won in zip(bodies, pool.map(run, bodies), strict=True) if won]


def in_turn(attempt: Attempt, bodies: Sequence[bytes]) -> list[bytes]:
    """A ``Race`` of one request after the other, for a simulation. Raises as ``at_once``."""
    return [body for body in bodies if _won(attempt, body)]


def prove(storage: Storage, *, clock: Clock, ids: IdSource, max_wait: float, race: Race = at_once) -> Capabilities:
    """What the storage honours. Asks again for up to ``max_wait`` seconds where the answers prove nothing.

    Raises ``ConditionsUnprovenError`` after that, and what storage raises.
    """
    began, tries, waits = clock.monotonic(), 0, backoff(clock)
    while (seen := probe(storage, clock=clock, ids=ids, race=race)) is None:
        waited, tries = clock.monotonic() - began, tries + 1
        if waited >= max_wait:
            raise ConditionsUnprovenError(
                "the answers of storage do not show whether it honours conditional writes",
                hint="run again when it answers reliably, or raise s3_probe_max_wait_seconds; nothing was written",
                lake_root=storage.url,
                s3_probe_max_wait_seconds=max_wait,
            )
        if tries == 1:
            logger.warning(
                "%s does not show whether it honours conditional writes; asking again for up to %.0f s",
                storage.url,
                max_wait - waited,
            )
        waits.wait()
    return seen


def probe(storage: Storage, *, clock: Clock, ids: IdSource, race: Race = at_once) -> Capabilities | None:
    """One round of questions, with two small objects under ``_singerlake_probe/``; None where the answers prove
    nothing. Raises what storage raises.

    The objects are removed where the credentials may delete. Where they may not, a later probe takes over what an
    earlier one left, so that probes do not pile up. Two might take the same, so only its good news counts.
    """
    began = clock.monotonic()
    left = _left_behind(storage)
    if left is not None:
        seen = _round(storage, left, ids().encode(), race, fresh=False)
        if seen is not None and seen.conditional_put:
            return seen
    seen = _round(storage, f"{PROBE_PREFIX}{ids()}", ids().encode(), race, fresh=True)
    return seen if clock.monotonic() - began <= _LONGEST_ROUND else None


def storage_time(storage: Storage, *, ids: IdSource) -> datetime:
    """What time it is on the storage's clock, by an object that is written to find out and removed again."""
    key = f"{PROBE_PREFIX}{ids()}"
    storage.put(key, ids().encode())
    try:
        entry = storage.head(key)
    finally:
        _remove(storage, key)
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


def _round(storage: Storage, base: str, nonce: bytes, race: Race, *, fresh: bool) -> Capabilities | None:
    """``fresh``: nothing is under ``base`` yet. The nonce makes all bodies, and so all ETags, new."""
    key, absent = f"{base}/present", f"{base}/absent"
    try:
        verdict = _judge_put(storage, key, absent, nonce, race, fresh=fresh)
        if verdict is _Verdict.NOTHING:
            return None
        return Capabilities(
            conditional_put=verdict is _Verdict.HONOURED, conditional_delete=_honours_delete(storage, key, nonce)
        )
    except ConditionNotSupportedError:
        return Capabilities(conditional_put=False, conditional_delete=False, takes_conditions=False)
    except UnknownOutcomeError:
        return None
    finally:
        for each in (key, absent):
            _remove(storage, each)


def _judge_put(storage: Storage, key: str, absent: str, nonce: bytes, race: Race, *, fresh: bool) -> _Verdict:
    bodies = [nonce + b" racer %d" % number for number in range(RACERS)]
    told = race(lambda body: storage.put(key, body, if_absent=True), bodies)
    first = storage.get(key)
    judged = _judge_race(told, first) if fresh else _Verdict.NOTHING if told else _Verdict.HONOURED
    if judged is not _Verdict.HONOURED or first is None:
        return judged
    if isinstance(storage.put(key, nonce + b" again", if_absent=True), Written):
        return _Verdict.IGNORED
    if isinstance(storage.put(key, nonce + b" next", if_match=first.etag), Refused):
        return _Verdict.NOTHING
    second = storage.get(key)
    if second is None or second.etag == first.etag:
        return _Verdict.NOTHING
    if isinstance(storage.put(key, nonce + b" late", if_match=first.etag), Written):
        return _Verdict.IGNORED
    if isinstance(storage.put(absent, nonce + b" absent", if_match=first.etag), Written):
        return _Verdict.IGNORED
    told = race(lambda body: storage.put(key, body, if_match=second.etag), [body + b" more" for body in bodies])
    return _judge_race(told, storage.get(key))


def _judge_race(told: Sequence[bytes], stored: Stored | None) -> _Verdict:
    """Of writes that exclude each other, ``told`` were answered with success, and ``stored`` was there afterwards."""
    if len(told) > 1 or (told and stored is not None and stored.body != told[0]):
        return _Verdict.IGNORED
    return _Verdict.HONOURED if told and stored is not None else _Verdict.NOTHING


def _won(attempt: Attempt, body: bytes) -> bool:
    try:
        return isinstance(attempt(body), Written)
    except UnknownOutcomeError:
        return False


def _honours_delete(storage: Storage, key: str, nonce: bytes) -> bool:
    """Whether a DELETE under the ETag of an earlier body leaves the object alone."""
    try:
        old = storage.put(key, nonce + b" before the last")
        storage.put(key, nonce + b" last")
        if isinstance(old, Refused):
            return False
        return not storage.delete(key, if_match=old.etag) and storage.head(key) is not None
    except (AccessDeniedError, ConditionNotSupportedError, UnknownOutcomeError):
        return False


def _remove(storage: Storage, key: str) -> None:
    try:
        storage.delete(key)
    except (AccessDeniedError, UnknownOutcomeError):
        return
