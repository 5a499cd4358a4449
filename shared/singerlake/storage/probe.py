"""Finding out which conditions a storage honours, by asking it. A store that ignores them answers success."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from singerlake.clock import IdSource, random_id
from singerlake.errors import AccessDenied, ConditionNotSupported, StorageUnavailable
from singerlake.storage.port import Capabilities, Refused, Storage, Written

PROBE_PREFIX = "_singerlake_probe/"
RACERS = 8
"""Requests let go at once at one key: enough for a check-then-act store to show more than one winner."""
_LEFT_BEHIND = timedelta(hours=1)


def probe(storage: Storage, *, ids: IdSource = random_id) -> Capabilities:
    """What the storage honours, measured with two small objects under ``_singerlake_probe/``.

    They are removed where the credentials may delete. Where they may not, a later probe takes over what an earlier
    one left, so that probes do not pile up; as two might take the same, only its good news counts.
    """
    left = _left_behind(storage)
    if left is not None:
        seen = _measure(storage, left, ids().encode(), winners=0)
        if seen.conditional_put:
            return seen
    return _measure(storage, f"{PROBE_PREFIX}{ids()}", ids().encode(), winners=1)


def storage_time(storage: Storage, *, ids: IdSource = random_id) -> datetime:
    """What time it is on the storage's clock, by an object that is written to find out and removed again."""
    key = f"{PROBE_PREFIX}{ids()}"
    storage.put(key, ids().encode())
    try:
        entry = storage.head(key)
    finally:
        _remove(storage, key)
    if entry is None:
        raise StorageUnavailable("an object that was just written is not there", hint="run again", key=key)
    return entry.last_modified


def _left_behind(storage: Storage) -> str | None:
    """The oldest objects of a probe that ended long before the newest one, both on the storage's clock."""
    entries = (entry for entry in storage.list(PROBE_PREFIX) if "/" in entry.key[len(PROBE_PREFIX) :])
    found = sorted(entries, key=lambda entry: entry.last_modified)
    if len(found) > 1 and found[-1].last_modified - found[0].last_modified > _LEFT_BEHIND:
        return found[0].key.rpartition("/")[0]
    return None


def _measure(storage: Storage, base: str, nonce: bytes, *, winners: int) -> Capabilities:
    """``winners`` of the race to create: none where the objects are there already. The nonce makes all bodies, and
    so all ETags, new."""
    key, absent = f"{base}/present", f"{base}/absent"
    try:
        put = _honours_put(storage, key, absent, nonce, winners)
        return Capabilities(conditional_put=put, conditional_delete=_honours_delete(storage, key, nonce))
    finally:
        for each in (key, absent):
            _remove(storage, each)


def _honours_put(storage: Storage, key: str, absent: str, nonce: bytes, winners: int) -> bool:
    try:
        if _race(lambda racer: storage.put(key, nonce + racer, if_absent=True)) != winners:
            return False
        if isinstance(storage.put(key, nonce + b" again", if_absent=True), Written):
            return False
        first = storage.get(key)
        if first is None or isinstance(storage.put(key, nonce + b" next", if_match=first.etag), Refused):
            return False
        if isinstance(storage.put(key, nonce + b" late", if_match=first.etag), Written):
            return False
        if isinstance(storage.put(absent, nonce + b" absent", if_match=first.etag), Written):
            return False
        second = storage.get(key)
        return second is not None and _race(lambda racer: storage.put(key, nonce + racer, if_match=second.etag)) == 1
    except ConditionNotSupported:
        return False


def _race(attempt: Callable[[bytes], Written | Refused]) -> int:
    """How many of the racers were told that they had won."""
    barrier = threading.Barrier(RACERS)

    def run(number: int) -> bool:
        barrier.wait()
        return isinstance(attempt(b" racer %d" % number), Written)

    with ThreadPoolExecutor(RACERS) as pool:
        return sum(pool.map(run, range(RACERS)))


def _honours_delete(storage: Storage, key: str, nonce: bytes) -> bool:
    """Whether a DELETE under the ETag of an earlier body leaves the object alone."""
    old = storage.put(key, nonce + b" before the last")
    storage.put(key, nonce + b" last")
    if isinstance(old, Refused):
        return False
    try:
        return not storage.delete(key, if_match=old.etag) and storage.head(key) is not None
    except (AccessDenied, ConditionNotSupported):
        return False


def _remove(storage: Storage, key: str) -> None:
    try:
        storage.delete(key)
    except AccessDenied:
        return
