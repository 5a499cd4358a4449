"""Faulty logs: the holes of published transaction logs (gchq/sleeper before 0.35.2, among others)."""

from __future__ import annotations

from singerlake.format.exact_json import decode
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Rebase
from singerlake.stores.log import ObjectLog
from singerlake.stores.numbered import NumberedStore, Record
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, Trimmed
from tests.simulation.stores.kinds import Kind, StoreOf, log_watches
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World


class NoFloor(ObjectLog):
    """Nobody looks at the floor after reading or appending: a number that was trimmed is taken for a free one."""

    def floor(self) -> int:
        return -1


class SkipsGaps(NumberedStore):
    """Replays what records there are, from the snapshot on, and asks nothing."""

    def _read(self, start: Manifest | None) -> Loaded | None:
        state = start if start is not None else self._base()
        first = state.transaction.number if state else -1
        for _, body in self._log.read(first, whole=True):
            record = decode(body, Record)
            if state is None:
                assert isinstance(record.transaction.change, Rebase)
                state = record.transaction.change.manifest
            else:
                after = apply(state, record.transaction)
                state = state if isinstance(after, Conflict) else after
        return Loaded(state, str(state.transaction.number)) if state else None


class RemovesFirst(NumberedStore):
    """Makes room first and writes down what it removed afterwards."""

    def trim(self, *, keep: int, dry_run: bool = True) -> Trimmed:
        loaded = self.load()
        if loaded is not None and not dry_run:
            self._log.remove(loaded.manifest.transaction.number - keep, dry_run=False)
        return super().trim(keep=keep, dry_run=dry_run)


class PublishesOther(NumberedStore):
    """Moves ``manifest.json`` to any other state than it holds, be it older."""

    def publish(self, state: Loaded, *, run_ended: bool = False) -> None:
        stored = self._storage.get(self._key)
        if stored is None:
            self._storage.put(self._key, to_json(state.manifest), if_absent=True)
        elif from_json(stored.body, key=self._key).transaction.number != state.manifest.transaction.number:
            self._storage.put(self._key, to_json(state.manifest), if_match=stored.etag)


def _log(store: type[NumberedStore], log: type[ObjectLog] = ObjectLog) -> StoreOf:
    def store_of(world: World, process: Process) -> NumberedStore:
        place = StreamPlace(world.storage, TAP, STREAM, process.clock, world.ids)
        return store("log", log(place), place)

    return store_of


LOGS = (
    Kind("no-floor", _log(NumberedStore, NoFloor), log_watches),
    Kind("skips-gaps", _log(SkipsGaps), log_watches),
    Kind("removes-first", _log(RemovesFirst), log_watches),
    Kind("publishes-other", _log(PublishesOther), log_watches),
)
