"""Deleting what tables no longer list (section 14.4 of the format).

A run's files are unlisted until it commits. So before anything unlisted is deleted, the table's state is replaced by
one that differs in its id: a run that began before finds it in its way, and learns from it which files may be gone; no
run that begins later uses a name that was listed before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from singerlake.clock import Clock, IdSource, parse_timestamp, timestamp
from singerlake.errors import SingerlakeError, expected_errors
from singerlake.glance import at_a_glance
from singerlake.storage.port import Entry, Storage
from singerlake.storage.probe import storage_time
from singerlake.tables.derived import catch_up, kept, leave_old_behind
from singerlake.tables.maintain.failure import TableFailure
from singerlake.tables.state.commit import StoredState, commit, load
from singerlake.tables.state.keys import kept_state_key, state_key, table_prefix
from singerlake.tables.state.model import COLLECT, KEPT_RUNS, RetiredFile, TableRun
from singerlake.upkeep.result import NONE, Tally, tally


@dataclass(frozen=True, slots=True)
class TableCollection:
    """What is to be deleted of one table at ``now``: ``unlisted`` objects that were last modified a grace time ago
    (``before``), and ``due`` files of which a collector noted as long ago that they are retired. ``noted`` are those
    for which this is to be noted now. ``young`` are unlisted objects that may be a run's at work, ``waiting`` retired
    files whose time has not come; ``until`` is when that of the first of both comes."""

    table: str
    base: StoredState | None
    now: datetime
    before: datetime
    unlisted: tuple[Entry, ...] = ()
    due: tuple[RetiredFile, ...] = ()
    noted: tuple[RetiredFile, ...] = ()
    young: Tally = NONE
    waiting: Tally = NONE
    until: datetime | None = None

    @property
    def is_nothing(self) -> bool:
        return not (self.unlisted or self.due or self.noted)

    @property
    def bytes(self) -> int:
        """Stored bytes that go."""
        return sum(entry.size for entry in self.unlisted) + sum(file.bytes for file in self.due)


def plan_collection(storage: Storage, table: str, *, now: datetime, grace: timedelta) -> TableCollection:
    """What may be deleted of a table; ``now`` is the storage's clock. Raises as ``load``, and what storage raises."""
    prefix = table_prefix(table)
    base = load(storage, table)
    listing = list(storage.list(prefix))
    if base is None:
        # A run writes a state before any file, so nobody is at work on what lies here without one. That is looked at
        # after the listing: a state that was made meanwhile belongs to a run with other files.
        base = load(storage, table)
        if base is None:
            # A state that was there in between, and gone again, may have another one in its place by now.
            own = state_key(table)
            return TableCollection(table, None, now, now - grace, tuple(entry for entry in listing if entry.key != own))
    state = base.state
    known = {prefix + path for path in state.paths()} | {prefix + file.path for file in state.retired}
    known |= {state_key(table), kept_state_key(table, state.id)}
    held = kept(storage, state, listing, now=now, grace=grace)
    unknown = [entry for entry in listing if entry.key not in known | held]
    before = now - grace
    old = tuple(entry for entry in unknown if entry.last_modified <= before)
    listed = state.paths()
    due = tuple(
        file
        for file in state.retired
        if file.path not in listed and prefix + file.path not in held and _moment(file.shown) <= before
    )
    young = [entry for entry in unknown if entry.last_modified > before]
    waiting = list(set(state.retired).difference(due))
    # A file whose time has come and that is held waits for those who hold it, from now on.
    shown = [_moment(file.shown) for file in waiting if file.shown]
    begun = [entry.last_modified for entry in young] + [now if moment <= before else moment for moment in shown]
    return TableCollection(
        table,
        base,
        now,
        before,
        old,
        due,
        noted=tuple(file for file in state.retired if file.shown is None),
        young=tally(entry.size for entry in young),
        waiting=tally(file.bytes for file in waiting),
        until=None if any(file.shown is None for file in waiting) else _after(begun, grace),
    )


