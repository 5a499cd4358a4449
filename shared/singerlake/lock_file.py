"""The lock file: taken by writing it, reading it back and finding one's own ``writer-id`` in it (Singerlake Spec, part
2 of 2023-02-15, section 3).

The lock is courtesy between writers; no guarantee rests on it, since the manifest is replaced conditionally. Its own
writes are conditional where storage honours that, so that a writer that woke up late neither overwrites nor deletes
its successor's lock (Kleppmann, "How to do distributed locking"). Whether a holder is dead is judged by the body not
changing for a time on the observer's monotonic clock, never by comparing two machines' clocks.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial

import msgspec

from singerlake.clock import Backoff, Clock, IdSource, timestamp
from singerlake.errors import CorruptObjectError, LockTimeoutError, SettingError, SingerlakeError, UnknownOutcomeError
from singerlake.format.decoders import prepare_decoders
from singerlake.interpreter.threads import LateThread, LateThreads
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Refused, Storage, Stored, Written

logger = logging.getLogger(__name__)

_FIRST_POLL = 0.02
_LONGEST_POLL = 1.0
_WRITES_WITHOUT_WAITING = 2
_WAIT_HINT = "wait for it, raise lock_max_wait_seconds, or run 'singerlake lock break'"


class LockBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"writer_id": "writer-id"}):
    """What a lock file holds. ``nonce`` makes every body, and so every ETag, new; the Singerlake Spec, and so another
    program's lock, is without. ``released``: the holder gave it up where storage cannot delete conditionally."""

    writer_id: str
    acquired: str
    refreshed: str
    nonce: str | None = None
    released: str | None = None


@dataclass(frozen=True, kw_only=True)
class LockSettings:
    """Seconds. ``stale_after`` without a change and a lock may be taken over; ``refresh`` is how often a holder
    changes it; ``max_wait`` is how long to wait for a live holder. Raises ``SettingError``."""

    max_wait: float = 600.0
    stale_after: float = 60.0
    refresh: float = 15.0

    def __post_init__(self) -> None:
        if self.refresh <= 0 or self.stale_after <= 0 or self.max_wait < 0:
            raise SettingError(
                "lock times must be positive",
                hint="check lock_max_wait_seconds, lock_stale_after_seconds and lock_refresh_seconds",
            )
        if self.refresh * 2 > self.stale_after:
            raise SettingError(
                "lock_refresh_seconds is more than half of lock_stale_after_seconds, so live locks would look dead",
                hint="lower lock_refresh_seconds or raise lock_stale_after_seconds",
                lock_refresh_seconds=self.refresh,
                lock_stale_after_seconds=self.stale_after,
            )


def parse_lock(body: bytes, *, key: str) -> LockBody:
    """The content of a lock file. Raises ``CorruptObjectError``."""
    try:
        return msgspec.json.decode(body, type=LockBody)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptObjectError(
            f"not a lock file: {error}", hint="look at who wrote it, then run 'singerlake lock break'", key=key
        ) from error


def _holder(body: LockBody | None) -> str:
    if body is None:
        return "the lock could not be taken in time, although no writer held it for long"
    return f"writer {body.writer_id} has held the lock since {body.acquired}, last refreshed {body.refreshed}"


