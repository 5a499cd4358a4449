"""What maintenance did to a stream, noted among its runs, where ``singerlake status`` finds it."""

from __future__ import annotations

import logging
from datetime import datetime

from singerlake.clock import timestamp
from singerlake.errors import SingerlakeError
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import RecordRun
from singerlake.stores.port import Loaded
from singerlake.upkeep.commit_change import submit_change
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.file_count import Tally

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
