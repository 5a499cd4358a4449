"""The transaction log as items of a DynamoDB table: section 11.3 of ``shared/docs/format``.

Objects are removed only once no item can name them: a body after its item, a snapshot after the pointer moved on (in
Sleeper, a crash or the loser of a race could leave a pointer to nothing). One region's table only: replicas of a global
table answer conditions each for itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from singerlake.errors import CorruptObjectError, SingerlakeError
from singerlake.format import layout
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.model import Manifest
from singerlake.stores.dynamodb.client import (
    FREE,
    HASH,
    RANGE,
    Action,
    DynamoTable,
    Item,
    below,
    check,
    foreign,
    key_of,
    put,
    reached,
)
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Abilities
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import names_of, read_manifest, to_stored

LARGEST_ITEM = 200 << 10
"""Bytes of an item, names and keys among them, above which a transaction's body becomes an object. DynamoDB takes 400
KB, but a partition only 1,000 write units a second, and a transaction uses two a KB."""
MOST_STREAMS = 49
"""Streams in one transaction of DynamoDB, which holds 100 items: two for each stream, and one of the decision."""
LARGEST_TOGETHER = 1 << 20
"""Bytes of all records in such a transaction; DynamoDB takes 4 MB, but a new table only 4,000 write units a second."""
_LONGEST_NUMBER = 21
_BODY, _SNAPSHOT, _FLOOR = "body", "snapshot", "floor"


@dataclass(frozen=True, slots=True)
class _Spilled:
    """The object that holds a large record's body; ``stored`` once that is certain."""

    number: int
    sha256: str
    name: str
    stored: bool


@dataclass(frozen=True, slots=True)
class _Pointer:
    number: int
    name: str


