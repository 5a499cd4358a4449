"""``merge``: MPS3's sync protocol as a manifest store. Nobody waits to write: a transaction is an object of its own,
under a key that sorts by time, and gets its place later, by a settle record that any process writes.

What is not taken over from MPS3 is its state, which each writer guesses and each reader repairs by replaying what is
recent: offsets handed out like that would move. Readers follow the settle records and nothing else.

Whether an entry counts is told by storage's ``LastModified``, and a bucket that was restored or copied has new ones:
to MPS3 every entry then looks stale, and it deletes them. Here an entry goes only with the record that holds it, or
where another entry of the same transaction is inside one, or where no restoring could make it look as it does.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace

import msgspec

from singerlake.errors import CorruptObjectError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.merge.entry_key import LAST_CHANGE, EntryKey, entry_key, milliseconds
from singerlake.format.merge.patch import to_entry
from singerlake.format.state import transactions as tx
from singerlake.format.state.additions import Conflict
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.storage import port
from singerlake.stores.commit import is_done, state_lost
from singerlake.stores.merge.entries import Entries, EntryWriter
from singerlake.stores.merge.log import KIND, SettleLog
from singerlake.stores.merge.records import SettledStore
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.settle import Settler
from singerlake.stores.merge.storage_time import LastChange, StorageTime
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Abilities, Loaded, Pending, SettlingStore, Trimmed
from singerlake.stores.publish import SnapshotSettings
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import for_log

logger = logging.getLogger(__name__)

_ROUNDS = 10

_AGES = 100
"""For how many lags an entry that does not count is left alone: its writer may be about to look at it."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A stored transaction whose place is not known yet. ``change`` is None where it could not be read."""

    name: str
    time: int
    change: tx.Change | None


