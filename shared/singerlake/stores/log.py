"""The transaction log as objects, ``_log/<20 digits>.json``, created once, and ``manifest.json`` as its snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from singerlake.errors import ConditionNotSupportedError, CorruptObjectError
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode_stored, encode
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.manifest import check_own
from singerlake.format.state.model import Manifest
from singerlake.interpreter.threads import threads_ahead
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Storage, Stored, Written
from singerlake.stores.numbered import TransactionLog
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Abilities
from singerlake.stores.publish import published
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import names_of, read_manifest, to_stored

_KINDS = ("log", "merge")
"""Stores that keep their records in the same folder, one after the other."""
_FEW = 32
_AT_ONCE = 16


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """``_log/floor.json`` of section 11.2 of ``shared/docs/format``; its ``nonce`` makes every ETag new."""

    floor: int
    snapshot: str
    nonce: str


class ObjectLog(TransactionLog):
    """A ``TransactionLog`` on the lake's own storage, which must honour create-if-absent."""

    abilities = Abilities(prepares=True)

    def __init__(self, place: StreamPlace, *, kind: str = "log") -> None:
        self._kind = kind
        self._storage = place.storage
        self._tap = place.tap
        self._stream = place.stream
        self._manifest_key = place.manifest_key
        self._prefix = place.prefix
        self._log = layout.log_prefix(place.tap, place.stream)
        self._ids = place.ids

    def append(self, number: int, body: bytes) -> bool:
        """Raises ``ConditionNotSupportedError`` where the storage ignores conditions."""
        self._require_conditions()
        return isinstance(self._storage.put(self._key(number), body, if_absent=True), Written)

    def read(self, after: int, *, whole: bool) -> Iterator[tuple[int, bytes]]:
        """``whole``: by one listing. Otherwise one GET a record until one is missing, which costs less for a few."""
        if not whole:
            following = after + 1
            while (stored := self._storage.get(self._key(following))) is not None:
                yield following, stored.body
                following += 1
            return
        # Twenty digits begin with a zero for any number that will ever be reached; nothing else below the log does.
        entries = self._storage.list(self._log + "0", start_after=self._key(after) if after >= 0 else "")
        numbers = [
            number for entry in entries if (number := layout.log_number(entry.key[len(self._log) :])) is not None
        ]
        if len(numbers) < _FEW:
            bodies: Iterator[Stored | None] = (self._storage.get(self._key(number)) for number in numbers)
            yield from _present(numbers, bodies)
            return
        with threads_ahead(_AT_ONCE, "log") as executor:
            yield from _present(numbers, executor.map(lambda number: self._storage.get(self._key(number)), numbers))

    def base(self) -> Manifest | None:
        """``manifest.json``; where it is gone, older or of a store closed in favour of this one, the snapshot that the
        floor names. A state that was closed is this store's last one: the floor may be its successor's by now."""
        manifest = self._read(self._manifest_key)
        if manifest is not None and manifest.closed == self._kind:
            manifest = None
        if manifest is not None and manifest.closed is not None:
            return manifest
        before: Floor | None = None
        while (current := self._floor()) is not None:
            floor = current[0]
            if manifest is not None and manifest.transaction.number >= floor.floor:
                break
            key = self._prefix + floor.snapshot
            snapshot = self._read(key)
            if snapshot is not None:
                return check_own(snapshot, tap=self._tap, stream=self._stream, store=None, key=key)
            if floor == before:
                raise CorruptObjectError(
                    "the snapshot named by the log's floor is gone",
                    hint="restore it, or run 'singerlake rebuild'",
                    key=key,
                )
            # A trim may have raised the floor meanwhile, and removed this snapshot for a newer one.
            before = floor
        if manifest is not None and manifest.store != self._kind and manifest.store in _KINDS:
            # It is older than the move of the stream in this folder, and the floor, which tells of that, is lost.
            return None
        return manifest

    def snapshot(self, manifest: Manifest, fresh: Iterable[Segment] = ()) -> tuple[Segment, ...]:
        key = self._log + layout.log_snapshot_name(manifest.transaction.number)
        usable = names_of(self._storage, self._manifest_key)
        kept, body = to_stored(SegmentObjects(self._storage, self._tap, self._stream), manifest, (*usable, *fresh))
        fresh = tuple(segment for segment in kept.files.segments if segment not in usable)
        put_on_condition(self._storage, key, body, etag=None)
        there = self._read(key)
        if there is None and self._superseded(manifest.transaction.number):
            return fresh
        if there is None or there.transaction != manifest.transaction:
            raise CorruptObjectError("a snapshot does not read back as written", hint="nothing was removed", key=key)
        return fresh

    def floor(self) -> int:
        floor = self._floor()
        return floor[0].floor if floor else -1

    def raise_floor(self, number: int) -> None:
        while True:
            current = self._floor()
            if current is not None and current[0].floor >= number + self._is_anothers(current[0]):
                return
            snapshot = self._newest_snapshot(number)
            if current is not None and (current[0].floor, current[0].snapshot) == (number, snapshot):
                return
            body = encode(Floor(floor=number, snapshot=snapshot, nonce=self._ids()))
            key = self._log + layout.LOG_FLOOR
            put_on_condition(self._storage, key, body, etag=current[1].etag if current else None)

    def remove(self, up_to: int, *, dry_run: bool) -> int:
        """Records that the floor covers, snapshots but the one that it names, and the new states of such records."""
        floor = self._floor()
        kept = floor[0].snapshot if floor else ""
        keys = []
        for entry in self._storage.list(self._log):
            name = entry.key[len(self._log) :]
            number = layout.log_number(name)
            snapshot = layout.log_snapshot_number(name)
            new_state = layout.log_own_name_parts(name)
            if new_state is not None:
                number = new_state[0]
            if (number is not None and number <= up_to) or (
                snapshot is not None and snapshot < up_to and self._prefix + kept != entry.key
            ):
                keys.append(entry.key)
        if not dry_run:
            for key in keys:
                self._storage.delete(key)
        return len(keys)

    def _is_anothers(self, floor: Floor) -> bool:
        """Whether a floor names the snapshot of another store, which was trimmed up to its last transaction."""
        there = published(self._storage, self._prefix + floor.snapshot)
        return there is not None and there.store != self._kind

    def _superseded(self, number: int) -> bool:
        """Whether the floor names a newer snapshot, so that another trim may have removed this one."""
        floor = self._floor()
        named = layout.log_snapshot_number(floor[0].snapshot.rpartition("/")[2]) if floor else None
        return named is not None and named > number

    def _newest_snapshot(self, at_least: int) -> str:
        names = [entry.key for entry in self._storage.list(self._log)]
        numbered = [(layout.log_snapshot_number(key[len(self._log) :]), key) for key in names]
        fit = [(number, key) for number, key in numbered if number is not None and number >= at_least]
        if not fit:
            raise CorruptObjectError("no snapshot covers the new floor", hint="nothing was removed", key=self._log)
        return max(fit)[1][len(self._prefix) :]

    def _floor(self) -> tuple[Floor, Stored] | None:
        key = self._log + layout.LOG_FLOOR
        stored = self._storage.get(key)
        if stored is None:
            return None
        hint = "restore it; nothing was changed"
        return decode_stored(stored.body, Floor, "not a log's floor", hint=hint, key=key), stored

    def _read(self, key: str) -> Manifest | None:
        stored = self._storage.get(key)
        return read_manifest(stored.body, key=key, storage=self._storage) if stored else None

    def _key(self, number: int) -> str:
        return self._log + layout.log_name(number)

    def _require_conditions(self) -> None:
        if not self._storage.capabilities().conditional_put:
            raise ConditionNotSupportedError(
                "this storage ignores conditional writes, without which a log cannot be kept",
                hint="use manifest_store lockfile (best effort, one writer) or postgres",
                lake_root=self._storage.url,
            )


def is_newest(storage: Storage, manifest: Manifest) -> bool:
    """Whether no transaction of the log came after ``manifest``, a ``manifest.json`` read before: one listing instead
    of a load. False where only a load can tell.

    Where transactions above it were trimmed, the floor names a snapshot above it, which is there before any is removed.
    Storage must list keys in their order, as S3 does: a transaction that is gone has its snapshot behind its place.
    """
    log = layout.log_prefix(manifest.tap, manifest.stream)
    number = manifest.transaction.number
    # Twenty digits begin with a zero for any number that will ever be reached; nothing else below the log does.
    after = storage.list(log + "0", start_after=log + layout.log_name(number))
    return all(entry.key == log + layout.log_snapshot_name(number) for entry in after)


def _present(numbers: Iterable[int], bodies: Iterable[Stored | None]) -> Iterator[tuple[int, bytes]]:
    """Records that are still there; one that was trimmed since the listing is missing, and shows as a gap."""
    for number, stored in zip(numbers, bodies, strict=True):
        if stored is not None:
            yield number, stored.body


prepare_decoders(Floor)
