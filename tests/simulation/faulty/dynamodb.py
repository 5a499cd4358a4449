"""Faulty logs in a database that names objects in the lake: the holes that Sleeper's had."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from singerlake.format import layout
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest
from singerlake.stores.dynamodb.client import Condition, put
from singerlake.stores.dynamodb.log import DynamoLog
from tests.simulation.stores.kinds import KINDS, Kind, dynamo_store
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World

_SAME_FOR_ALL = "0" * 16


class BodyFirst(DynamoLog):
    """Deletes what an item names before the item: a crash in between leaves a name of nothing."""

    def remove(self, up_to: int, *, dry_run: bool) -> int:
        for entry in self._storage.list(self._folder):
            number, kind = layout.log_own_name_parts(entry.key[len(self._folder) :]) or (0, "")
            if kind == "body" and number <= up_to and not dry_run:
                self._storage.delete(entry.key)
        return super().remove(up_to, dry_run=dry_run)


class LoserDeletes(DynamoLog):
    """Names a snapshot after its number alone, and takes one's own away again where another was faster: it is the
    other's too."""

    def snapshot(self, manifest: Manifest, fresh: object = ()) -> None:
        del fresh
        number = manifest.transaction.number
        name = layout.log_own_name(number, _SAME_FOR_ALL, "snapshot")
        self._storage.put(self._folder + name, to_json(manifest))
        pointer = {**self._pointer_key, "snapshot": {"N": str(number)}, "object": {"S": name}}
        moved = Condition("attribute_not_exists(#it) OR #it < :it", "snapshot", number)
        if not self._table.write(put(pointer, moved), look=lambda: None):
            self._storage.delete(self._folder + name)


class PointsElsewhere(DynamoLog):
    """Moves the pointer to any other snapshot than it names, be it older."""

    def snapshot(self, manifest: Manifest, fresh: object = ()) -> None:
        del fresh
        number = manifest.transaction.number
        name = layout.log_own_name(number, self._ids(), "snapshot")
        self._storage.put(self._folder + name, to_json(manifest))
        pointer = {**self._pointer_key, "snapshot": {"N": str(number)}, "object": {"S": name}}
        other = Condition("attribute_not_exists(#it) OR #it <> :it", "snapshot", number)
        self._table.write(put(pointer, other), look=lambda: None)


def _kind(name: str, log: type[DynamoLog]) -> Kind:
    dynamodb = KINDS["dynamodb"]
    store_of: Callable[[World, Process], object] = partial(dynamo_store, log=log)
    return Kind(name, store_of, dynamodb.watches, patched=dynamodb.patched)  # type: ignore[arg-type]


DYNAMODBS = (
    _kind("body-first", BodyFirst),
    _kind("loser-deletes", LoserDeletes),
    _kind("points-elsewhere", PointsElsewhere),
)
