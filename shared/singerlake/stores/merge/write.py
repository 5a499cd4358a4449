"""Storing one transaction where it cannot be lost, without reading anything first."""

from __future__ import annotations

from singerlake.clock import Clock, IdSource
from singerlake.errors import SingerlakeError, StorageUnavailableError, UnknownOutcomeError
from singerlake.format.exact_json import encode
from singerlake.format.merge.entry_key import EntryKey, EntryKeys
from singerlake.format.merge.patch import MergeEntry
from singerlake.storage.port import Storage
from singerlake.stores.merge.entries import Entries
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.storage_time import StorageTime

_TRIES = 5


class EntryWriter:
    """Writes the entries of one writer, under keys that are in its order."""

    def __init__(
        self,
        storage: Storage,
        entries: Entries,
        settings: MergeSettings,
        time: StorageTime,
        clock: Clock,
        ids: IdSource,
    ) -> None:
        self._storage = storage
        self._entries = entries
        self._settings = settings
        self._time = time
        self._clock = clock
        self._keys = EntryKeys(ids)

    def write(self, entry: MergeEntry, *, waiting: bool) -> EntryKey:
        """Write ``entry``, see that it counts, and else correct the clock and write it again under another key; one
        that does not count never will. ``waiting``: entries of this writer have no place yet, which must be before.

        Raises ``UnknownOutcomeError``, and ``StorageUnavailableError`` with nothing committed.
        """
        body = encode(entry)
        for _ in range(_TRIES):
            last = self._keys.last
            key = self._next(waiting)
            if self._put(key, body):
                return key
            self._keys.back_to(last)
        raise StorageUnavailableError(
            f"storage gave {_TRIES} entries in a row other times than their names say, so none of them counts",
            hint="check the clock of the storage, or raise merge_stale_seconds; then run again",
            lake_root=self._storage.url,
        )

    def _next(self, waiting: bool) -> EntryKey:
        now, last = self._time.now(), self._keys.last
        if last is not None and last.time - now >= self._settings.stale_ms:
            # Storage's own clock was set back: no key can both come after the last one and count.
            if waiting:
                raise StorageUnavailableError(
                    f"the clock of the storage went back by {(last.time - now) / 1000:g} s",
                    hint="run again when the written entry has its place in the log",
                    lake_root=self._storage.url,
                )
            self._keys.back_to(None)
        return self._keys.next(now)

    def _put(self, key: EntryKey, body: bytes) -> bool:
        """Whether what is now under ``key`` counts. What a lost reply did not say, storage does."""
        place = self._entries.key(key.name)
        conditional = self._storage.capabilities().takes_conditions
        unknown: UnknownOutcomeError | None = None
        sent = self._clock.monotonic()
        try:
            # Refused, it would be by one's own earlier try: nobody else has this key. A try that lands late must not
            # change the time of the first.
            self._storage.put(place, body, if_absent=conditional)
        except UnknownOutcomeError as error:
            unknown = error
        received = self._clock.monotonic()
        try:
            head = self._entries.head(key.name)
        except SingerlakeError as error:
            raise unknown or _unseen(place) from error
        if head is None:
            raise unknown or _unseen(place)
        self._time.observe(
            head.last_modified, sent=sent, received=received if unknown is None else self._clock.monotonic()
        )
        return self._entries.count(key, head)


def _unseen(key: str) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        "an entry was written, but it is not known whether it counts", hint="run again; nothing is lost", key=key
    )
