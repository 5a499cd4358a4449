"""``_log/last_change``: touched after writes, so that a poll asks for one object's ETag and not for a listing.

MPS3 touches it with an empty body, whose ETag never changes, so that its pollers never notice.
"""

from __future__ import annotations

import logging

import msgspec

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import SingerlakeError
from singerlake.storage.port import Storage
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.storage_time import StorageTime

logger = logging.getLogger(__name__)


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
        """Change the object: for entries at most once in a while, for records ``always``. It only tells others sooner
        what is on storage anyway, so its failure is nobody's."""
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
        """Whether there may be something new since this was last asked. True at intervals in any case:
        a writer that crashed between a write and its touch left no sign."""
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
