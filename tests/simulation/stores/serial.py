"""A stand-in for the store ``postgres``: a serializable database in one object, seen through the port.

It shares no line with the product's SQL, which only a real server can judge. What it is for is the product's code
around a store in a database: birth, commit loop, writer and publication, when others commit in between, replies are
lost, and ``manifest.json`` is all that readers have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from singerlake.errors import StorageUnavailableError, UnknownOutcomeError
from singerlake.format.state.additions import Conflict
from singerlake.format.state.files.cut import is_whole
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest, Position
from singerlake.format.state.transactions import (
    AddFiles,
    AddTogether,
    CollectFiles,
    ExpireFiles,
    Rebase,
    RecordRun,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)
from singerlake.stores.commit import is_done
from singerlake.stores.port import Abilities, Loaded, Outdated, Trimmed
from singerlake.stores.publish import Snapshots, publish_manifest, refuse_foreign
from singerlake.stores.segments import stored
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import read_manifest
from tests.simulation.stores.often import snapshot_settings
from tests.simulation.world.faults import Fate
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World
from tests.storage.memory import Step

Answer = TypeVar("Answer")

_FITS_ANY_STATE = (AddFiles, AddTogether, ReplaceFiles, ExpireFiles, RetireFiles, CollectFiles, RecordRun)


@dataclass(frozen=True)
class Logged:
    """A transaction and the position of the state that it made; None: a state that was put in place as a whole."""

    position: Position
    transaction: Transaction | None


@dataclass
class Database:
    """One stream's rows, shared by every process of a run."""

    state: Manifest | None = None
    floor: int = -1
    log: list[Logged] = field(default_factory=list)

    def since(self, state: Manifest) -> Manifest | None:
        """``state`` with the transactions after it; None where the database does not have them, or never had it."""
        number, known = state.transaction.number, [each.position for each in self.log]
        if number < self.floor or state.transaction not in known:
            return None
        for each in self.log[known.index(state.transaction) + 1 :]:
            if each.transaction is None:
                return None
            after = apply(state, each.transaction)
            assert isinstance(after, Manifest), after
            state = after
        return state


class SerialStore:
    """A manifest store over a ``Database``. A writer that is behind is brought up within its own commit."""

    kind = "postgres"
    abilities = Abilities(followable=False)
    exclusive = False

    def __init__(self, world: World, process: Process, database: Database, key: str) -> None:
        self._world = world
        self._database = database
        self._key = key
        self.segments = SegmentObjects(world.storage, TAP, STREAM)
        self._snapshots = Snapshots(self.segments, process.clock, snapshot_settings(world), eager=True)

    def load(self) -> Loaded | None:
        newest = self._transacted("read", lambda: self._database.state)
        if newest is None or is_whole(newest.files, stored.SIZES):
            return _loaded(newest)
        body = self._world.storage.get(self._key)
        shown = read_manifest(body.body, key=self._key, storage=self._world.storage) if body else None
        if shown is not None and shown.store != self.kind:
            shown = None
        return self._transacted(
            "read", lambda: _loaded((shown and self._database.since(shown)) or self._database.state)
        )

    def catch_up(self, base: Loaded) -> Loaded | None:
        newest = self._transacted("read", lambda: self._database.since(base.manifest))
        return _loaded(newest) if newest is not None else self.load()

    def create(self, manifest: Manifest) -> Loaded:
        refuse_foreign(self._world.storage, self._key, manifest)

        def effect() -> None:
            if self._database.state is None:
                self._became(manifest, None)

        self._transacted("write", effect)
        loaded = self.load()
        assert loaded is not None
        publish_manifest(self.segments, loaded.manifest)
        return loaded

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict:
        outcome: Loaded | Outdated | Conflict | None = None
        while outcome is None:
            outcome = self._committed(base, transaction)
        if isinstance(outcome, Loaded):
            self._snapshots.after_commit(outcome.manifest, own=outcome.manifest.transaction.number)
        return outcome

    def _committed(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict | None:
        """None: another transaction came first, as when this one had to wait for the stream's row. What it reads from
        storage it reads before, since here nobody can wait for a lock."""
        begun = self._database.state
        own = self._database.since(base.manifest)
        after = None if own is None else apply(own, transaction)

        def effect() -> Loaded | Outdated | Conflict | None:
            state = self._database.state
            assert state is not None
            if state is not begun:
                return None
            if state.transaction != base.manifest.transaction:
                behind = base.manifest.transaction.number < self._database.floor
                if behind or not isinstance(transaction.change, _FITS_ANY_STATE):
                    return Outdated()
                if is_done(state, transaction.change):
                    return _loaded(own or state)
            if after is None or isinstance(after, Conflict):
                return after or Outdated()
            kept = apply(state, transaction)
            assert isinstance(kept, Manifest), kept
            self._became(kept, None if isinstance(transaction.change, Rebase) else transaction)
            return _loaded(after)

        return self._transacted("write", effect)

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
            publish_manifest(self.segments, loaded.manifest)

            def effect() -> None:
                self._database.floor = max(floor, self._database.floor)

            self._transacted("write", effect)
        return Trimmed(floor=floor, transactions=0, keys=0)

    def _became(self, state: Manifest, transaction: Transaction | None) -> None:
        self._database.state = state
        self._database.log.append(Logged(state.transaction, transaction))
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
