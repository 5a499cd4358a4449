"""``postgres``: the state is rows of a PostgreSQL database, and a transaction is a serializable one there (Sleeper's
proposed PostgreSQL store, its option 3). Numbers and offsets come from the stream's row, never from a sequence, which
has gaps. A writer that is behind is brought up within its own commit, where that is cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import cast

from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.format.decision import Brought, Decision
from singerlake.format.exact_json import ascii_json
from singerlake.format.state import transactions as tx
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import in_lake
from singerlake.format.state.manifest import check_own
from singerlake.format.state.model import Manifest, Position
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.together import CommittedTogether, Completion, RefusedShare, Share
from singerlake.stores.commit import is_done
from singerlake.stores.numbered import Record, loaded_at_number
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Abilities, Loaded, ManifestStore, Outdated, Trimmed
from singerlake.stores.postgres.change import TransactionRow, listed_and_retired, whole_delta, write_change
from singerlake.stores.postgres.connection import Connection, PostgresSettings
from singerlake.stores.postgres.newest import NewestState, checked, corrupt, folded
from singerlake.stores.postgres.read import StreamHead, read_head, read_tail
from singerlake.stores.postgres.session import WriteResult, current_xid, session_of
from singerlake.stores.postgres.step import Planned, Step, applied, is_kept, planned, read_decision, write_together
from singerlake.stores.publish import Snapshots, SnapshotSettings, publish_manifest, refuse_foreign
from singerlake.stores.segments.objects import SegmentObjects

Outcome = Loaded | Outdated | Conflict

_LONGEST_TAIL = 1000
"""Transactions read while the stream's row is locked; a writer further behind catches up first."""
_TRIMMED_AT_ONCE = 10_000
_FIT_ANY = (
    tx.AddFiles,
    tx.AddTogether,
    tx.CommitFiles,
    tx.ReplaceFiles,
    tx.ExpireFiles,
    tx.RetireFiles,
    tx.CollectFiles,
    tx.RecordRun,
)
"""Changes that need not follow the state that their author saw. What replaces a whole state, or ends it, does."""

_BY_ID = "SELECT FROM transactions WHERE table_id = %s AND number = %s AND id = %s"
_COUNT = """
    SELECT streams.number, min(transactions.number), count(*) FILTER (WHERE transactions.number <= streams.number - %s)
    FROM streams LEFT JOIN transactions USING (table_id) WHERE table_id = %s GROUP BY streams.number
"""
_OF_OTHERS = "SELECT table_id FROM streams WHERE tap = %s AND stream = %s LIMIT 100"
_TRIM = "DELETE FROM transactions WHERE table_id = %s AND number <= %s"
_LEFT = "SELECT FROM transactions WHERE table_id = %s AND number <= %s LIMIT 1"


