"""A stand-in for the store ``postgres``: a serializable database in one object, seen through the port.

It shares no line with the product's SQL, which only a real server can judge. What it is for is the product's code
around a store in a database: birth, commit loop, writer and publication, when others commit in between, replies are
lost, and ``manifest.json`` is all that readers have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from singerlake.errors import StorageUnavailableError, UnknownOutcomeError
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import (
    AddFiles,
    AddTogether,
    CollectFiles,
    ExpireFiles,
    RecordRun,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)
from singerlake.manifests.commit import is_done
from singerlake.manifests.port import Abilities, Loaded, Outdated, Pending, Trimmed
from singerlake.manifests.publish import publish_manifest, refuse_foreign
from singerlake.manifests.snapshots import Snapshots
from tests.simulation.stores.often import snapshot_settings
from tests.simulation.world.faults import Fate
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World
from tests.storage.memory import Step

Answer = TypeVar("Answer")

_FITS_ANY_STATE = (AddFiles, AddTogether, ReplaceFiles, ExpireFiles, RetireFiles, CollectFiles, RecordRun)


@dataclass
class Database:
    """One stream's rows, shared by every process of a run."""

    state: Manifest | None = None
    floor: int = -1


class SerialStore:
    """A manifest store over a ``Database``. A writer that is behind is brought up within its own commit."""

    kind = "postgres"
    abilities = Abilities(followable=False)
    exclusive = False

    def __init__(self, world: World, process: Process, database: Database, key: str) -> None:
        self._world = world
        self._database = database
        self._key = key
        self._snapshots = Snapshots(world.storage, key, process.clock, snapshot_settings(world), eager=True)

    def load(self) -> Loaded | None:
        return self._transacted("read", lambda: _loaded(self._database.state))

    def catch_up(self, base: Loaded) -> Loaded | None:
        del base
        return self.load()

    def create(self, manifest: Manifest) -> Loaded:
        refuse_foreign(self._world.storage, self._key, manifest)

        def effect() -> None:
            if self._database.state is None:
                self._became(manifest)

        self._transacted("write", effect)
        loaded = self.load()
        assert loaded is not None
        publish_manifest(self._world.storage, self._key, loaded.manifest)
        return loaded

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict:
        def effect() -> Loaded | Outdated | Conflict:
            state = self._database.state
            assert state is not None
            if state.transaction != base.manifest.transaction:
                behind = base.manifest.transaction.number < self._database.floor
                if behind or not isinstance(transaction.change, _FITS_ANY_STATE):
                    return Outdated()
                if is_done(state, transaction.change):
                    return Loaded(state, str(state.transaction.number))
            after = apply(state, transaction)
            if isinstance(after, Conflict):
                return after
            self._became(after)
            return Loaded(after, str(after.transaction.number))

        outcome = self._transacted("write", effect)
        if isinstance(outcome, Loaded):
            self._snapshots.after_commit(outcome.manifest, own=outcome.manifest.transaction.number)
        return outcome

    def settle(self, base: Loaded, pending: Pending) -> Loaded | Conflict | None:
        raise TypeError("gives no receipts")

    def publish(self, state: Loaded, *, run_ended: bool = False) -> None:
        self._snapshots.where_due(state.manifest, run_ended=run_ended)

    def other_lakes(self) -> tuple[str, ...]:
        return ()

    def trim(self, *, keep: int, dry_run: bool = True) -> Trimmed:
        loaded = self.load()
        if loaded is None:
            return Trimmed(floor=-1, transactions=0, keys=0)
        floor = max(loaded.manifest.transaction.number - keep, self._database.floor)
        if not dry_run:
            publish_manifest(self._world.storage, self._key, loaded.manifest)

            def effect() -> None:
                self._database.floor = max(floor, self._database.floor)

            self._transacted("write", effect)
        return Trimmed(floor=floor, transactions=0, keys=0)

    def _became(self, state: Manifest) -> None:
        self._database.state = state
        self._world.truth.became(state)

    def _transacted(self, operation: str, effect: Callable[[], Answer]) -> Answer:
        """One transaction, in one moment. A COMMIT on its way keeps the row locked, so that it cannot land late."""
        fate = self._world.fate(operation, "database")
        self._world.step(Step(operation, "database", False))
        if fate is Fate.UNAVAILABLE:
            raise StorageUnavailableError("the database could not answer")
        if fate is Fate.NEVER:
            raise UnknownOutcomeError("no answer came")
        answer = effect()
        self._world.note(f"{operation} database: {type(answer).__name__}")
        self._world.step(Step(operation, "database", True))
        if fate in (Fate.REPLY_LOST, Fate.LATE):
            raise UnknownOutcomeError("the reply was lost")
        return answer


def _loaded(state: Manifest | None) -> Loaded | None:
    return None if state is None else Loaded(state, str(state.transaction.number))
