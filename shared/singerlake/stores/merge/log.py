"""Where the settle records of the ``merge`` store are kept: beside the entries, numbered, each created once."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode
from singerlake.format.merge.entry_key import milliseconds
from singerlake.storage.port import Stored
from singerlake.stores.log import ObjectLog
from singerlake.stores.merge.entries import Entries, StoredEntry
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.storage_time import StorageTime
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Abilities

logger = logging.getLogger(__name__)

KIND = "merge"


class SettleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Entries in their final order: a settle record of section 11.5 of ``shared/docs/format``."""

    number: int
    after: str
    id: str
    at: str
    since: int
    until: int
    entries: tuple[StoredEntry, ...]


class _Key(msgspec.Struct):
    key: str


class _UnguardedMark(msgspec.Struct):
    """Whether a record, or a birth, was written without conditions to guard its number."""

    unguarded: bool = False


class _Link(msgspec.Struct):
    """Of a record, what comes before it and the names in it; of a birth nothing."""

    id: str | None = None
    after: str | None = None
    entries: tuple[_Key, ...] = ()


class SettleLog:
    """A ``TransactionLog`` that also does without create-if-absent, as well as time can (Fischer's exclusion): who
    finds a number free writes at once or not at all, and nobody believes a record before every such writer has. It
    bears a mark, so that readers, who may not write, need not find out what the storage honours."""

    abilities = Abilities(settles=True)

    def __init__(self, place: StreamPlace, entries: Entries, settings: MergeSettings, time: StorageTime) -> None:
        self._storage = place.storage
        self._entries = entries
        self._log = layout.log_prefix(place.tap, place.stream)
        self._objects = ObjectLog(place, kind=KIND)
        self._settings = settings
        self._time = time
        self._clock = place.clock
        self.floor = self._objects.floor
        self.raise_floor = self._objects.raise_floor
        self.base = self._objects.base
        self.snapshot = self._objects.snapshot
        self.other_lakes = self._objects.other_lakes

    def append(self, number: int, body: bytes) -> bool:
        """For a birth: without conditions this waits until it is certain which one stays."""
        if self._conditional:
            return self._objects.append(number, body)
        self.offer(number, body)
        while (stored := self.get(number)) is not None and not self._certain(stored):
            self._clock.sleep(self._settings.longest)
        return stored is not None and stored.body == _marked(body)

    def offer(self, number: int, body: bytes) -> bool:
        """The same without waiting: False where the number is taken."""
        if self._conditional:
            return self._objects.append(number, body)
        body = _marked(body)
        looked = self._clock.monotonic()
        if self.get(number) is not None or self._clock.monotonic() - looked > self._settings.longest:
            return False
        sent = self._clock.monotonic()
        self._storage.put(self._key(number), body, if_absent=self._storage.capabilities().takes_conditions)
        if self._clock.monotonic() - looked > self._settings.longest:
            logger.warning(
                "%s took so long to write that it may have replaced a record that others have read already; run "
                "'singerlake verify' on this stream, and use a storage with conditional writes",
                self._key(number),
            )
        stored = self.get(number)
        if stored is not None and stored.body == body:
            self._time.observe(stored.last_modified, sent=sent, received=self._clock.monotonic())
        return True

    def read(self, after: int, *, whole: bool) -> Iterator[tuple[int, bytes]]:
        for number, body in self._objects.read(after, whole=whole):
            if _is_marked(body):
                stored = self.get(number)
                if stored is None or stored.body != body or not self._certain(stored):
                    return
            yield number, body

    def remove(self, up_to: int, *, dry_run: bool) -> int:
        """The entries that the records hold go first: what is in no record must never look as if it waited for one."""
        held = self._held(up_to)
        if held is None:
            return 0
        present = [key.name for key, _ in self._entries.all() if key.name in held] if held else []
        if not dry_run:
            self._entries.delete(present)
        return len(present) + self._objects.remove(up_to, dry_run=dry_run)

    def taken(self, number: int) -> bool:
        """Whether there is a record under a number that no reader believes yet."""
        return not self._conditional and self.get(number) is not None

    def get(self, number: int) -> Stored | None:
        """One record as it is stored."""
        return self._storage.get(self._key(number))

    def _held(self, up_to: int) -> set[str] | None:
        """Names in the records that led to the one after ``up_to``; None where that is not there to tell. A record
        that was put under a number when that was trimmed led to none, and what it holds may still wait."""
        names = set[str]()
        above = self.get(up_to + 1)
        if above is None:
            return None
        bodies = {number: body for number, body in self._objects.read(-1, whole=True) if number <= up_to}
        expected = decode(above.body, _Link).after
        number = up_to
        while expected is not None and number in bodies:
            link = decode(bodies[number], _Link)
            if link.id != expected:
                break
            names.update(each.key for each in link.entries)
            number, expected = number - 1, link.after
        return names

    def _certain(self, stored: Stored) -> bool:
        return self._time.now() - milliseconds(stored.last_modified) >= self._settings.lag_ms

    def _key(self, number: int) -> str:
        return self._log + layout.log_name(number)

    @property
    def _conditional(self) -> bool:
        return self._storage.capabilities().conditional_put


def _marked(body: bytes) -> bytes:
    """A record, or a birth, with the mark of one that no condition guards."""
    return b'{"unguarded":true,' + body.removeprefix(b"{")


def _is_marked(body: bytes) -> bool:
    if b'"unguarded"' not in body:
        return False
    try:
        return decode(body, _UnguardedMark).unguarded
    except msgspec.DecodeError:
        return False


prepare_decoders(SettleRecord, _Key, _Link, _UnguardedMark)