class Lock:
    """One writer's hold on one key. ``acquire``, then ``refresh`` now and then, then ``release``."""

    def __init__(
        self, storage: Storage, key: str, writer_id: str, settings: LockSettings, clock: Clock, ids: IdSource
    ) -> None:
        self._storage = storage
        self._key = key
        self._writer_id = writer_id
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._mine: tuple[LockBody, str] | None = None

    @property
    def is_held(self) -> bool:
        """Whether this writer has taken the lock and not seen it lost."""
        return self._mine is not None

    @contextmanager
    def held(self, taken: Callable[[], object] = lambda: None) -> Iterator[Lock]:
        """The lock taken for the length of a block, refreshed from a thread of its own where the block is a long one.
        ``taken`` and errors are as in ``acquire``."""
        done = threading.Event()
        heart: LateThread | None = None
        try:
            self.acquire(taken)
            heart = _hearts(self._settings.refresh).begin(partial(self._beat, done))
            yield self
        finally:
            done.set()
            if heart is not None:
                heart.end()
            self.release()

    def acquire(self, taken: Callable[[], object] = lambda: None) -> None:
        """Wait for the lock, take it and read it back. ``taken`` is called once storage has written it on a condition,
        which makes it this writer's before it is read back; where conditions mean nothing it is not called. Raises
        ``LockTimeoutError``, which names the holder, ``CorruptObjectError``."""
        nonces: set[str] = set()
        try:
            self._take(nonces, taken)
        except KeyboardInterrupt:
            self._give_back(nonces)
            raise

    def _take(self, nonces: set[str], taken: Callable[[], object]) -> None:
        able = self._storage.capabilities()

        def write(seen: Stored | None) -> None:
            if self._write(seen, nonces) and able.conditional_put:
                taken()

        if able.conditional_put and able.conditional_delete:
            # Where locks are removed at their release there is none, mostly; where there is, storage refuses.
            write(None)
        started = self._clock.monotonic()
        watched: tuple[bytes, float] | None = None
        backoff = Backoff(self._clock, first=_FIRST_POLL, longest=_LONGEST_POLL, jitter=0.5)
        while True:
            stored = self._storage.get(self._key)
            body = parse_lock(stored.body, key=self._key) if stored else None
            now = self._clock.monotonic()
            if stored is not None and body is not None and self._is_own(body, nonces) and body.released is None:
                self._mine = (body, stored.etag)
                return
            if watched is None or stored is None or watched[0] != stored.body:
                watched = (stored.body if stored else b"", now)
            free = body is None or body.released is not None
            stale = not free and now - watched[1] >= self._settings.stale_after
            if stale and body is not None:
                logger.warning("taking over the lock of %r, unchanged for %.0f s", body.writer_id, now - watched[1])
            if (free or stale) and len(nonces) < _WRITES_WITHOUT_WAITING:
                write(stored)
                continue
            if now - started >= self._settings.max_wait:
                raise LockTimeoutError(_holder(body), hint=_WAIT_HINT, key=self._key)
            backoff.wait()
            if free or stale:
                write(stored)

    def _give_back(self, nonces: set[str]) -> None:
        """Release what was written: the request to end may have come while a write was under way."""
        with suppress(SingerlakeError):
            stored = self._storage.get(self._key)
            if stored is not None and self._is_own(parse_lock(stored.body, key=self._key), nonces):
                self._mine = (parse_lock(stored.body, key=self._key), stored.etag)
                self.release()

    def refresh(self) -> bool:
        """Show that the holder lives. False where the lock was lost to another writer, which stops nothing."""
        if self._mine is None:
            return False
        body, etag = self._mine
        fresh = msgspec.structs.replace(body, refreshed=timestamp(self._clock.now()), nonce=self._ids())
        outcome = self._replace(fresh, etag)
        if isinstance(outcome, Refused):
            stored = self._storage.get(self._key)
            if stored is not None and parse_lock(stored.body, key=self._key) == fresh:
                outcome = Written(stored.etag)
        if isinstance(outcome, Refused):
            logger.warning(
                "another writer took over the lock %s; continuing, because commits are safe without it", self._key
            )
            self._mine = None
            return False
        self._mine = (fresh, outcome.etag)
        return True

    def release(self) -> None:
        """Give the lock up, if it is still this writer's. Failures are logged: a lock without refreshes goes stale."""
        if self._mine is None:
            return
        (body, etag), self._mine = self._mine, None
        try:
            if self._storage.capabilities().conditional_delete:
                self._storage.delete(self._key, if_match=etag)
            else:
                gone = msgspec.structs.replace(body, released=timestamp(self._clock.now()), nonce=self._ids())
                self._replace(gone, etag)
        except SingerlakeError as error:
            logger.warning("could not release the lock %s: %s", self._key, error)

    def _write(self, seen: Stored | None, nonces: set[str]) -> bool:
        """Put a lock of one's own where ``seen`` was; whether storage says that it is there. Only the next read tells
        whose lock is there: a reply can be lost, and without conditions another writer's may have come on top."""
        now, nonce = timestamp(self._clock.now()), self._ids()
        body = LockBody(writer_id=self._writer_id, acquired=now, refreshed=now, nonce=nonce)
        encoded = msgspec.json.encode(body)
        nonces.add(nonce)
        with suppress(UnknownOutcomeError):
            etag = seen.etag if seen else None
            return isinstance(put_on_condition(self._storage, self._key, encoded, etag=etag, just_read=True), Written)
        return False

    def _replace(self, body: LockBody, etag: str) -> Written | Refused:
        """Put ``body`` where the lock with ``etag``, one's own, still is."""
        return put_on_condition(self._storage, self._key, msgspec.json.encode(body), etag=etag)

    def _is_own(self, body: LockBody, nonces: set[str]) -> bool:
        """Read back, a lock is one's own by ``writer-id`` and by a nonce that this object wrote: two threads of one
        writer may want the same lock."""
        return body.writer_id == self._writer_id and body.nonce in nonces

    def _beat(self, done: threading.Event) -> None:
        while not done.is_set():
            try:
                if not self.refresh():
                    return
            except SingerlakeError as error:
                logger.warning("could not refresh the lock %s: %s", self._key, error)
            done.wait(self._settings.refresh)


@cache
def _hearts(refresh: float) -> LateThreads:
    """What begins to refresh the locks of this process that are to be refreshed so often."""
    return LateThreads(refresh, "singerlake-lock")


if hasattr(os, "register_at_fork"):
    # A forked child has none of the threads.
    os.register_at_fork(after_in_child=_hearts.cache_clear)


prepare_decoders(LockBody)
