"""Changes of maintenance put through a stream's manifest store, as a writer would, and the note that it was at work."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Generic, TypeVar

from singerlake.clock import timestamp
from singerlake.errors import SingerlakeError
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import Change, RecordRun, Transaction
from singerlake.stores.commit import Commit, newer, submit_transaction
from singerlake.stores.history import stream_closed
from singerlake.stores.port import Loaded
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.result import Tally

Made = TypeVar("Made")


def commit_change(
    context: StreamContext, base: Loaded, change: Change, *, who: str, at: datetime | None = None
) -> Loaded | Conflict:
    """The state with ``change`` in it, settled, or why it does not fit. ``who`` takes the stream's lock where a store
    needs one; ``at`` is the time of the transaction, the clock's unless it is given. Raises as
    ``commit_transaction``."""
    return submit_change(context, base, change, who=who, at=at).wait(base)


def submit_change(
    context: StreamContext, base: Loaded, change: Change, *, who: str, at: datetime | None = None
) -> Commit:
    """As ``commit_change``, without waiting where the store settles later. Raises as ``submit_transaction``."""
    store, clock = context.store, context.clock
    transaction = Transaction(id=context.ids(), at=timestamp(at or clock.now()), change=change)
    with context.alone(who, store):
        return submit_transaction(store, base, transaction, clock=clock)


class Commits(Generic[Made]):
    """What one run of maintenance commits to a stream, change after change: nothing else waits for those that the store
    settles later. ``loaded`` is the newest known state."""

    def __init__(self, context: StreamContext, loaded: Loaded, *, who: str) -> None:
        self.loaded = loaded
        self._context = context
        self._who = who
        self._waiting: deque[tuple[Made, Commit]] = deque()

    def submit(self, made: Made, change: Change) -> Commit:
        """Commit ``change``; ``made`` is what ``settled`` gives back with its outcome. Raises as
        ``submit_transaction``."""
        commit = submit_change(self._context, self.loaded, change, who=self._who)
        self._waiting.append((made, commit))
        return commit

    def settled(self, *, wait: bool) -> Iterator[tuple[Made, Loaded | Conflict]]:
        """What is settled by now, with ``wait`` all of it, in the order of the commits. Raises ``StreamClosedError``
        where the stream was moved meanwhile, and as ``Commit.wait``."""
        while self._waiting:
            made, commit = self._waiting[0]
            outcome = commit.wait(self.loaded) if wait else commit.look(self.loaded)
            if outcome is None:
                return
            self._waiting.popleft()
            if isinstance(outcome, Loaded):
                self.loaded = newer(outcome, self.loaded)
            elif outcome.successor is not None:
                raise stream_closed(self._context.tap, self._context.stream, outcome.successor)
            yield made, outcome

    def catch_up(self) -> None:
        """Have ``loaded`` be the newest state there is. Raises what the store raises."""
        self.loaded = self._context.store.catch_up(self.loaded) or self.loaded


logger = logging.getLogger(__name__)


def record_run(
    context: StreamContext, kind: str, changed: Tally, *, started: datetime, records: int = 0, wait: bool = True
) -> None:
    """Commit that a run of ``kind`` which began at ``started`` has ended and ``changed`` so much. ``records`` are those
    that it erased. ``wait``: until it
    can be seen, where a store settles later; otherwise it is seen from the next commit on. What the run did is done:
    that it could not be noted is a warning, and no error."""
    id = context.ids()
    writer = f"singerlake {kind} {id}"
    run = Run(
        id=id,
        writer=writer,
        started=timestamp(started),
        updated=timestamp(context.clock.now()),
        status="finished",
        files=changed.files,
        bytes=changed.bytes,
        records=records,
        kind=kind,
    )
    try:
        loaded = context.store.load()
        if loaded is None or loaded.manifest.closed is not None:
            return
        commit = submit_change(context, loaded, RecordRun(run=run), who=f"singerlake {kind}")
        outcome = commit.wait(loaded) if wait else commit.outcome
        if isinstance(outcome, Loaded):
            context.store.publish(outcome, run_ended=True)
    except SingerlakeError as error:
        logger.warning("the run of %r succeeded, but could not be recorded: %s", kind, error)
