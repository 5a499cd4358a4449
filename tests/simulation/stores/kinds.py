"""The manifest stores that are simulated: what an actor gets of each, and which watches look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from unittest import mock

from singerlake.clock import IdSource
from singerlake.format import layout
from singerlake.format.merge.entry_key import EntryKeys
from singerlake.stores.dynamodb import log as dynamodb_log
from singerlake.stores.dynamodb.client import DynamoTable
from singerlake.stores.dynamodb.items import SegmentItems, SegmentsWithItems
from singerlake.stores.dynamodb.log import DynamoLog
from singerlake.stores.lockfile import LockfileStore
from singerlake.stores.log import ObjectLog
from singerlake.stores.merge import entries as merge_entries
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.store import MergeStore
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import ManifestStore
from singerlake.stores.segments.objects import SegmentObjects
from tests.simulation.jobs import Actor, WriterJob
from tests.simulation.stores.often import snapshot_settings
from tests.simulation.stores.serial import Database, SerialStore
from tests.simulation.watches.dynamodb import DynamoWatch
from tests.simulation.watches.merge import MergeWatch
from tests.simulation.watches.truth import Truth
from tests.simulation.watches.watch import LockWatch, LogWatch, ManifestWatch, Watches
from tests.simulation.watches.watched import WatchedStore
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import LOCK, World

StoreOf = Callable[[World, Process], ManifestStore]
"""One process's manifest store of the kind that is simulated."""


@dataclass(frozen=True)
class Kind:
    """One store under simulation. ``watches`` is made once a run, ``store_of`` for each process; ``conditions`` is
    False where storage is to ignore conditions. ``successor`` gives the store to which a closed stream moved,
    ``extras`` further actors; after an error in ``transient``, too, a process is started again. ``cast`` and
    ``auditor`` are of a simulation whose actors are others. The rest is for what is deliberately faulty."""

    name: str
    store_of: StoreOf
    watches: Callable[[World], Watches]
    conditions: bool = True
    successor: Callable[[World, Process, str], ManifestStore] | None = None
    extras: Callable[[World, Kind], Iterator[Actor]] = lambda world, kind: iter(())
    transient: tuple[type[Exception], ...] = ()
    writer_job: type[WriterJob] = WriterJob
    watched: type[WatchedStore] = WatchedStore
    truth: type[Truth] = Truth
    patched: Callable[[], AbstractContextManager[object]] = nullcontext
    cast: Callable[[World, Kind], Iterator[Actor]] | None = None
    auditor: Callable[[str, World, Kind], Actor] | None = None


def _lockfile(world: World, process: Process) -> LockfileStore:
    del process
    return LockfileStore(world.storage, TAP, STREAM)


def lockfile_watches(world: World) -> Watches:
    return Watches(
        world.truth,
        world.fail,
        world.prefix,
        locks=LockWatch(world.fail, stale_after=LOCK.stale_after, now=lambda: world.scheduler.now),
        manifest=ManifestWatch(world.truth, world.fail, commits=True),
        log=None,
    )


def _log(world: World, process: Process) -> NumberedStore:
    place = StreamPlace(world.storage, TAP, STREAM, process.clock, world.ids)
    return NumberedStore("log", ObjectLog(place), place, snapshots=snapshot_settings(world))


def log_watches(world: World) -> Watches:
    return Watches(
        world.truth,
        world.fail,
        world.prefix,
        locks=None,
        manifest=ManifestWatch(world.truth, world.fail, commits=False),
        log=LogWatch(world.truth, world.fail, world.storage.as_it_is, world.prefix),
    )


TABLE_ID = f"lake/{TAP}/{STREAM}"
SPILLS_ABOVE = 1000
"""Bytes of an item, so that some of the small transactions here become objects and others do not."""


def _dynamodb(world: World, process: Process) -> NumberedStore:
    return dynamo_store(world, process, DynamoLog)


def dynamo_store(
    world: World,
    process: Process,
    log: type[DynamoLog] = DynamoLog,
    store: type[NumberedStore] = NumberedStore,
    items: type[SegmentItems] | None = None,
) -> NumberedStore:
    """The product's store over a table in memory: a process has a client of its own, as it has a clock. ``items``: the
    entries of segments are in the table, too."""
    assert world.watches is not None
    watch = world.watches.log
    assert isinstance(watch, DynamoWatch)
    table = DynamoTable("singerlake", clock=process.clock)
    table._connected.append(watch.table)
    segments = SegmentObjects(world.storage, TAP, STREAM)
    if items is not None:
        segments = SegmentsWithItems(world.storage, TAP, STREAM, items(table, TABLE_ID, in_use=True))
    place = StreamPlace(world.storage, TAP, STREAM, process.clock, world.ids)
    records = log(place, table, table_id=TABLE_ID, segments=segments)
    return store("dynamodb", records, place, snapshots=snapshot_settings(world), segments=segments)


def dynamo_watches(world: World) -> Watches:
    return Watches(
        world.truth,
        world.fail,
        world.prefix,
        locks=None,
        manifest=ManifestWatch(world.truth, world.fail, commits=False),
        log=DynamoWatch(world, TABLE_ID),
    )


def spilling() -> AbstractContextManager[object]:
    """Large transactions are those above ``SPILLS_ABOVE``."""
    return mock.patch.object(dynamodb_log, "LARGEST_ITEM", SPILLS_ABOVE)


def _postgres(world: World, process: Process) -> SerialStore:
    key = layout.manifest_key(TAP, STREAM)
    return SerialStore(world, process, world.shared.setdefault("postgres", Database()), key)


def _postgres_watches(world: World) -> Watches:
    manifest = ManifestWatch(world.truth, world.fail, commits=False)
    return Watches(world.truth, world.fail, world.prefix, locks=None, manifest=manifest, log=None)


MERGE = MergeSettings(parallel=1)
_NEARLY_FULL = 1021


class NearlyFull(EntryKeys):
    """A session that has three more names to give, as if its writer had written a thousand entries before."""

    def __init__(self, ids: IdSource) -> None:
        super().__init__(ids)
        self._count = _NEARLY_FULL


def _merge(world: World, process: Process) -> MergeStore:
    place = StreamPlace(world.storage, TAP, STREAM, process.clock, world.ids)
    return MergeStore(place, settings=MERGE, snapshots=snapshot_settings(world))


def _rolling_soon() -> AbstractContextManager[object]:
    return mock.patch.object(merge_entries, "EntryKeys", NearlyFull)


def merge_watches(world: World) -> Watches:
    return Watches(
        world.truth,
        world.fail,
        world.prefix,
        locks=None,
        manifest=ManifestWatch(world.truth, world.fail, commits=False),
        log=MergeWatch(world, stale_ms=MERGE.stale_ms),
    )


KINDS = {
    kind.name: kind
    for kind in (
        Kind("lockfile", _lockfile, lockfile_watches),
        Kind("log", _log, log_watches),
        Kind("dynamodb", _dynamodb, dynamo_watches, patched=spilling),
        Kind("merge", _merge, merge_watches, patched=_rolling_soon),
        Kind("postgres", _postgres, _postgres_watches),
    )
}