class MergeStore(SettlingStore):
    """Manifest store over entries and settle records. See ``MergeSettings`` for its times."""

    kind = KIND
    abilities = Abilities(settles=True)

    def __init__(
        self,
        place: StreamPlace,
        *,
        settings: MergeSettings,
        lake_id: str | None = None,
        snapshots: SnapshotSettings | None = None,
    ) -> None:
        storage, clock, ids = place.storage, place.clock, place.ids
        self._storage = storage
        self._settings = settings
        self._where = {"tap": place.tap, "stream": place.stream}
        time = StorageTime(clock)
        self._entries = Entries(place, settings)
        self._writer = EntryWriter(storage, self._entries, settings, time, clock, ids)
        key = layout.log_prefix(place.tap, place.stream) + LAST_CHANGE
        self._last_change = LastChange(storage, key, settings, time, clock, ids)
        log = SettleLog(place, self._entries, settings, time)
        self.segments = SegmentObjects(storage, place.tap, place.stream)
        self._records = SettledStore(log, place, settings, lake_id=lake_id, snapshots=snapshots)
        self._settler = Settler(self._entries, log, self._records, self._last_change, settings, time, ids)
        self._sweep = Sweep(self._entries, self._records, settings, time, place.stream)
        self._waiting: dict[str, _Waiting] = {}
        self._gone: set[str] = set()
        self._said = False
        self._written: int | None = None

    @property
    def exclusive(self) -> bool:
        """False: no entry is ever overwritten. Where storage honours no conditions, settle records are kept apart by
        time alone, which each object of this class says once."""
        if not self._said and not self._storage.capabilities().conditional_put:
            self._said = True
            logger.warning(
                "%s ignores conditional writes: a commit may be lost if a request takes more than %g s; "
                "tables need the manifest store postgres or dynamodb",
                self._storage.url,
                self._settings.longest,
            )
        return False

    def load(self) -> Loaded | None:
        """The newest snapshot with the settle records after it. What is not settled yet is not in it."""
        return self._seen(self._records.load())

    def create(self, manifest: Manifest) -> Loaded:
        """Birth, as in a numbered log. Without conditional writes it takes the lag, once in a stream's life."""
        return self._records.create(manifest)

    def catch_up(self, base: Loaded) -> Loaded | None:
        """``base`` with the records after it. Writes the next one where own transactions are due for it."""
        state = self._seen(self._records.catch_up(self._from(base)))
        return self._settled(state) if state is not None and self._is_due() else state

    def changed(self) -> bool:
        """Whether ``catch_up`` may give something new, for one HEAD instead of what that asks storage for: whether
        ``last_change`` is another one than when this was last asked, or that is a while ago."""
        return self._last_change.changed()

    def commit(self, base: Loaded, transaction: tx.Transaction) -> Conflict | Pending:
        """Store an entry: a PUT and a HEAD. Nothing is read before, so no other writer can have come first.

        Raises ``UnknownOutcomeError``; ``StorageUnavailableError`` also where storage's clock makes no sense.
        """
        refused = _refused(base.manifest, transaction)
        if refused is not None:
            return refused
        after = base.manifest.transaction.id if isinstance(transaction.change, tx.Rebase) else None
        if after is not None:
            number = base.manifest.transaction.number + 1
            transaction, self._records.snapshots.fresh = for_log(self.segments, transaction, number)
        entry = to_entry(tx.as_written(transaction), after=after)
        key = self._writer.write(entry, waiting=bool(self._waiting))
        self._await(transaction.id, _Waiting(key.name, key.time, transaction.change))
        self._last_change.touch()
        return Pending(transaction.id, self._entries.key(key.name))

    def settle(self, base: Loaded, pending: Pending) -> Loaded | Conflict | None:
        """Asks storage for nothing before the transaction is due. Raises ``UnknownOutcomeError`` where its entry is
        gone and the state does not show it."""
        outcomes = self._records.outcomes
        if pending.id not in outcomes and pending.id not in self._waiting and pending.id not in self._gone:
            self._adopt(pending)
        state: Loaded | None = self._from(base)
        if pending.id not in outcomes and self._from(base).manifest.closed is None and self._is_due(pending.id):
            state = self.catch_up(base)
        if state is None:
            raise state_lost("a transaction waited for its place", **self._where)
        if pending.id in outcomes:
            return outcomes[pending.id] or state
        if state.manifest.closed is not None:
            successor = state.manifest.closed
            return Conflict(f"the stream was closed and continues in {successor}", successor=successor)
        if pending.id in self._gone:
            raise UnknownOutcomeError(
                "a stored transaction is gone, and is not in the stream's state",
                hint="run again; no file was deleted",
                key=pending.key,
            )
        return None

    def publish(self, state: Loaded, *, run_ended: bool = False) -> None:
        """As the port says; at a run's end after settling what is due, other writers' too."""
        newest: Loaded | None = self._from(state)
        if run_ended and state.manifest.closed is None:
            newest = self.catch_up(state)
            newest = self._settled(newest) if newest is not None else None
        self._records.publish(newest or state, run_ended=run_ended)

    def trim(self, *, keep: int, dry_run: bool = True) -> Trimmed:
        """As the port says, and with each record its entries; records that the next ones are written by stay.
        Late entries that no poll has looked for are settled before, and entries go that certainly never count."""
        state = self.load()
        if state is None:
            return Trimmed(floor=-1, transactions=0, keys=0)
        if not dry_run:
            state = self._settled(state, deep=True)
        never = self._sweep.never(state.manifest)
        trimmed = self._records.trim(keep=max(keep, self._settler.needed(state.manifest)), dry_run=dry_run)
        if not dry_run:
            self._entries.delete(never)
        return replace(trimmed, keys=trimmed.keys + len(never))

    def _settled(self, state: Loaded, *, deep: bool = False) -> Loaded:
        """The state after as many settle records as are due and could be written, by this or by others. Of a closed
        stream there are no more: the next number may be the first of its successor."""
        for _ in range(_ROUNDS):
            if state.manifest.closed is not None:
                break
            tried = self._settler.next(state, [each.name for each in self._waiting.values()], deep=deep)
            if not tried.tried and not tried.missed:
                break
            current = self._seen(self._records.catch_up(state))
            if current is None:
                break
            grown = current.manifest.transaction != state.manifest.transaction
            state = current
            self._miss(state.manifest, tried.missed)
            self._written = self._written if tried.written is None else tried.written
            self._publish_behind(state)
            if not grown or not (tried.more or self._is_due()):
                break
        return state

    def _publish_behind(self, state: Loaded) -> None:
        """Publish where that is for the writer of the record to do which this one wrote last, once it is believed."""
        if self._written is not None and self._written <= state.manifest.transaction.number:
            written, self._written = self._written, None
            self._records.publish_behind(state, own=written)

    def _seen(self, state: Loaded | None) -> Loaded | None:
        """Note what became of own transactions on the way to ``state``."""
        for id in [id for id in self._waiting if id in self._records.outcomes]:
            del self._waiting[id]
            self._records.awaited.discard(id)
        return state

    def _from(self, base: Loaded) -> Loaded:
        """``base``, or the newest state known here where that is not older."""
        newest = self._records.newest
        if newest is None or newest.manifest.transaction.number < base.manifest.transaction.number:
            return base
        return newest

    def _is_due(self, id: str | None = None) -> bool:
        """Whether an own transaction, that one or any, waits for a place that it can have by now."""
        times = [each.time for other, each in self._waiting.items() if id is None or other == id]
        return bool(times) and min(times) < self._settler.horizon()

    def _await(self, id: str, waiting: _Waiting) -> None:
        self._waiting[id] = waiting
        self._records.awaited.add(id)

    def _adopt(self, pending: Pending) -> None:
        """Take on a receipt that another object of this class gave."""
        name = self._entries.name(pending.key)
        key = entry_key(name)
        if key is None:
            self._gone.add(pending.id)
            return
        held = self._entries.read([name]).get(name)
        self._await(pending.id, _Waiting(name, key.time, held.transaction.change if held else None))

    def _miss(self, state: Manifest, names: Collection[str]) -> None:
        """Own entries that are due, do not wait any more, and are in no record that was followed, since a snapshot was
        loaded meanwhile: or somebody removed them. The state tells, as far as it can."""
        for id, each in list(self._waiting.items()):
            if each.name in names:
                del self._waiting[id]
                self._records.awaited.discard(id)
                settled = self._records.may_hold(state, each.name, each.time)
                if _took_effect(state, each.change) or (settled and isinstance(each.change, tx.RecordRun)):
                    self._records.outcomes[id] = None
                elif settled and isinstance(
                    each.change, tx.AddFiles | tx.ReplaceFiles | tx.ExpireFiles | tx.RetireFiles | tx.CollectFiles
                ):
                    self._records.outcomes[id] = Conflict("it was void for a reason that was trimmed since")
                else:
                    self._gone.add(id)


