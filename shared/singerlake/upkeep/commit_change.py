"""A change of maintenance put through a stream's manifest store, as a writer would."""

from __future__ import annotations

from datetime import datetime

from singerlake.clock import timestamp
from singerlake.format.state.additions import Conflict
from singerlake.format.state.transactions import Change, Transaction
from singerlake.stores.commit import await_settled, commit_transaction
from singerlake.stores.port import Loaded, Pending
from singerlake.upkeep.context import StreamContext


def commit_change(
    context: StreamContext, base: Loaded, change: Change, *, who: str, at: datetime | None = None
) -> Loaded | Conflict:
    """The state with ``change`` in it, settled, or why it does not fit. ``who`` takes the stream's lock where a store
    needs one; ``at`` is the time of the transaction, the clock's unless it is given. Raises as ``commit_transaction``
    and ``await_settled``."""
    outcome = submit_change(context, base, change, who=who, at=at)
    return await_settled(context.store, base, outcome, clock=context.clock) if isinstance(outcome, Pending) else outcome


def submit_change(
    context: StreamContext, base: Loaded, change: Change, *, who: str, at: datetime | None = None
) -> Loaded | Conflict | Pending:
    """As ``commit_change``, but for a receipt where the store settles later, unless others have to be kept away until
    then."""
    store, clock = context.store, context.clock
    transaction = Transaction(id=context.ids(), at=timestamp(at or clock.now()), change=change)
    with context.alone(who, store):
        outcome = commit_transaction(store, base, transaction, clock=clock)
        if isinstance(outcome, Pending) and store.exclusive:
            return await_settled(store, base, outcome, clock=clock)
        return outcome
