"""What maintenance did to a stream, noted among its runs, where ``singerlake status`` finds it."""

from __future__ import annotations

import logging
from datetime import datetime

from singerlake.clock import Clock, IdSource, timestamp
from singerlake.errors import SingerlakeError
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import RecordRun
from singerlake.maintenance.commit_change import commit_change, submit_change
from singerlake.maintenance.tally import Tally
from singerlake.manifests.port import Loaded, ManifestStore
from singerlake.storage.port import Storage

logger = logging.getLogger(__name__)


def record_run(
    storage: Storage,
    store: ManifestStore,
    kind: str,
    changed: Tally,
    *,
    started: datetime,
    clock: Clock,
    ids: IdSource,
    wait: bool = True,
) -> None:
    """Commit that a run of ``kind`` which began at ``started`` has ended and ``changed`` so much. ``wait``: until it
    can be seen, where a store settles later; otherwise it is seen from the next commit on. What the run did is done:
    that it could not be noted is a warning, and no error."""
    id = ids()
    writer = f"singerlake {kind} {id}"
    run = Run(
        id=id,
        writer=writer,
        started=timestamp(started),
        updated=timestamp(clock.now()),
        status="finished",
        files=changed.files,
        bytes=changed.bytes,
        kind=kind,
    )
    try:
        loaded = store.load()
        if loaded is None or loaded.manifest.closed is not None:
            return
        commit = commit_change if wait else submit_change
        outcome = commit(storage, store, loaded, RecordRun(run=run), who=f"singerlake {kind}", clock=clock, ids=ids)
        if isinstance(outcome, Loaded):
            store.publish(outcome, run_ended=True)
    except SingerlakeError as error:
        logger.warning("the run of %r is done and could not be noted: %s", kind, error)
