"""What one transaction does to streams: found before their rows are locked, or with them locked, then written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from singerlake.errors import CorruptObjectError
from singerlake.format.decision import Brought, Decision, decision_from_json
from singerlake.format.exact_json import ascii_json
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.format.state.prepared import brought_between
from singerlake.format.state.transactions import Rebase, Transaction
from singerlake.stores.postgres.change import (
    Delta,
    TransactionRow,
    check_rows,
    delta,
    forget_files,
    listed_and_retired,
    record_body,
    whole_delta,
    write_change,
)
from singerlake.stores.postgres.connection import Connection
from singerlake.stores.segments.on_disk import on_disk

_KEEP = "INSERT INTO commits (tap_id, name, body) VALUES (%s, %s, %s)"
_BY_NAME = "SELECT body FROM commits WHERE tap_id = %s AND name = %s"


@dataclass(frozen=True, slots=True)
class Planned:
    """What a transaction does to the state that its author saw."""

    after: Manifest
    changed: Delta


def planned(base: Manifest, transaction: Transaction) -> Planned | None:
    """That, which may read much of a long list from storage, for longer than others should wait for a lock; None where
    it does not fit, or a segment of ``base`` is no longer there. Raises what storage raises."""
    try:
        after = applied(base, transaction)
        return None if isinstance(after, Conflict) else Planned(after, delta(base, after, transaction.change))
    except CorruptObjectError:
        return None


def applied(state: Manifest, transaction: Transaction) -> Manifest | Conflict:
    """The state after ``transaction``, or why it does not fit."""
    after = apply(state, transaction)
    if isinstance(after, Manifest) and isinstance(transaction.change, Rebase):
        both = listed_and_retired(after)
        if both is not None:
            return Conflict(f"the new state lists a file that it calls retired: {both}")
    return after


@dataclass(frozen=True, slots=True)
class Step:
    """From ``before`` to ``after``, in PostgreSQL's transaction ``xid``. ``changed``: the difference, None: to find."""

    table_id: str
    before: Manifest
    after: Manifest
    transaction: Transaction
    xid: str
    changed: Delta | None = None

    def write(self, connection: Connection) -> None:
        """Bring the tables to ``after``. Raises ``CorruptObjectError`` where they did not hold ``before``."""
        changed = self.changed or delta(self.before, self.after, self.transaction.change)
        write_change(connection, self.table_id, self.before, self.after, changed, self._entry)
        if isinstance(self.transaction.change, Rebase):
            # What it has in common with the state before is in no row that changed.
            check_rows(connection, self.table_id, self.after)

    def write_anew(self, connection: Connection) -> None:
        """The same for a whole new state, whatever the tables hold."""
        # The rows may be where its files are read from.
        files = on_disk(self.after.files, "the files of a whole new state")
        forget_files(connection, self.table_id, self.after)
        written = whole_delta(None, msgspec.structs.replace(self.after, files=files))
        write_change(connection, self.table_id, self.before, self.after, written, self._entry)

    @property
    def _entry(self) -> TransactionRow:
        change = self.transaction.change
        kind = str(change.__struct_config__.tag)
        # A process that is behind a whole state reads it from the tables, not once more from here.
        body = None if isinstance(change, Rebase) else record_body(self.before, self.transaction)
        return TransactionRow(self.transaction.id, self.transaction.at, kind, body)


def write_together(
    connection: Connection, tap_id: str, steps: Mapping[str, Step], decide: Callable[[Mapping[str, Brought]], Decision]
) -> Decision:
    """Write what an atomic run does to its streams, by name; gives the decision. Raises as ``Step.write``."""
    streams: dict[str, Brought] = {}
    for stream, step in steps.items():
        step.write(connection)
        brought = brought_between(step.before, step.after)
        if brought is not None:
            streams[stream] = brought
    decision = decide(streams)
    keep_decision(connection, tap_id, decision)
    return decision


def keep_decision(connection: Connection, tap_id: str, decision: Decision) -> None:
    """Add a decision, in a transaction that somebody else began."""
    connection.execute(_KEEP, (tap_id, decision.id, ascii_json(decision)))


def is_kept(connection: Connection, tap_id: str, name: str) -> bool:
    return connection.execute(_BY_NAME, (tap_id, name)).fetchone() is not None


def read_decision(connection: Connection, tap_id: str, name: str) -> Decision | None:
    """The decision about a commit; None: none. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
    row = connection.execute(_BY_NAME, (tap_id, name)).fetchone()
    return None if row is None else decision_from_json(row[0].encode(), key=f"commits/{tap_id}/{name}.json")
