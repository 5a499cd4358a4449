"""Deleting what tables no longer list (section 14.4 of the format).

A run's files are unlisted until it commits. So before anything unlisted is deleted, the table's state is replaced by
one that differs in its id: no run that began before can commit any more, and no run that begins later uses a name that
was listed before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from singerlake.clock import Clock, IdSource, parse_timestamp, timestamp
from singerlake.projections.delta.keep import kept
from singerlake.projections.delta.publish import catch_up
from singerlake.projections.state.commit import Found, commit, load
from singerlake.projections.state.keys import state_key, table_prefix
from singerlake.projections.state.model import KEPT_RUNS, RetiredFile, TableRun
from singerlake.storage.port import Entry, Storage


@dataclass(frozen=True, slots=True)
class TableCollection:
    """What is to be deleted of one table: ``unlisted`` objects that were last modified a grace time ago, and ``due``
    files that it has not listed for as long. ``young`` counts unlisted objects that may be a run's at work, ``waiting``
    retired files whose time has not come."""

    table: str
    base: Found | None
    unlisted: tuple[Entry, ...] = ()
    due: tuple[RetiredFile, ...] = ()
    young: int = 0
    waiting: int = 0

    @property
    def is_nothing(self) -> bool:
        return not (self.unlisted or self.due)

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
            return TableCollection(table, None, unlisted=tuple(entry for entry in listing))
    state = base.state
    known = {prefix + path for path in state.paths()} | {prefix + file.path for file in state.retired}
    known.add(state_key(table))
    held = kept(storage, state, listing, now=now, grace=grace)
    unknown = [entry for entry in listing if entry.key not in known | held]
    old = tuple(entry for entry in unknown if entry.last_modified <= now - grace)
    listed = state.paths()
    due = tuple(
        file
        for file in state.retired
        if file.path not in listed and prefix + file.path not in held and _moment(file.at) <= now - grace
    )
    return TableCollection(table, base, old, due, young=len(unknown) - len(old), waiting=len(state.retired) - len(due))


def collect(storage: Storage, plan: TableCollection, *, clock: Clock, ids: IdSource) -> TableCollection | None:
    """Delete what ``plan`` names; gives it back. None where another write came first, so that it has to be planned
    again; then nothing was deleted. Raises what storage raises."""
    if plan.is_nothing:
        return plan
    prefix = table_prefix(plan.table)
    fenced = None
    if plan.base is not None:
        state = plan.base.state
        due = {file.path for file in plan.due}
        id, now = ids(), timestamp(clock.now())
        offset = state.sources[0].offset if state.sources else 0
        run = TableRun(id=id, at=now, kind="collect", start=offset, stop=offset)
        fence = replace(
            state,
            id=id,
            number=state.number + 1,
            committed=now,
            retired=tuple(file for file in state.retired if file.path not in due),
            runs=(*state.runs, run)[-KEPT_RUNS:],
        )
        fenced = commit(storage, plan.base, fence)
        if fenced is None:
            return None
    storage.delete_all([entry.key for entry in plan.unlisted] + [prefix + file.path for file in plan.due])
    if fenced is not None:
        catch_up(storage, fenced.state, clock)
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


def _moment(text: str) -> datetime:
    """When a file was retired; what tells no time waits for ever."""
    return parse_timestamp(text) or datetime.max.replace(tzinfo=UTC)