def collect(storage: Storage, plan: TableCollection, *, clock: Clock, ids: IdSource) -> TableCollection | None:
    """Delete what ``plan`` names; gives it back. None where another write came first, so that it has to be planned
    again; then nothing was deleted. Raises what storage raises."""
    prefix = table_prefix(plan.table)
    fenced = None
    if plan.base is not None and not plan.is_nothing:
        state = plan.base.state
        due = {file.path for file in plan.due}
        id, now = ids(), timestamp(clock.now())
        offset = state.sources[0].offset if state.sources else 0
        run = TableRun(id=id, at=now, kind=COLLECT, start=offset, stop=offset, before=timestamp(plan.before))
        shown = timestamp(plan.now)
        fence = replace(
            state,
            id=id,
            number=state.number + 1,
            committed=now,
            retired=tuple(replace(file, shown=file.shown or shown) for file in state.retired if file.path not in due),
            runs=(*state.runs, run)[-KEPT_RUNS:],
        )
        fenced = commit(storage, plan.base, fence)
        if fenced is None:
            return None
    storage.delete_all([entry.key for entry in plan.unlisted] + [prefix + file.path for file in plan.due])
    if fenced is not None:
        catch_up(storage, fenced.state, clock)
    if plan.base is not None:
        leave_old_behind(storage, plan.base.state, plan.before)
    return plan


def collect_table(
    storage: Storage, table: str, *, now: Callable[[], datetime], grace: timedelta, clock: Clock, ids: IdSource
) -> TableCollection:
    """Plan and collect, again where another write came first. Raises what storage raises."""
    base = load(storage, table)
    if base is not None:
        catch_up(storage, base.state, clock)
    while True:
        done = collect(storage, plan_collection(storage, table, now=now(), grace=grace), clock=clock, ids=ids)
        if done is not None:
            return done


@at_a_glance
@dataclass(frozen=True, slots=True)
class TableGc:
    """The objects of a table at ``keys`` that were deleted, or would be. ``young`` are unlisted objects that may be a
    run's at work, ``waiting`` retired files whose time has not come. ``until``: when that of the first of both comes,
    None where none waits, or where a collector has yet to note one."""

    table: str
    keys: tuple[str, ...]
    bytes: int
    young: Tally
    waiting: Tally
    until: datetime | None


@at_a_glance
@dataclass(frozen=True, slots=True)
class GcTablesResult:
    """What was deleted of each table, or with ``dry_run`` would be, and the tables that could not be collected."""

    lake: str
    dry_run: bool
    tables: tuple[TableGc, ...]
    failed: tuple[TableFailure, ...]


def collect_tables(
    storage: Storage, names: Sequence[str], *, grace: timedelta, dry_run: bool, clock: Clock, ids: IdSource
) -> GcTablesResult:
    """Collect each table. One that cannot be collected stops no other."""
    done: list[TableGc] = []
    failed: list[TableFailure] = []
    now = clock.now() if dry_run else storage_time(storage, ids=ids)
    for name in names:
        try:
            with expected_errors(table=name):
                if dry_run:
                    found = plan_collection(storage, name, now=now, grace=grace)
                else:
                    found = collect_table(storage, name, now=lambda: now, grace=grace, clock=clock, ids=ids)
                done.append(_told(found))
        except SingerlakeError as error:
            failed.append(TableFailure(name, error))
    return GcTablesResult(storage.url, dry_run, tuple(done), tuple(failed))


def _told(found: TableCollection) -> TableGc:
    prefix = table_prefix(found.table)
    keys = [entry.key for entry in found.unlisted] + [prefix + file.path for file in found.due]
    return TableGc(found.table, tuple(keys), found.bytes, found.young, found.waiting, found.until)


def _after(begun: Sequence[datetime], grace: timedelta) -> datetime | None:
    try:
        return min(begun) + grace if begun else None
    except OverflowError:
        return None  # What tells no time waits for ever.


def _moment(text: str | None) -> datetime:
    """When a collector first saw a file; what tells no time waits for ever."""
    return parse_timestamp(text or "") or datetime.max.replace(tzinfo=UTC)
