"""A stream that is moved from one manifest store to another, and on, while it is written to and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from singerlake.errors import ForeignManifestError, StreamClosedError
from singerlake.format import layout
from singerlake.format.exact_json import decode
from singerlake.format.state.manifest import from_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Rebase
from singerlake.storage.port import Stored
from singerlake.stores.log import Floor
from singerlake.stores.numbered import Record
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.stores.publish import published
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.migrate import migrate_stream
from tests.simulation.jobs import Actor
from tests.simulation.stores.kinds import KINDS, MERGE, Kind
from tests.simulation.watches.merge import MergeWatch
from tests.simulation.watches.truth import Fail, Truth
from tests.simulation.watches.watch import ManifestWatch, Watches, following
from tests.simulation.watches.watched import WatchedStore
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World

STORES = ("lockfile", "log", "merge")
"""Between which the stream moves: all that are on the lake."""
_KEY = layout.manifest_key(TAP, STREAM)


def store_of(world: World, process: Process) -> ManifestStore:
    """The store that the stream is in now, or is to be born in."""
    there = published(world.storage, _KEY)
    first = world.shared.setdefault("first", world.choices.one_of(STORES))
    return store_in(world, process, there.store if there else first)


def store_in(world: World, process: Process, kind: str) -> ManifestStore:
    """The store of that kind."""
    return KINDS[kind].store_of(world, process)


@dataclass(eq=False)
class MigratorJob(Actor):
    """Moves the stream, and begins again with the same move where that failed or was cut short."""

    times: int
    target: str | None = None

    def run(self, process: Process) -> None:
        while self.times:
            self.rest(process)
            there = published(self.world.storage, _KEY)
            if there is not None:
                if self.target is None:
                    self.target = self.world.choices.one_of([kind for kind in STORES if kind != there.store])
                old, new = (store_in(self.world, process, kind) for kind in (there.store, self.target))
                moved = migrate_stream(
                    StreamContext(self.world.storage, TAP, STREAM, process.clock, self.world.ids, old), new
                )
                self.world.note(f"moved: {moved}")
                self.target = None
            self.times -= 1


class MovingTruth(Truth):
    """A first state in another store is offered by whoever moves the stream, perhaps more than once, and becomes what
    is so when somebody is given it, or goes on from it."""

    def __init__(self, fail: Fail, exists: Callable[[str], bool]) -> None:
        super().__init__(fail, exists)
        self.offered: dict[str, Manifest] = {}

    def offer(self, state: Manifest) -> None:
        """A first state was written where it may be read."""
        self.offered.setdefault(_name(state), state)

    def adopt(self, name: str) -> None:
        """Somebody went on from a state: if it was only offered, it is the stream's from now on."""
        state = self.offered.get(name)
        if state is not None and state.transaction.number not in self.states:
            self.moved(state)

    def saw(self, state: Manifest, *, told: bool = True) -> None:
        self.adopt(_name(state))
        super().saw(state, told=told)


def _name(state: Manifest) -> str:
    return f"{state.transaction.number} {state.transaction.id} {state.store}"


class MovingStore(WatchedStore):
    """A closed state is whatever the old store has to say of itself: only an open one is held against what is so."""

    def _fresh(self, what: str, ask: Callable[[], Loaded | None]) -> Loaded | None:
        known = self._truth.acknowledged
        loaded = ask()
        if loaded is not None and loaded.manifest.closed is None:
            self._not_older(what, loaded, known)
            self._looked_at(loaded)
        return loaded

    def _looked_at(self, loaded: Loaded) -> None:
        if loaded.manifest.closed is None:
            super()._looked_at(loaded)


class MovingManifest(ManifestWatch):
    """Commits of ``lockfile`` are publications of the others; numbers go up through all of them."""

    def changed(self, key: str, after: Stored | None) -> None:
        assert after is not None, "nobody deletes it"
        manifest = from_json(after.body, key=key)
        number = manifest.transaction.number
        if number <= self.published:
            self._fail(f"manifest.json went from transaction {self.published} to {number}")
        self.published = number
        newest = self._truth.newest
        if newest is not None and newest.closed == manifest.store == "lockfile":
            self._truth.moved(manifest)
        elif manifest.store != "lockfile" or number in self._truth.states:
            self._truth.saw(manifest, told=False)
        else:
            self._truth.became(manifest)


