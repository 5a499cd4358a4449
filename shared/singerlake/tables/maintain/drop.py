"""Dropping a table: its state first, so that nobody reads or commits it any more, then all that lay beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from singerlake.errors import SingerlakeError, TooManyConflictsError, UnknownNameError, expected_errors
from singerlake.glance import at_a_glance
from singerlake.storage.port import Entry, Storage
from singerlake.tables.derived import KINDS
from singerlake.tables.maintain.failure import TableFailure
from singerlake.tables.state.commit import StoredState, load_to_replace, tables
from singerlake.tables.state.keys import state_key, table_prefix


@dataclass(frozen=True, slots=True)
class DropPlan:
    """``entries`` are the objects that go besides the state: all of the table's folder, whatever the state names. A run
    that is at work on some of them cannot publish without the state that it began with."""

    table: str
    base: StoredState
    entries: tuple[Entry, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(entry.key for entry in self.entries)

    @property
    def bytes(self) -> int:
        """Stored bytes of these files."""
        return sum(entry.size for entry in self.entries)

    @property
    def rows(self) -> int | None:
        """Rows of the table; None where its state cannot be read."""
        return None if self.base.broken is not None else self.base.state.rows


def plan_drop(storage: Storage, table: str) -> DropPlan:
    """What dropping a table deletes. Raises ``UnknownNameError`` listing the tables, ``UnsupportedFormatError``, and
    what storage raises."""
    base = load_to_replace(storage, table)
    if base is None:
        there = tables(storage)
        if table in there:
            raise UnknownNameError(
                f"table {table!r} has files and no state",
                hint="'singerlake project run' makes it again, 'singerlake project gc --delete' removes the files",
                lake_root=storage.url,
            )
        known = ", ".join(there) or "none yet"
        raise UnknownNameError(f"no table {table!r} in this lake", hint=f"it has: {known}", lake_root=storage.url)
    own = state_key(table)
    entries = [entry for entry in storage.list(table_prefix(table)) if entry.key != own]
    # Engines that read Delta or Iceberg are not to be led to files that are gone.
    entries.sort(key=lambda entry: not entry.key.startswith(tuple(kind.prefix_of(table) for kind in KINDS)))
    return DropPlan(table, base, tuple(entries))


def drop(storage: Storage, plan: DropPlan) -> None:
    """Delete what ``plan`` names. Raises ``TooManyConflictsError`` where the table was written meanwhile; nothing was
    deleted then. Raises what storage raises."""
    if not storage.delete(state_key(plan.table), if_match=plan.base.etag):
        raise TooManyConflictsError("the table was written meanwhile", hint="run again", table=plan.table)
    storage.delete_all(plan.keys)


@at_a_glance
@dataclass(frozen=True, slots=True)
class TableDrop:
    """What goes with a table: its ``rows``, None where its state cannot be read, and the objects at ``keys``."""

    table: str
    rows: int | None
    keys: tuple[str, ...]
    bytes: int


@at_a_glance
@dataclass(frozen=True, slots=True)
class DropTablesResult:
    """The tables that were dropped, or with ``dry_run`` would be, and those that could not be."""

    lake: str
    dry_run: bool
    tables: tuple[TableDrop, ...]
    failed: tuple[TableFailure, ...]


def drop_tables(storage: Storage, names: Sequence[str], *, dry_run: bool) -> DropTablesResult:
    """Drop each table. One that cannot be dropped stops no other."""
    done: list[TableDrop] = []
    failed: list[TableFailure] = []
    for name in names:
        try:
            with expected_errors(table=name):
                plan = plan_drop(storage, name)
                if not dry_run:
                    drop(storage, plan)
                done.append(TableDrop(plan.table, plan.rows, plan.keys, plan.bytes))
        except SingerlakeError as error:
            failed.append(TableFailure(name, error))
    return DropTablesResult(storage.url, dry_run, tuple(done), tuple(failed))
