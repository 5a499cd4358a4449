"""What one transaction does to one stream or to several, found with their rows locked, then written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singerlake.format.decision import Brought, Decision
from singerlake.format.state.model import Manifest
from singerlake.format.state.prepared import brought_between
from singerlake.format.state.transactions import Rebase, Transaction
from singerlake.manifests.postgres.change import TransactionRow, delta, record_body, write_change
from singerlake.manifests.postgres.commits import keep_decision

if TYPE_CHECKING:
    from singerlake.manifests.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class Step:
    """From the state ``before`` to the one ``after`` a transaction. ``xid`` is PostgreSQL's number of its own
    transaction, as text."""

    table_id: str
    before: Manifest
    after: Manifest
    transaction: Transaction
    xid: str

    def write(self, connection: Connection) -> None:
        """Bring the tables to the state ``after``. Raises ``CorruptObjectError`` where they did not hold the one
        before."""
        changed = delta(self.before, self.after, self.transaction.change)
        write_change(connection, self.table_id, self.before, self.after, changed, self._entry)

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
    """Write what an atomic run does to its streams, by their names, and the decision about it, which is given back.
    Raises as ``Step.write``."""
    streams: dict[str, Brought] = {}
    for stream, step in steps.items():
        step.write(connection)
        brought = brought_between(step.before, step.after)
        if brought is not None:
            streams[stream] = brought
    decision = decide(streams)
    keep_decision(connection, tap_id, decision)
    return decision