class MovingWatch(MergeWatch):
    """Records of ``log`` and of ``merge`` lie in one folder. One that continues nothing is void: nobody may be given
    what it makes."""

    # A writer that slept through a move away and back may find its entry in no record that it can still read.
    once = False

    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None:
        if after is not None or layout.log_number(key.rpartition("/")[2]) is not None:
            super().changed(key, before, after, by)

    def sends(self, client: str, transaction: str) -> None:
        """Nothing: what a store that was closed left void is committed again in the next one, in no order."""

    def seen(self, client: str, number: int) -> None:
        """Nothing, likewise."""

    def state_after(self, number: int, body: bytes) -> Manifest:
        if self._truth.newest is not None and self._truth.newest.store == "merge":
            return super().state_after(number, body)
        return following(decode(body, Record), self._truth, self._fail)

    def _appended(self, key: str, number: int, after: Stored | None) -> None:
        if after is None:
            if number > self._floor:
                self._fail(f"record {number} was removed, the floor is {self._floor}")
            return
        birth = birth_in(after.body)
        if birth is not None and self._truth.newest is not None:
            self._moving.offer(birth)
            return
        for state in list(self._moving.offered.values()):
            if self._goes_on(state, number, after.body):
                self._moving.adopt(_name(state))
        newest = self._truth.newest
        if newest is None or self._goes_on(newest, number, after.body):
            super()._appended(key, number, after)

    def _goes_on(self, state: Manifest, number: int, body: bytes) -> bool:
        on_a_log = state.closed is None and state.store in ("log", "merge")
        return on_a_log and number == state.transaction.number + 1 and f'"{state.transaction.id}"'.encode() in body

    @property
    def _moving(self) -> MovingTruth:
        assert isinstance(self._truth, MovingTruth)
        return self._truth

    def _rises(self, floor: Floor) -> bool:
        """A store that begins where another was trimmed up to its end puts its own snapshot in the place of that."""
        return super()._rises(floor) or (floor.floor == self._floor and self._keeper(floor) != self._keeper(None))

    def _keeper(self, floor: Floor | None) -> str | None:
        stored = self._peek(self._prefix + (floor.snapshot if floor else self._snapshot))
        return from_json(stored.body, key=self._prefix).store if stored else None

    def _floored(self, after: Stored | None) -> None:
        """From the moment that the floor names its snapshot, a log that a stream moves to can be read."""
        super()._floored(after)
        stored = self._peek(self._prefix + self._snapshot)
        if stored is not None:
            self._moving.offer(from_json(stored.body, key=self._snapshot))

    def _snapshotted(self, key: str, after: Stored | None) -> None:
        # One may be written for a state that a log is about to begin with.
        if after is not None and self._bodies.setdefault(key, after.body) != after.body:
            self._fail(f"{key} was written again with another content")


def birth_in(body: bytes) -> Manifest | None:
    """The first state of a log, if that is what a record holds."""
    if b'"after":null' not in body:
        return None
    change = decode(body, Record).transaction.change
    return change.manifest if isinstance(change, Rebase) else None


def _watches(world: World) -> Watches:
    manifest = MovingManifest(world.truth, world.fail, commits=False)
    log = MovingWatch(world, stale_ms=MERGE.stale_ms)
    return Watches(world.truth, world.fail, world.prefix, locks=None, manifest=manifest, log=log)


def _migrators(world: World, kind: Kind) -> Iterator[Actor]:
    for number in range(world.choices.one_of((1, 1, 2))):
        yield MigratorJob(f"migrator{number}", world, kind, 1 + world.choices.below(3))


MOVING = Kind(
    "moving",
    store_of,
    _watches,
    watched=MovingStore,
    truth=MovingTruth,
    successor=store_in,
    extras=_migrators,
    transient=(ForeignManifestError, StreamClosedError),
)
