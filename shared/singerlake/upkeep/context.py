"""What all upkeep works with: a stream, a lake, and changes put through a manifest store, as a writer would."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from singerlake.clock import timestamp
from singerlake.errors import LostStateError, SingerlakeError, TooManyConflictsError
from singerlake.format import layout
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import Change, RecordRun, Transaction
from singerlake.storage.port import Entry, Storage
from singerlake.stores.commit import Commit, newer, submit_transaction
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.stores.publish import stream_closed
from singerlake.stores.segments.stored import read_manifest
from singerlake.upkeep.result import Tally

if TYPE_CHECKING:
    from singerlake.lake import Lake


@dataclass(frozen=True, slots=True)
class StreamContext(StreamPlace):
    """One stream, with the manifest store that keeps its state."""

    store: ManifestStore

    def load(self) -> Loaded | None:
        """The stream's state; None where it has neither a state nor a data file. Raises ``LostStateError`` where it has
        data files alone, ``StreamClosedError`` where the stream is still being moved to this store, and what the
        store raises."""
        loaded = self.store.load()
        if loaded is not None or next(data_files(self.storage, self.tap, self.stream), None) is None:
            return loaded
        coming = self._is_coming()
        # The stream may have been born, or may have come, between the two looks.
        loaded = self.store.load()
        if loaded is None and coming:
            raise stream_closed(self.tap, self.stream, self.store.kind)
        if loaded is None:
            raise LostStateError(
                "the stream has data files and no state",
                hint="run 'singerlake rebuild' first",
                tap=self.tap,
                stream=self.stream,
            )
        return loaded

    def load_open(self) -> Loaded | None:
        """The same of a stream that this store still keeps: raises ``StreamClosedError`` where it was moved, too."""
        loaded = self.load()
        if loaded is not None and loaded.manifest.closed is not None:
            raise stream_closed(self.tap, self.stream, loaded.manifest.closed)
        return loaded

    def overtaken(self, message: str, hint: str) -> TooManyConflictsError:
        """The error where others kept changing the stream."""
        return TooManyConflictsError(message, hint=hint, tap=self.tap, stream=self.stream)

    def _is_coming(self) -> bool:
        """Whether a migration to this store has begun: ``manifest.json`` has the state that the other store closed."""
        stored = self.storage.get(self.manifest_key)
        if stored is None:
            return False
        return read_manifest(stored.body, key=self.manifest_key, storage=self.storage).closed == self.store.kind


LakeContext: TypeAlias = "Lake"
"""What upkeep of many streams works with."""


def lake_id_for(lake: LakeContext, dry_run: bool) -> str:
    """The lake's id; what a dry run gives where there is none yet is not a lake's."""
    return lake.known_lake_id() or lake.ids() if dry_run else lake.lake_id()


def data_files(storage: Storage, tap: str, stream: str) -> Iterator[Entry]:
    """Every object that lies where the data files of a stream lie, one after the other, as they are listed."""
    prefix = layout.stream_prefix(tap, stream)
    return (entry for entry in storage.list(prefix) if layout.is_data_file(entry.key[len(prefix) :]))


def stream_objects(storage: Storage, tap: str, stream: str, *, start_after: str = "") -> Iterator[Entry]:
    """Those, and the kept schemas: all that a stream can be made from, of it what lies behind ``start_after``."""
    prefix = layout.stream_prefix(tap, stream)
    for entry in storage.list(prefix, start_after=start_after):
        path = entry.key[len(prefix) :]
        if layout.is_data_file(path) or layout.is_kept_schema(path):
            yield entry


Made = TypeVar("Made")


def commit_change(
    context: StreamContext, base: Loaded, change: Change, *, who: str, at: datetime | None = None
) -> Loaded | Conflict:
    """The state with ``change`` in it, settled, or why it does not fit. ``who`` takes the stream's lock where a store
    needs one; ``at`` is the time of the transaction, the clock's unless it is given. Raises ``StreamClosedError`` where
    the stream was moved meanwhile, and as ``commit_transaction``."""
    outcome = submit_change(context, base, change, who=who, at=at).wait(base)
    if isinstance(outcome, Conflict) and outcome.successor is not None:
        raise stream_closed(context.tap, context.stream, outcome.successor)
    return outcome


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
        """Commit ``change``; ``settled`` gives back ``made`` with its outcome. Raises as ``submit_transaction``."""
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
