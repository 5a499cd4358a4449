"""Faulty merges: MPS3's own protocol, whose readers repair a writer's guess by replaying what is recent, and the name
that its 1,025th write gets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from unittest import mock

import msgspec

from singerlake.clock import IdSource
from singerlake.format import layout
from singerlake.format.exact_json import decode, encode
from singerlake.format.merge.entry_key import NAME, EntryKey, EntryKeys, entry_key, milliseconds
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Transaction
from singerlake.storage.port import Stored
from singerlake.stores.merge import entries as merge_entries
from singerlake.stores.port import Abilities, Loaded, Outdated, Pending, Trimmed
from singerlake.stores.segments.objects import SegmentObjects
from tests.simulation.stores.kinds import KINDS, Kind
from tests.simulation.watches.truth import Truth
from tests.simulation.watches.watch import ManifestWatch, Watches
from tests.simulation.watches.watched import WatchedStore
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World

STALE = LAG = 5000
"""Milliseconds, both, as MPS3 has them; its own document asks for a lag that is much longer."""


class GuessedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer did, and the state it believed to do it to. A birth does nothing."""

    transaction: Transaction | None
    before: Manifest


class Mps3Store:
    """Transactions in the order of their names; the newest one's guess of the state, corrected by the recent ones."""

    kind = "merge"
    abilities = Abilities()
    exclusive = False

    def __init__(self, world: World, process: Process) -> None:
        self._storage = world.storage
        self._clock = process.clock
        self._keys = EntryKeys(world.ids)
        self._log = layout.log_prefix(TAP, STREAM)
        self._correction = 0
        self.segments = SegmentObjects(world.storage, TAP, STREAM)

    def load(self) -> Loaded | None:
        valid: list[tuple[EntryKey, GuessedEntry]] = []
        old: list[str] = []
        for found in list(self._storage.list(self._log + NAME)):
            key = entry_key(found.key[len(self._log) :])
            assert key is not None
            stale = abs(key.time - milliseconds(found.last_modified)) >= STALE
            if stale or (valid and key.time < valid[0][0].time - LAG):
                old.append(found.key)
                continue
            stored = self._storage.get(found.key)
            if stored is not None:
                valid.append((key, decode(stored.body, GuessedEntry)))
        for each in old:
            self._storage.delete(each)
        if not valid:
            return None
        state = valid[0][1].before
        for _, entry in reversed(valid):
            after = apply(state, entry.transaction) if entry.transaction else state
            state = state if isinstance(after, Conflict) else after
        return Loaded(state, "")

    def create(self, manifest: Manifest) -> Loaded:
        self._put(GuessedEntry(transaction=None, before=manifest))
        return self.load() or Loaded(manifest, "")

    def catch_up(self, base: Loaded) -> Loaded | None:
        return self.load() or base

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict:
        loaded = self.load() or base
        after = apply(loaded.manifest, transaction)
        if isinstance(after, Conflict):
            return after
        self._put(GuessedEntry(transaction=transaction, before=loaded.manifest))
        return Loaded(after, "")

    def publish(self, state: Loaded, *, run_ended: bool = False) -> None:
        """Nothing: readers do as writers do."""

    def trim(self, *, keep: int, dry_run: bool = True) -> Trimmed:
        self.load()
        return Trimmed(floor=-1, transactions=0, keys=0)

    def _put(self, entry: GuessedEntry) -> None:
        for _ in range(5):
            key = self._keys.next(milliseconds(self._clock.now()) + self._correction)
            self._storage.put(self._log + key.name, encode(entry))
            found = self._storage.head(self._log + key.name)
            if found is not None and abs(key.time - milliseconds(found.last_modified)) < STALE:
                return
            self._keys.back_to(None)
            if found is not None:
                self._correction = milliseconds(found.last_modified) - milliseconds(self._clock.now())


class OnlyWhatIsSeen(Truth):
    """Judges the states that actors are given, since there is no order of commits to hold them against. A birth that
    others were faster than is a lineage of its own here."""

    def became(self, state: Manifest) -> None:
        raise AssertionError("there is no order")

    def saw(self, state: Manifest, *, told: bool = True) -> None:
        self.newest = state
        self._check_files(state, state)

    def acked(self, id: str) -> None:
        self._acked.add(id)


class OnlyWhatIsLost(OnlyWhatIsSeen):
    """Lets messages move, and asks at the end whether all are there."""

    def saw(self, state: Manifest, *, told: bool = True) -> None:
        self.newest = state


class Believing(WatchedStore):
    """Asks nothing of the order of what an actor sees."""

    def _fresh(self, what: str, ask: Callable[[], Loaded | None]) -> Loaded | None:
        loaded = ask()
        if loaded is not None:
            self._looked_at(loaded)
        return loaded

    def _looked_at(self, loaded: Loaded) -> None:
        self._truth.saw(loaded.manifest)

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict | Pending:
        return self._inner.commit(base, transaction)


class _Unwatched:
    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None: ...

    def sends(self, client: str, transaction: str) -> None: ...

    def seen(self, client: str, number: int) -> None: ...


def _seen_watches(world: World) -> Watches:
    manifest = ManifestWatch(world.truth, world.fail, commits=False)
    return Watches(world.truth, world.fail, world.prefix, locks=None, manifest=manifest, log=_Unwatched())


@dataclass(frozen=True, slots=True)
class _Overrun(EntryKey):
    """The name that a count beyond its bits gets: one that no reader takes for an entry's."""

    @property
    def name(self) -> str:
        return f"{NAME}{EntryKey(self.time, self.session, 0).name[len(NAME) : -2]}-1"


class NeverRolls(EntryKeys):
    """A session goes on beyond what its count can say. It begins close to that here."""

    def __init__(self, ids: IdSource) -> None:
        super().__init__(ids)
        self._count = 1022

    def next(self, now: int) -> EntryKey:
        if self._count < 1024:
            return super().next(now)
        self.last = _Overrun(max(now, self.last.time if self.last else 0), self._session, self._count)
        return self.last


def _never_rolling() -> AbstractContextManager[object]:
    return mock.patch.object(merge_entries, "EntryKeys", NeverRolls)


_MPS3 = Kind("mps3-lag", Mps3Store, _seen_watches, watched=Believing, truth=OnlyWhatIsLost)
MERGES = (
    _MPS3,
    replace(_MPS3, name="mps3-order", truth=OnlyWhatIsSeen),
    replace(KINDS["merge"], name="never-rolls", patched=_never_rolling),
)