class PostgresStore(ManifestStore):
    """Manifest store of one stream. ``table_id`` names it in the database.

    Every method may raise ``SettingError`` (no tables, or of another version; a URL that leads nowhere),
    ``AccessDeniedError``, ``StorageUnavailableError``, ``StorageFullError``; none of these shows any part of the URL.
    """

    kind = "postgres"
    abilities = Abilities(followable=False, together=True)

    def __init__(
        self,
        place: StreamPlace,
        settings: PostgresSettings,
        *,
        table_id: str,
        lake_id: str | None = None,
        completion: Completion | None = None,
        snapshots: SnapshotSettings | None = None,
    ) -> None:
        self._session = session_of(settings, place.clock)
        self._place = place
        self._settings = settings
        self.segments = SegmentObjects(place.storage, place.tap, place.stream)
        self._table_id = table_id
        self._lake_id = lake_id
        self._newest = NewestState(self._session, place, table_id, self.segments)
        decisions = Decisions(place.storage, place.tap)
        self.completion = completion or Completion(decisions, self._decision, self._of_stream)
        self._snapshots = Snapshots(self.segments, place.clock, snapshots or SnapshotSettings(), eager=True)

    def load(self) -> Loaded | None:
        """The newest state, all of it from one moment."""
        manifest = self._newest.read()
        return None if manifest is None else self._own(manifest)

    def catch_up(self, base: Loaded) -> Loaded | None:
        """``base`` with the transactions after it; where they are no longer there, the newest state."""

        def work(connection: Connection) -> tuple[StreamHead, list[Record]] | None:
            head = read_head(connection, self._table_id)
            tail = None if head is None else read_tail(connection, self._table_id, base.manifest, head)
            return None if head is None or tail is None else (head, tail)

        newer = self._session.read(work)
        manifest = None
        with _segments_may_be_gone(base.manifest):
            manifest = None if newer is None else folded(base.manifest, newer[1], newer[0])
        if manifest is None:
            return self.load()
        return base if manifest is base.manifest else self._own(manifest)

    def create(self, manifest: Manifest) -> Loaded:
        """Birth: of several, one stays. A stream that was closed comes back with a state that is newer than its end.
        Raises ``ForeignManifestError`` where ``manifest.json`` is another store's."""
        manifest = in_lake(manifest, self._lake_id)
        refuse_foreign(self._place.storage, self._place.manifest_key, manifest)
        both = listed_and_retired(manifest)
        if both is not None:
            raise CorruptObjectError("the first state lists a file that it calls retired", hint="rebuild it", file=both)
        position = manifest.transaction
        entry = TransactionRow(position.id, manifest.created, "rebase", None)

        def work(connection: Connection) -> WriteResult[Manifest | None]:
            head = read_head(connection, self._table_id, lock=True)
            if head is None:
                write_change(connection, self._table_id, None, manifest, whole_delta(None, manifest), entry)
                return WriteResult(manifest, current_xid(connection))
            if head.closed is None or position.number <= head.number:
                return WriteResult(None)
            before = self._newest.of_rows(connection)
            write_change(connection, self._table_id, before, manifest, whole_delta(before, manifest), entry)
            return WriteResult(manifest, head.xid)

        created = self._session.write(work, lambda connection: self._has(connection, position))
        loaded = self.load() if created is None else loaded_at_number(created)
        if loaded is None:
            raise corrupt(manifest, "a stream just born has no state")
        self.completion.complete(loaded.manifest)
        publish_manifest(self.segments, loaded.manifest)
        return loaded

    def commit(self, base: Loaded, transaction: tx.Transaction) -> Outcome:
        """Make ``transaction`` the one after ``base``, or after the newest where it fits that as well. A whole new
        state takes the place of rows that do not match. Raises ``UnknownOutcomeError``, ``TooManyConflictsError``."""
        self.completion.complete(base.manifest)
        is_whole = isinstance(transaction.change, tx.Rebase)
        plan = planned(base.manifest, transaction)
        aim: list[Position] = []

        def work(write: Callable[[Step, Connection], None], connection: Connection) -> WriteResult[Outcome]:
            aim.clear()
            step = self._step(connection, base.manifest, transaction, plan)
            if not isinstance(step, Step):
                return WriteResult(step)
            aim.append(step.after.transaction)
            write(step, connection)
            return WriteResult(loaded_at_number(step.after), step.xid)

        def proof(connection: Connection) -> bool:
            return self._has(connection, aim[0])

        try:
            outcome = self._session.write(partial(work, Step.write), proof)
        except CorruptObjectError:
            if not is_whole:
                raise
            outcome = self._session.write(partial(work, Step.write_anew), proof)
        if isinstance(outcome, Loaded) and aim:
            newest = outcome.manifest
            complete = partial(self.completion.complete, newest)
            # Behind a whole state nobody can begin at an older one, and would have to read all rows.
            self._snapshots.after_commit(newest, own=aim[0].number, first=complete, anew=is_whole)
        return outcome

    def commit_together(
        self, name: str, shares: Sequence[Share], decide: Callable[[Mapping[str, Brought]], Decision]
    ) -> CommittedTogether | Outdated | RefusedShare:
        """As the port says. The rows of the streams are locked in one order by everybody."""
        stores = {share.stream: cast(PostgresStore, share.store) for share in shares}
        plans: dict[str, Planned | None] = {}
        for share in shares:
            stores[share.stream].completion.complete(share.base.manifest)
            plans[share.stream] = planned(share.base.manifest, share.transaction)
        in_order = sorted(shares, key=lambda share: stores[share.stream]._table_id)

        def work(connection: Connection) -> WriteResult[CommittedTogether | Outdated | RefusedShare]:
            steps: dict[str, Step] = {}
            for share in in_order:
                plan = plans[share.stream]
                step = stores[share.stream]._step(connection, share.base.manifest, share.transaction, plan)
                if isinstance(step, Conflict):
                    return WriteResult(RefusedShare(share.stream, step))
                if not isinstance(step, Step):
                    return WriteResult(Outdated())
                steps[share.stream] = step
            decision = write_together(connection, self._tap_id, steps, decide)
            states = tuple(loaded_at_number(steps[share.stream].after) for share in shares)
            return WriteResult(CommittedTogether(states, decision), steps[in_order[0].stream].xid)

        return self._session.write(work, lambda connection: is_kept(connection, self._tap_id, name))

    def publish(self, state: Loaded, *, run_ended: bool = False) -> None:
        """As the port says. The decision about the state's last atomic run comes first."""
        self.completion.complete(state.manifest)
        self._snapshots.where_due(state.manifest, run_ended=run_ended)

    def other_lakes(self) -> tuple[str, ...]:
        own, _, stream = self._table_id.partition("/")
        names = (ascii_json(self._place.tap), ascii_json(self._place.stream))
        rows = self._session.read(lambda connection: connection.execute(_OF_OTHERS, names).fetchall())
        return tuple(sorted({table_id.removesuffix(f"/{stream}") for (table_id,) in rows} - {own}))

    def trim(self, *, keep: int, dry_run: bool = True) -> Trimmed:
        """Remove transactions up to the last ``keep``; the tables are the snapshot, ``manifest.json`` comes first."""
        row = self._session.read(lambda connection: connection.execute(_COUNT, (keep, self._table_id)).fetchone())
        if row is None:
            return Trimmed(floor=-1, transactions=0, keys=0)
        number, oldest, count = row
        floor = number - keep
        if not dry_run and count and (loaded := self.load()) is not None:
            self.completion.complete(loaded.manifest)
            publish_manifest(self.segments, loaded.manifest)
            for up_to in (*range(oldest + _TRIMMED_AT_ONCE, floor, _TRIMMED_AT_ONCE), floor):
                self._trim_to(up_to)
        return Trimmed(floor=floor if count or oldest is None else oldest - 1, transactions=count, keys=count)

    def close(self) -> None:
        """Close the connections that this process holds idle; the store can still be used."""
        self._session.close()

    def _step(
        self, connection: Connection, base: Manifest, transaction: tx.Transaction, plan: Planned | None
    ) -> Step | Outcome:
        """What ``transaction`` does to the stream, whose row is locked from here on; the newest state where all of it
        is done already. ``plan`` is what it does to ``base``."""
        head = read_head(connection, self._table_id, lock=True)
        state = None if head is None else self._caught_up(connection, base, transaction, head)
        if head is None or state is None:
            return Outdated()
        if state is not base and is_done(state, transaction.change):
            return loaded_at_number(state)
        if state is base and plan is not None:
            return Step(self._table_id, base, plan.after, transaction, head.xid, plan.changed)
        after = applied(state, transaction)
        return after if isinstance(after, Conflict) else Step(self._table_id, state, after, transaction, head.xid)

    def _caught_up(
        self, connection: Connection, base: Manifest, transaction: tx.Transaction, head: StreamHead
    ) -> Manifest | None:
        """The state that ``transaction`` is to follow; None where the caller has to catch up before. So it has where an
        atomic run came meanwhile, which has to be completed before anything follows it."""
        if base.transaction == head.position:
            return checked(base, head)
        if base.settled != head.settled or not isinstance(transaction.change, _FIT_ANY):
            return None
        if head.number - base.transaction.number > _LONGEST_TAIL:
            return None
        tail = read_tail(connection, self._table_id, base, head)
        with _segments_may_be_gone(base):
            return None if tail is None else folded(base, tail, head)
        return None

    def _has(self, connection: Connection, position: Position) -> bool:
        row = connection.execute(_BY_ID, (self._table_id, position.number, position.id)).fetchone()
        return row is not None

    @property
    def _tap_id(self) -> str:
        return self._table_id.rpartition("/")[0]

    def _decision(self, name: str) -> Decision | None:
        return self._session.read(lambda connection: read_decision(connection, self._tap_id, name))

    def _of_stream(self, stream: str, completion: Completion) -> PostgresStore:
        return PostgresStore(
            replace(self._place, stream=stream),
            self._settings,
            table_id=f"{self._tap_id}/{layout.stream_segment(stream)}",
            lake_id=self._lake_id,
            completion=completion,
            snapshots=self._snapshots.settings,
        )

    def _trim_to(self, number: int) -> None:
        def work(connection: Connection) -> WriteResult[None]:
            connection.execute(_TRIM, (self._table_id, number))
            return WriteResult(None, current_xid(connection))

        def proof(connection: Connection) -> bool:
            return connection.execute(_LEFT, (self._table_id, number)).fetchone() is None

        self._session.write(work, proof)

    def _own(self, manifest: Manifest) -> Loaded:
        own = check_own(
            manifest, tap=self._place.tap, stream=self._place.stream, store=self.kind, key=self._place.manifest_key
        )
        return loaded_at_number(in_lake(own, self._lake_id))


@contextmanager
def _segments_may_be_gone(base: Manifest) -> Iterator[None]:
    """A segment of an old state may be collected, and its rows replaced: then the newest state is to be read."""
    try:
        yield
    except CorruptObjectError:
        if not base.files.segments:
            raise
