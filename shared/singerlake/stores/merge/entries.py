"""Entries of the ``merge`` store: each is one transaction under a key of its own, written without waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from singerlake.clock import Clock, IdSource
from singerlake.errors import CorruptObjectError, SingerlakeError, StorageUnavailableError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, encode
from singerlake.format.merge.entry_key import LAST_TIME, NAME, EntryKey, EntryKeys, counts, entry_key, name_before
from singerlake.format.merge.patch import MergeEntry, to_transaction
from singerlake.format.state.transactions import Transaction
from singerlake.interpreter.threads import side_by_side
from singerlake.storage import port
from singerlake.storage.port import Storage
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.storage_time import StorageTime
from singerlake.stores.place import StreamPlace

Result = TypeVar("Result")

_FEW = 8
"""Up to this many entries are read one after the other: threads would take longer."""

_TRIES = 5


class StoredEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an entry holds: its name below ``_log/``, a transaction, and the one it must come right after, if any."""

    key: str
    transaction: Transaction
    after: str | None = None


class Entries:
    """Those of one stream, by their names below ``_log/``."""

    def __init__(self, place: StreamPlace, settings: MergeSettings) -> None:
        self._storage = place.storage
        self._log = layout.log_prefix(place.tap, place.stream)
        self._settings = settings

    def key(self, name: str) -> str:
        return self._log + name

    def name(self, key: str) -> str:
        """The inverse of ``key``."""
        return key[len(self._log) :]

    def between(self, since: int, before: int) -> Iterator[tuple[EntryKey, port.Entry]]:
        """Entries named for times in [since, before), newest first, in as many pages as that takes and no more."""
        for entry in self._storage.list(self._log + NAME, start_after=self._log + name_before(before)):
            key = entry_key(self.name(entry.key))
            if key is None or key.time >= before:
                continue
            if key.time < since:
                return
            yield key, entry

    def all(self) -> Iterator[tuple[EntryKey, port.Entry]]:
        """All there are, newest first."""
        return self.between(0, LAST_TIME + 1)

    def head(self, name: str) -> port.Entry | None:
        """An entry's time and size, None where it is not there."""
        return self._storage.head(self.key(name))

    def count(self, key: EntryKey, entry: port.Entry) -> bool:
        """Whether an entry counts, or was written by a clock that was too wrong."""
        return counts(key.time, entry.last_modified, self._settings.stale_ms)

    def read(self, names: Iterable[str]) -> Mapping[str, StoredEntry]:
        """The entries that are still there. Raises ``CorruptObjectError`` for what is not an entry."""
        return {each.key: each for each in self._each(self._read, list(names)) if each is not None}

    def delete(self, names: Iterable[str]) -> None:
        """Remove entries, absent ones too."""
        self._each(self._storage.delete, [self.key(name) for name in names])

    def _each(self, work: Callable[[str], Result], names: Sequence[str]) -> list[Result]:
        return side_by_side(work, names, threads=self._settings.parallel, name="entries", few=_FEW)

    def _read(self, name: str) -> StoredEntry | None:
        stored = self._storage.get(self.key(name))
        if stored is None:
            return None
        try:
            entry = decode(stored.body, MergeEntry)
            return StoredEntry(key=name, transaction=to_transaction(entry), after=entry.after)
        except msgspec.DecodeError as error:
            raise CorruptObjectError(
                f"not an entry that this version knows: {error}",
                hint="upgrade singerlake, or restore it, or move it out of the lake; nothing was changed",
                key=self.key(name),
            ) from error


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


prepare_decoders(StoredEntry)
