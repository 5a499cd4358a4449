"""The engine of stores that keep numbered transactions (Sleeper's transaction log): a snapshot, the tail after it, and
a conditional append of the next number.

Sleeper's log has holes that are closed here. A transaction number that was trimmed could be written again and began a
second, invisible log (gchq/sleeper#6816): every record names the transaction before it, and a process that reads the
tail or appends looks at the floor *afterwards*. A gap was skipped: it is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from singerlake.clock import Backoff
from singerlake.errors import CorruptObjectError, ForeignManifestError
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, encode
from singerlake.format.state.additions import Conflict
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.fold import apply, in_lake
from singerlake.format.state.manifest import check_own
from singerlake.format.state.model import Manifest
from singerlake.format.state.prepared import settlement
from singerlake.format.state.transactions import PrepareFiles, Rebase, Transaction, as_written
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Abilities, Loaded, ManifestStore, Outdated, Trimmed
from singerlake.stores.publish import Snapshots, SnapshotSettings, publish_manifest, published, refuse_foreign
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import for_log, opened, read_manifest, with_source

_RELOADS = 10
_LOOK_AGAIN = 0.02


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction in a log, with the id of the one before; None: the birth, a ``Rebase`` of the first state."""

    number: int
    after: str | None
    transaction: Transaction


class TransactionLog(Protocol):
    """Where one stream's numbered transactions, their floor and their snapshots are kept."""

    abilities: Abilities

    def append(self, number: int, body: bytes) -> bool:
        """Put a record under a number that was never used; False where something is there. Raises
        ``UnknownOutcomeError`` where no answer came and reading it back did not show which."""

    def read(self, after: int, *, whole: bool) -> Iterator[tuple[int, bytes]]:
        """The records with numbers above ``after``, in order, up to the end of the log as it was when this began or a
        later one. Reads are consistent: a record that was acknowledged is seen. ``whole``: to the last record there
        is, also beyond a number that is missing, so that a gap shows; otherwise reading may end before it."""

    def base(self) -> Manifest | None:
        """The newest snapshot; None where there is none yet."""

    def snapshot(self, manifest: Manifest, fresh: Iterable[Segment] = ()) -> tuple[Segment, ...]:
        """Keep an immutable snapshot, read it back, and let ``base`` find it, which never goes back. Gives the segments
        that were written for it, and ``fresh`` ones; those taken from ``manifest.json`` may have left that by now."""

    def floor(self) -> int:
        """Records up to this number may be gone, and their numbers are never used again; -1: none. Never falls."""

    def raise_floor(self, number: int) -> None:
        """Raise the floor to ``number``; lower ones change nothing. Only where ``base`` is at least as new."""

    def other_lakes(self) -> tuple[str, ...]:
        """The ids of other lakes with a log of this tap's stream, if asking is cheap; none where it is on the lake."""
        return ()

    def remove(self, up_to: int, *, dry_run: bool) -> int:
        """Delete records with numbers up to ``up_to`` (which the floor covers), with what belongs to them, oldest
        first; gives how many objects, items or rows that were, or would be."""


