"""Dropping a table: its state first, so that nobody reads or commits it any more, then the files that it names."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.errors import TooManyConflictsError, UnknownNameError
from singerlake.projections.delta.log import log_prefix
from singerlake.projections.state.commit import Found, load, tables
from singerlake.projections.state.keys import state_key, table_prefix
from singerlake.storage.port import Storage


@dataclass(frozen=True, slots=True)
class DropPlan:
    """``keys`` are the objects that go besides the state; what the state does not name is left to the collector."""

    table: str
    base: Found
    keys: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Stored bytes of these files."""
        state = self.base.state
        sides = sum(side.bytes for file in state.files for side in file.sides)
        return state.bytes + sides + sum(file.bytes for file in state.retired)


def plan_drop(storage: Storage, table: str) -> DropPlan:
    """What dropping a table deletes. Raises ``UnknownNameError`` listing the tables, and as ``load``."""
    base = load(storage, table)
    if base is None:
        known = ", ".join(tables(storage)) or "none yet"
        raise UnknownNameError(f"no table {table!r} in this lake", hint=f"it has: {known}", lake_root=storage.url)
    paths = base.state.paths() | {file.path for file in base.state.retired}
    prefix = table_prefix(table)
    # The log first: engines that read it are not to be led to files that are gone.
    log = [entry.key for entry in storage.list(log_prefix(table))]
    return DropPlan(table, base, (*log, *sorted(prefix + path for path in paths)))


def drop(storage: Storage, plan: DropPlan) -> None:
    """Delete what ``plan`` names. Raises ``TooManyConflictsError`` where the table was written meanwhile; nothing was
    deleted then. Raises what storage raises."""
    if not storage.delete(state_key(plan.table), if_match=plan.base.etag):
        raise TooManyConflictsError("the table was written meanwhile", hint="run again", table=plan.table)
    storage.delete_all(list(plan.keys))
