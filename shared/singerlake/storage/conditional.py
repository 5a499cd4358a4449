"""Replacing an object on condition, on every storage: how the state of a stream and its locks are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from singerlake.errors import TooManyConflictsError
from singerlake.storage.port import Refused, Storage, Stored, Written

ATTEMPTS = 5
"""How often a change is tried again because somebody else came first."""


def put_on_condition(
    storage: Storage, key: str, body: bytes, *, etag: str | None, just_read: bool = False
) -> Written | Refused:
    """Put ``body`` where the object still has ``etag``, or where there is none (None). ``just_read``: the caller's last
    request was to read the object. Raises what storage raises.

    The request always carries its condition, unless it was answered with 501. Where conditions were seen to be ignored,
    a look just before the write is all there is, and another writer may come between the two.
    """
    able = storage.capabilities()
    if not able.conditional_put and not just_read:
        there = storage.head(key)
        if (there.etag if there else None) != etag:
            return Refused()
    if not able.takes_conditions:
        return storage.put(key, body)
    return storage.put(key, body, if_absent=True) if etag is None else storage.put(key, body, if_match=etag)


class Replacement(NamedTuple):
    """What is to stand in the place of the object that has ``etag``, or where there is none (None)."""

    body: bytes
    etag: str | None


def replace_if_unchanged(
    storage: Storage, key: str, change: Callable[[Stored | None], bytes | None], *, attempts: int = ATTEMPTS
) -> bool:
    """Replace an object with what ``change`` makes of it, None: leave it; again where somebody else came first. True
    where it was replaced. Raises ``TooManyConflictsError`` and what storage and ``change`` raise."""

    def look() -> Replacement | None:
        stored = storage.get(key)
        body = change(stored)
        if body is None or (stored is not None and body == stored.body):
            return None
        return Replacement(body, stored.etag if stored else None)

    return replace_as_found(storage, key, look, attempts=attempts)


def replace_as_found(
    storage: Storage, key: str, look: Callable[[], Replacement | None], *, attempts: int = ATTEMPTS
) -> bool:
    """The same where ``look`` finds what is to be replaced, and by what: it may do with less than the whole."""
    for _ in range(attempts):
        wanted = look()
        if wanted is None:
            return False
        if isinstance(put_on_condition(storage, key, wanted.body, etag=wanted.etag), Written):
            return True
    raise TooManyConflictsError("others kept changing it meanwhile", hint="run again; nothing is lost", key=key)


def replace_what_was_seen(
    storage: Storage, key: str, change: Callable[[Stored | None], bytes | None], seen: Stored | None
) -> bool:
    """As ``replace_if_unchanged``, for an object that is likely still as it was ``seen``, or still not there (None),
    which ``change`` gets first. It is read only where somebody else came first, or ``change`` leaves what was seen."""
    body = change(seen)
    if body is not None and (seen is None or body != seen.body):
        etag = seen.etag if seen else None
        if isinstance(put_on_condition(storage, key, body, etag=etag), Written):
            return True
    return replace_if_unchanged(storage, key, change)