class NumberedStore(ManifestStore):
    """A manifest store over a ``TransactionLog``. ``segments`` are those of its states; None: on storage alone."""

    def __init__(
        self,
        kind: str,
        log: TransactionLog,
        place: StreamPlace,
        *,
        lake_id: str | None = None,
        snapshots: SnapshotSettings | None = None,
        segments: SegmentObjects | None = None,
    ) -> None:
        self.kind = kind
        self.segments = segments or SegmentObjects(place.storage, place.tap, place.stream)
        self._lake_id = lake_id
        self.abilities = log.abilities
        self._log = log
        self._storage = place.storage
        self._tap = place.tap
        self._stream = place.stream
        self._clock = place.clock
        self._key = place.manifest_key
        self._decisions = Decisions(place.storage, place.tap)
        settings, eager = snapshots or SnapshotSettings(), not log.abilities.followable
        self.snapshots = Snapshots(self.segments, place.clock, settings, eager=eager)

    def load(self) -> Loaded | None:
        """The newest snapshot with the tail after it. What an atomic run prepared last is settled in it where the run
        is decided, though that may not be in the log yet; else the state is undecided."""
        return self._read(None)

    def catch_up(self, base: Loaded) -> Loaded | None:
        """``base`` with the tail after it; where that was trimmed meanwhile, from a newer snapshot. Where the stream
        has gone on in another store, and its log is no more, ``base``, closed in favour of that one."""
        try:
            loaded = self._read(base.manifest)
            # What is decided of ``base`` may not be in the log yet, which its mark says.
            return base if loaded is not None and loaded.manifest.transaction == base.manifest.transaction else loaded
        except ForeignManifestError:
            shown = published(self._storage, self._key)
            if shown is None or shown.store == self.kind:
                raise
            return loaded_at_number(msgspec.structs.replace(base.manifest, closed=shown.store))

    def create(self, manifest: Manifest) -> Loaded:
        """Birth: record 0, then ``manifest.json``, unless a run is undecided behind it. Of several one stays."""
        manifest = in_lake(manifest, self._lake_id)
        refuse_foreign(self._storage, self._key, manifest)
        number = manifest.transaction.number
        birth = Transaction(id=manifest.transaction.id, at=manifest.created, change=Rebase(manifest=manifest))
        birth, self.snapshots.fresh = for_log(self.segments, birth, number)
        assert isinstance(birth.change, Rebase)
        if number > 0:
            # A stream that comes from another store goes on with its numbers: none below was ever used in this log, or
            # they are of a closed one.
            self._log.snapshot(birth.change.manifest, self.snapshots.fresh)
            self._log.raise_floor(number - 1)
        self._log.append(number, encode(Record(number=number, after=None, transaction=as_written(birth))))
        loaded = self.load()
        if loaded is None:
            raise CorruptObjectError(
                "a stream just born has no state", hint="check the manifest store, then run again", key=self._key
            )
        if self._settles(loaded):
            self._publish(loaded, self.snapshots.fresh)
        return loaded

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict:
        """Append the next number. A reply that was lost is resolved by reading that number in the next catch-up. Where
        an atomic run is undecided, waits for its decision first, or makes it; what a run prepares is refused then."""
        prepared = base.manifest.prepared
        if prepared is not msgspec.UNSET and not isinstance(transaction.change, PrepareFiles):
            self._decisions.await_or_abort(prepared.commit, writer=f"transaction {transaction.id}", clock=self._clock)
            return Outdated()
        self._finish(base)
        after = apply(base.manifest, transaction)
        if isinstance(after, Conflict):
            return after
        number = after.transaction.number
        if isinstance(transaction.change, Rebase):
            transaction, self.snapshots.fresh = for_log(self.segments, transaction, number)
            after = apply(base.manifest, transaction)
            assert isinstance(after, Manifest)
        record = Record(number=number, after=base.manifest.transaction.id, transaction=as_written(transaction))
        if not self._log.append(number, encode(record)):
            return Outdated()
        if self._log.floor() >= number:
            return Outdated()
        committed = loaded_at_number(after)
        self.publish_behind(committed, own=number)
        return committed

    def publish(self, state: Loaded, *, run_ended: bool = False) -> None:
        """As the port says; an undecided state is left to the writer that settles it."""
        if not self._settles(state):
            return
        self.snapshots.where_due(state.manifest, run_ended=run_ended)

    def publish_behind(self, state: Loaded, *, own: int) -> None:
        """After the transaction of number ``own``, which ``state`` holds: publish where so many wait that a reader that
        starts would have to replay too many. Raises nothing that storage raises."""
        if state.manifest.prepared is msgspec.UNSET:
            self.snapshots.after_commit(state.manifest, own=own, first=lambda: self._finish(state))

    def other_lakes(self) -> tuple[str, ...]:
        return self._log.other_lakes()

    def trim(self, *, keep: int, dry_run: bool = True) -> Trimmed:
        """In the order that a crash at any point leaves whole: snapshot, manifest.json, floor, removal."""
        loaded = self.load()
        before = self._log.floor()
        if loaded is not None and loaded.manifest.prepared is not msgspec.UNSET:
            loaded = None
        if loaded is None or loaded.manifest.transaction.number - keep <= before:
            return Trimmed(floor=before, transactions=0, keys=self._log.remove(before, dry_run=dry_run))
        floor = loaded.manifest.transaction.number - keep
        if not dry_run:
            self._finish(loaded)
            fresh = self._log.snapshot(loaded.manifest, self.snapshots.fresh)
            self._publish(loaded, fresh)
            self._log.raise_floor(floor)
        return Trimmed(floor=floor, transactions=floor - before, keys=self._log.remove(floor, dry_run=dry_run))

    def _publish(self, state: Loaded, fresh: Iterable[Segment]) -> None:
        publish_manifest(self.segments, state.manifest, fresh=fresh)

    def _read(self, start: Manifest | None) -> Loaded | None:
        backoff = Backoff(self._clock, first=_LOOK_AGAIN, longest=_LOOK_AGAIN)
        for _ in range(_RELOADS):
            begun = start if start is not None else self._base()
            first = begun.transaction.number if begun else -1
            state, problem = self._with_tail(begun, whole=start is None)
            ended = start is None and begun is not None and begun.closed is not None
            if ended or self._log.floor() <= first:
                if problem is not None:
                    raise problem
                return self._decided(in_lake(state, self._lake_id)) if state else None
            # What was read began below what may be gone, or may have been written there again by somebody who was
            # away meanwhile: only a newer snapshot is sure to go on into the tail.
            start = None
            backoff.wait()
        raise self._corrupt("the log's floor is above its newest snapshot")

    def _decided(self, state: Manifest) -> Loaded:
        """A state that was read, with what is decided of it."""
        decision = None if state.prepared is msgspec.UNSET else self._decisions.get(state.prepared.commit)
        if decision is None:
            return loaded_at_number(state)
        number = state.transaction.number + 1
        record = Record(number=number, after=state.transaction.id, transaction=settlement(decision))
        body = encode(record)
        return Loaded(self._follow(state, number, body), body.decode())

    def _settles(self, state: Loaded) -> bool:
        """Whether a state may be published: it is decided, and the log says so by now."""
        if state.manifest.prepared is not msgspec.UNSET:
            return False
        self._finish(state)
        return True

    def _finish(self, state: Loaded) -> None:
        """Have the log hold what settles ``state``, where that was read of the decision. Everybody writes the same."""
        if state.mark.startswith("{"):
            self._log.append(state.manifest.transaction.number, state.mark.encode())

    def _with_tail(self, state: Manifest | None, *, whole: bool) -> tuple[Manifest | None, CorruptObjectError | None]:
        """A state with the records after it, and what is wrong with the log behind them, if it is."""
        records = self._log.read(state.transaction.number if state else -1, whole=whole)
        for number, body in records if state is not None else from_newest_birth(records):
            if state is not None and state.closed is not None:
                # What comes after is another store's in the same place, or of a next life of this one, which
                # begins with a snapshot above the floor.
                break
            if state is not None and number != state.transaction.number + 1:
                return state, self._corrupt(
                    f"transaction {number} follows {state.transaction.number}", state.transaction.number + 1
                )
            try:
                state = self._follow(state, number, body)
            except CorruptObjectError as error:
                return state, error
        return state, None

    def _base(self) -> Manifest | None:
        base = self._log.base()
        if not self.abilities.followable:
            base = self._published_after(base) or base
        if base is not None:
            check_own(base, tap=self._tap, stream=self._stream, store=self.kind, key=self._key)
            if self.abilities.followable:
                self.snapshots.saw(base.transaction.number)
            base = with_source(self.segments, base)
        return base

    def _published_after(self, base: Manifest | None) -> Manifest | None:
        """What is published, where it saves reading a long tail, and the log has its record still."""
        there = published(self._storage, self._key)
        if there is None or there.store != self.kind:
            return None
        self.snapshots.saw(there.number)
        # A few that the snapshot is behind cost less to read than another state; not if that is read in part.
        settings = self.snapshots.settings
        saved = max(1, settings.step if self.segments.sizes else settings.room)
        if there.number < (base.transaction.number if base else -1) + saved:
            return None
        first = next(iter(self._log.read(there.number - 1, whole=False)), None)
        stored = self._storage.get(self._key)
        if first is None or stored is None:
            return None
        manifest = read_manifest(stored.body, key=self._key, storage=self._storage)
        try:
            record = decode(first[1], Record)
        except msgspec.DecodeError:
            return None
        same = (record.number, record.transaction.id) == (manifest.transaction.number, manifest.transaction.id)
        return manifest if same else None

    def _follow(self, state: Manifest | None, number: int, body: bytes) -> Manifest:
        try:
            record = decode(body, Record)
        except msgspec.DecodeError as error:
            raise self._corrupt(f"transaction {number} is not one this version knows: {error}", number) from error
        transaction = opened(self.segments, record.transaction)
        before = state.transaction.id if state else None
        if record.number != number or record.after != before:
            raise self._corrupt(f"transaction {number} does not continue the log before it", number)
        if state is None:
            if not isinstance(transaction.change, Rebase):
                raise self._corrupt(f"transaction {number} is not the stream's birth", number)
            born = transaction.change.manifest
            return check_own(born, tap=self._tap, stream=self._stream, store=self.kind, key=self._key)
        after = apply(state, transaction)
        if isinstance(after, Conflict):
            raise self._corrupt(f"transaction {number} does not fit the state before it: {after.reason}", number)
        return after

    def _corrupt(self, what: str, number: int | None = None) -> CorruptObjectError:
        where = {"tap": self._tap, "stream": self._stream, "store": self.kind}
        if number is not None and self.abilities.followable:
            where = {"key": layout.log_prefix(self._tap, self._stream) + layout.log_name(number)}
        return CorruptObjectError(
            what, hint="restore the log, or run 'singerlake rebuild'; nothing was changed", **where
        )


def loaded_at_number(manifest: Manifest) -> Loaded:
    """A state marked by its transaction's number."""
    return Loaded(manifest, str(manifest.transaction.number))


class _After(msgspec.Struct):
    after: str | None


def is_birth(body: bytes) -> bool:
    """Whether a record begins a log."""
    try:
        return decode(body, _After).after is None
    except msgspec.DecodeError:
        return False


def from_newest_birth(records: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The records of the stream's life now: what lies before is of a log that was closed in the same place."""
    kept: list[tuple[int, bytes]] = []
    for number, body in records:
        if is_birth(body):
            kept.clear()
        kept.append((number, body))
    return kept


prepare_decoders(Record, _After)