def _refused(state: Manifest, transaction: tx.Transaction) -> Conflict | None:
    """Why a transaction does not fit a state. New files are held against those of their ids: the end costs a copy."""
    change = transaction.change
    if isinstance(change, tx.AddFiles):
        listed = [state.by_id[file.id] for file in change.files if file.id in state.by_id]
        state = msgspec.structs.replace(state, files=FileList(listed))
    outcome = apply(state, transaction)
    return outcome if isinstance(outcome, Conflict) else None


def _took_effect(state: Manifest, change: tx.Change | None) -> bool:
    if isinstance(change, tx.RecordRun):
        return any(run.id == change.run.id and run.status == change.run.status for run in state.runs)
    if isinstance(change, tx.RetireFiles):
        return all(id in state.retired_by_id for id, _ in change.files)
    if isinstance(change, tx.Close):
        return state.closed == change.successor
    return change is not None and is_done(state, change)


@dataclass(frozen=True, slots=True)
class Sweep:
    """One look at all entries of a stream."""

    entries: Entries
    records: SettledStore
    settings: MergeSettings
    time: StorageTime
    stream: str

    def never(self, state: Manifest) -> list[str]:
        """Names of entries in no record that never count and may go, now that the log reaches to ``state``."""
        names, transactions = set[str](), set[str]()
        for record in self.records.every():
            names.update(held.key for held in record.entries)
            transactions.update(held.transaction.id for held in record.entries)
        inside, outside = self._loose(names)
        if not outside and not inside:
            return []
        tip = next(self.records.settled(state), None)
        covered = tip.until if tip is not None else 0
        old = min(self.time.now() - _AGES * self.settings.lag_ms, covered)
        aged = {name: each for name, each in outside.items() if milliseconds(each[1].last_modified) < old}
        if inside:
            logger.warning(
                "%s: %d settled entries have another LastModified than when they were settled: was the bucket restored "
                "or copied? %d entries that are in no record are kept",
                self.stream,
                inside,
                len(outside),
            )
            return []
        going = self._going(aged, transactions)
        left = sorted(set(aged) - set(going))
        if left:
            logger.warning(
                "%s: %d entries do not count: storage gave them much later times than their names say, and no record "
                "has their transactions; they are kept, the first is %s",
                self.stream,
                len(left),
                self.entries.key(left[0]),
            )
        return going

    def _loose(self, settled: set[str]) -> tuple[int, dict[str, tuple[EntryKey, port.Entry]]]:
        """How many entries in records look as if they did not count, and those in none that do not, by name."""
        inside, outside = 0, dict[str, tuple[EntryKey, port.Entry]]()
        for key, entry in self.entries.all():
            if self.entries.count(key, entry):
                continue
            if key.name in settled:
                inside += 1
            else:
                outside[key.name] = (key, entry)
        return inside, outside

    def _going(self, aged: dict[str, tuple[EntryKey, port.Entry]], transactions: set[str]) -> list[str]:
        ahead = [name for name, (key, entry) in aged.items() if key.time > milliseconds(entry.last_modified)]
        try:
            held = self.entries.read(sorted(set(aged) - set(ahead)))
        except CorruptObjectError as error:
            logger.warning("%s", error)
            return ahead
        return ahead + [name for name, each in held.items() if each.transaction.id in transactions]
