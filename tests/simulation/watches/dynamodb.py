"""The invariants of the store ``dynamodb``: items of its table, and the objects in the lake that they name."""

from __future__ import annotations

import hashlib

from singerlake.format.exact_json import decode
from singerlake.storage.port import Stored
from singerlake.stores.numbered import Record
from tests.simulation.stores.dynamodb import Item, Place, SimulatedDynamo
from tests.simulation.watches.watch import following
from tests.simulation.world.world import World


class DynamoWatch:
    """Records are made once, in order, and removed only below the floor; the pointer and the floor only rise; no item
    names an object that is not there; entries of segments never change."""

    def __init__(self, world: World, table_id: str) -> None:
        self._world = world
        self._truth = world.truth
        self._fail = world.fail
        self._folder = f"{world.prefix}_log/"
        self._records, self._floors, self._pointers = table_id, f"{table_id}#floor", f"{table_id}#snapshot"
        self._floor = -1
        self._pointer = -1
        self._known: dict[int, Item] = {}
        self.table = SimulatedDynamo(world, self.item_changed)

    def item_changed(self, place: Place, before: Item | None, after: Item | None) -> None:
        """An effect on the table."""
        of, number = place
        if of == self._records:
            self._recorded(number, before, after)
        elif of == self._floors and after is not None:
            self._floored(int(after["floor"]["N"]))
        elif of == self._pointers and after is not None:
            self._pointed(int(after["snapshot"]["N"]), after["object"]["S"])
        elif of == f"{self._records}#files":
            return
        elif of.startswith(f"{self._records}#files@"):
            if None not in (before, after) and before != after:
                self._fail(f"the item {place} of a segment was changed")
        else:
            self._fail(f"the item {place} was deleted, or nobody knows what it is")

    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None:
        """An effect on an object below ``_log/``."""
        del before, by
        if after is not None:
            return
        for place, item in self.table.items():
            if item.get("object", {}).get("S") == key.removeprefix(self._folder):
                self._fail(f"{key} was removed, and the item {place} names it")

    def sends(self, client: str, transaction: str) -> None:
        """Nothing: who commits when is in the order of the records."""

    def seen(self, client: str, number: int) -> None:
        """Nothing: that the state is the right one is looked at elsewhere."""

    def _recorded(self, number: int, before: Item | None, after: Item | None) -> None:
        if number <= self._floor:
            if after is not None:
                self._fail(f"record {number} was written, the floor is {self._floor}")
            return
        if after is None:
            self._fail(f"record {number} was removed, the floor is {self._floor}")
        elif before is not None or number in self._known:
            self._fail(f"record {number} was written twice")
        else:
            self._known[number] = after
            self._truth.became(following(decode(self._body(number, after), Record), self._truth, self._fail))

    def _body(self, number: int, item: Item) -> bytes:
        if "body" in item:
            return item["body"]["S"].encode()
        stored = self._world.storage.as_it_is(self._folder + item["object"]["S"])
        if stored is None or hashlib.sha256(stored.body).hexdigest() != item["sha256"]["S"]:
            self._fail(f"the body of record {number} is not there")
            raise AssertionError
        return stored.body

    def _floored(self, floor: int) -> None:
        if floor <= self._floor:
            self._fail(f"the floor went from {self._floor} to {floor}")
        if floor > self._pointer:
            self._fail(f"the floor is {floor}, the newest snapshot {self._pointer}")
        self._floor = floor

    def _pointed(self, number: int, name: str) -> None:
        if number <= self._pointer:
            self._fail(f"the newest snapshot went from {self._pointer} to {number}")
        self._pointer = number
        stored = self._world.storage.as_it_is(self._folder + name)
        if stored is None:
            self._fail(f"the pointer names {name}, which is not there")
            return
        self._truth.saw(self._truth.stored(stored.body, name), told=False)