class DynamoLog:
    """A ``TransactionLog`` in a table that many streams may share. ``table_id`` is unique among them, and holds no
    ``#``. ``segments`` are as of ``NumberedStore``. Raises what ``DynamoTable`` and storage raise."""

    abilities = Abilities(followable=False)

    def __init__(
        self,
        place: StreamPlace,
        table: DynamoTable,
        *,
        table_id: str,
        segments: SegmentObjects | None = None,
    ) -> None:
        self._storage = place.storage
        self._segments = segments or SegmentObjects(place.storage, place.tap, place.stream)
        self._table = table
        self._table_id = table_id
        self._folder = layout.log_prefix(place.tap, place.stream)
        self._manifest_key = place.manifest_key
        self._ids = place.ids
        self._floor_key = key_of(f"{table_id}#{_FLOOR}", 0)
        self._pointer_key = key_of(f"{table_id}#{_SNAPSHOT}", 0)
        self._spilled: _Spilled | None = None

    def append(self, number: int, body: bytes) -> bool:
        """One transaction of DynamoDB: the number is free, and above the floor."""
        item = self._item(number, body, LARGEST_ITEM)
        if item is None:
            return False
        return self._table.write(*self._actions(number, item), look=lambda: self._holds(number, item))

    def read(self, after: int, *, whole: bool) -> Iterator[tuple[int, bytes]]:
        """A record that is trimmed while it is read ends this; the floor is then above ``after``."""
        del whole  # a query goes on beyond a gap in any case
        for item in self._table.query(self._table_id, ">", after):
            number = int(item["number"]["N"])
            body = self._body(number, item)
            if body is None:
                return
            yield number, body

    def base(self) -> Manifest | None:
        """The snapshot that the pointer names; it may be removed only because the pointer moved on."""
        before: _Pointer | None = None
        while (pointer := self._pointer()) is not None:
            key = self._folder + pointer.name
            stored = self._storage.get(key)
            if stored is not None:
                manifest = read_manifest(stored.body, key=key, storage=self._storage)
                if manifest.transaction.number != pointer.number:
                    raise CorruptObjectError("a snapshot of another transaction", hint="restore it", key=key)
                return manifest
            if pointer == before:
                raise self._gone("the newest snapshot", key)
            before = pointer
        return None

    def snapshot(self, manifest: Manifest, fresh: Iterable[Segment] = ()) -> tuple[Segment, ...]:
        number = manifest.transaction.number
        if self._reaches(number):
            return ()
        name = layout.log_own_name(number, self._ids(), _SNAPSHOT)
        key = self._folder + name
        usable = names_of(self._storage, self._manifest_key)
        kept, body = to_stored(self._segments, manifest, (*usable, *fresh))
        fresh = tuple(segment for segment in kept.files.segments if segment not in usable)
        written = hashlib.sha256(body).digest()
        self._storage.put(key, body)
        # Of a million files a body takes room, and what is read back is another.
        del body
        stored = self._storage.get(key)
        if stored is None or hashlib.sha256(stored.body).digest() != written:
            if self._reaches(number):  # and so the mover of the pointer may have removed it
                return fresh
            raise CorruptObjectError("a snapshot does not read back as written", hint="nothing was removed", key=key)
        pointer = {**self._pointer_key, _SNAPSHOT: {"N": str(number)}, "object": {"S": name}}
        self._table.write(put(pointer, below(_SNAPSHOT, number)), look=lambda: self._reaches(number) or None)
        return fresh

    def floor(self) -> int:
        item = self._table.get(self._floor_key)
        return -1 if item is None else self._number(item, _FLOOR)

    def raise_floor(self, number: int) -> None:
        """One transaction of DynamoDB: the floor is lower, and the snapshot at least as new."""
        item = {**self._floor_key, _FLOOR: {"N": str(number)}}
        raised = self._table.write(
            put(item, below(_FLOOR, number)),
            check(self._pointer_key, reached(_SNAPSHOT, number)),
            look=lambda: self.floor() >= number or None,
        )
        if not raised and self.floor() < number:
            raise CorruptObjectError(
                "no snapshot covers the new floor", hint="nothing was removed", table_id=self._table_id, floor=number
            )

    def other_lakes(self) -> tuple[str, ...]:
        """From the beginning of the table alone, and where the credentials may look there."""
        own, _, stream = self._table_id.partition("/")
        try:
            table_ids = [item["table_id"]["S"].partition("#")[0] for item in self._table.scan(f"/{stream}")]
        except SingerlakeError:
            return ()
        lakes = {table_id.removesuffix(f"/{stream}") for table_id in table_ids if table_id.endswith(f"/{stream}")}
        return tuple(sorted(lakes - {own}))

    def remove(self, up_to: int, *, dry_run: bool) -> int:
        """Items, then the bodies and snapshots that no item names, also those of a crash or a lost race."""
        floor = self.floor()
        covered = up_to if dry_run else min(up_to, floor)
        keys = list(self._table.query(self._table_id, "<=", covered, only_keys=True))
        if not dry_run:
            self._table.delete(keys)
        pointer = self._pointer()
        # A trim that raises the floor writes a snapshot first, which replaces the one there now.
        kept = pointer.name if pointer and covered <= floor else None
        objects = []
        for entry in self._storage.list(self._folder):
            number, kind = layout.log_own_name_parts(entry.key[len(self._folder) :]) or (0, None)
            old = kind == _SNAPSHOT and pointer is not None and number <= pointer.number
            if (kind == _BODY and number <= covered) or (old and entry.key != f"{self._folder}{kept}"):
                objects.append(entry.key)
        if not dry_run:
            for key in objects:
                self._storage.delete(key)
        return len(keys) + len(objects)

    def _item(self, number: int, body: bytes, largest: int) -> Item | None:
        """A record's item, its body an object above ``largest`` bytes; None where the number was seen to be taken."""
        # As DynamoDB counts: of UTF-8, names with values.
        size = len("table_id" + self._table_id + "number" + "body") + _LONGEST_NUMBER + len(body)
        if size > largest:
            return self._spill(number, body)
        return {**key_of(self._table_id, number), "body": {"S": body.decode("utf-8")}}

    def _actions(self, number: int, item: Item) -> tuple[Action, Action]:
        return put(item, FREE), check(self._floor_key, below(_FLOOR, number))

    def _holds(self, number: int, item: Item) -> bool | None:
        """Whether the log has an item; None where it may still come."""
        stored = self._table.get(key_of(self._table_id, number))
        if stored is not None:
            return stored == item
        return False if self.floor() >= number else None

    def _spill(self, number: int, body: bytes) -> Item | None:
        """The item of a record whose body is an object, stored once; None where the number is taken."""
        key, sha256 = key_of(self._table_id, number), hashlib.sha256(body).hexdigest()
        spilled = self._spilled
        if spilled is None or (spilled.number, spilled.sha256) != (number, sha256):
            if self._table.get(key) is not None:
                return None
            spilled = _Spilled(number, sha256, layout.log_own_name(number, self._ids(), _BODY), stored=False)
            self._spilled = spilled
        if not spilled.stored:
            self._storage.put(self._folder + spilled.name, body)
            self._spilled = _Spilled(number, sha256, spilled.name, stored=True)
        return {**key, "object": {"S": spilled.name}, "sha256": {"S": sha256}}

    def _body(self, number: int, item: Item) -> bytes | None:
        """A record's body; None where it was removed since the item was read."""
        inline = item.get("body", {}).get("S")
        if inline is not None:
            return inline.encode("utf-8")
        name, sha256 = self._name(item, _BODY), item.get("sha256", {}).get("S")
        key = self._folder + name
        stored = self._storage.get(key)
        if stored is None:
            if self.floor() >= number:
                return None
            raise self._gone(f"the body of transaction {number}", key)
        if hashlib.sha256(stored.body).hexdigest() != sha256:
            raise CorruptObjectError(f"not the body that transaction {number} had", hint="restore it", key=key)
        return stored.body

    def _pointer(self) -> _Pointer | None:
        item = self._table.get(self._pointer_key)
        return None if item is None else _Pointer(self._number(item, _SNAPSHOT), self._name(item, _SNAPSHOT))

    def _reaches(self, number: int) -> bool:
        pointer = self._pointer()
        return pointer is not None and pointer.number >= number

    def _number(self, item: Item, attribute: str) -> int:
        text = item.get(attribute, {}).get("N", "")
        if not text.lstrip("-").isdecimal():
            raise foreign(self._table, item, number=item["number"]["N"])
        return int(text)

    def _name(self, item: Item, kind: str) -> str:
        """The object that an item names, if it is one of this log's of that kind."""
        name = item.get("object", {}).get("S", "")
        parts = layout.log_own_name_parts(name)
        if parts is None or parts[1] != kind:
            raise foreign(self._table, item, number=item["number"]["N"])
        return name

    def _gone(self, what: str, key: str) -> CorruptObjectError:
        return CorruptObjectError(
            f"{what} is gone", hint="restore it, or run 'singerlake rebuild'", key=key, table_id=self._table_id
        )


@dataclass(frozen=True, slots=True)
class NextRecord:
    """What one log is to get in a transaction over several."""

    log: DynamoLog
    number: int
    body: bytes


def append_together(records: Sequence[NextRecord], kept: Item) -> bool:
    """Append to several logs, and keep the item ``kept``, or do nothing: False. Raises as ``DynamoLog.append``."""
    table, largest = records[0].log._table, min(LARGEST_ITEM, LARGEST_TOGETHER // len(records))
    items: list[tuple[NextRecord, Item]] = []
    for record in records:
        item = record.log._item(record.number, record.body, largest)
        if item is None:
            return False
        items.append((record, item))
    actions = [action for record, item in items for action in record.log._actions(record.number, item)]
    key = {HASH: kept[HASH], RANGE: kept[RANGE]}

    def look() -> bool | None:
        # First the logs: where one has another record by now, what is kept a moment later is all that ever will be.
        taken = any(record.log._holds(record.number, item) is False for record, item in items)
        stored = table.get(key)
        if stored is not None:
            return stored == kept
        return False if taken else None

    return table.write(put(kept, FREE), *actions, look=look)
