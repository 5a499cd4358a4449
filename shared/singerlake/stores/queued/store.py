"""A manifest store whose commits go by way of a queue, which is a hint: the store is the truth. A writer takes a
transaction for committed only once the store's own state shows its files. So a message may be lost, come twice or late,
and a writer whose patience ends commits by itself, though a committer may do the same at that moment."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec

from singerlake.clock import Clock, timestamp
from singerlake.errors import SettingError, SingerlakeError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.transactions import AddFiles, Transaction
from singerlake.stores.commit import Commit, is_done, state_lost, submit_transaction
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore, Outdated, Pending
from singerlake.stores.queued.message import (
    FORMAT,
    LARGEST,
    CommitMessage,
    Queue,
    group_of,
    is_refused,
    put_body,
    remove_objects,
    to_text,
)
from singerlake.stores.queued.settings import PATIENCE, URL, QueueSettings

_LOOK_EVERY = 1.0
"""Seconds between two looks for a refusal."""

logger = logging.getLogger(__name__)

_SILENT_FOR = 10.0
"""How many patiences a queue is left alone from which nobody took a message in time."""


class Sender:
    """For writers of any thread."""

    def __init__(self, queue: Queue, settings: QueueSettings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self._queue = queue
        self._direct_until: float | None = None

    @property
    def name(self) -> str:
        """What the log calls the queue."""
        return self._queue.name

    @property
    def is_trusted(self) -> bool:
        """Whether to send anything now."""
        return self._direct_until is None or self.clock.monotonic() >= self._direct_until

    def send(self, body: str, *, group: str, deduplication: str) -> bool:
        """Send a message; False where that failed, so that its writer had better not wait for it."""
        try:
            self._queue.send(body, group=group, deduplication=deduplication)
        except SingerlakeError as error:
            self._leave_alone(
                self.settings.patience_seconds,
                "the queue took no message (%s); committing without it for %.0f s: %s",
                self.name,
                self.settings.patience_seconds,
                error,
            )
            return False
        return True

    def silent(self, id: str) -> None:
        """A message was not committed in time."""
        seconds = self.settings.patience_seconds * _SILENT_FOR
        self._leave_alone(
            seconds,
            "transaction %s was not committed within %s=%d; committing without the queue for %.0f s: does "
            "'singerlake commit-worker' run for %s=%s?",
            id,
            PATIENCE,
            self.settings.patience_seconds,
            seconds,
            URL,
            self.name,
        )

    def _leave_alone(self, seconds: float, message: str, *arguments: object) -> None:
        if self.is_trusted:
            self._direct_until = self.clock.monotonic() + seconds
            logger.warning(message, *arguments)


@dataclass
class _Waiting:
    """A transaction whose place is not known. ``commit`` is what the store itself has of it, ``given_up`` is when the
    patience with the queue ends; neither: it was never sent, and waits for what came before it."""

    transaction: Transaction
    given_up: float | None = None
    look_again: float = 0.0
    commit: Commit | None = None
    body: bool = False
    refused: bool = False

    @property
    def last_file(self) -> str | None:
        change = self.transaction.change
        return change.files[-1].id if isinstance(change, AddFiles) and change.files else None


class QueuedStore:
    """``inner`` with new files sent to a queue. Transactions of one object take effect in the order in which they were
    committed here, however each of them gets to the store. ``lake_id`` and ``table_id`` tell the stream from others.
    """

    def __init__(self, inner: ManifestStore, place: StreamPlace, sender: Sender, *, lake_id: str) -> None:
        self.kind = inner.kind
        self.segments = inner.segments
        self.load = inner.load
        self.create = inner.create
        self.catch_up = inner.catch_up
        self.publish = inner.publish
        self.other_lakes = inner.other_lakes
        self.trim = inner.trim
        # A committer takes the locks around its own commit, and nothing may rest on them.
        self.abilities = replace(
            inner.abilities, settles=True, locks=False, prepares=False, together=False, most_together=None
        )
        self._inner = inner
        self._place = place
        self._sender = sender
        self._lake_id = lake_id
        self._group = self._group_in(sender.settings.groups)
        self._waiting: dict[str, _Waiting] = {}
        self._outcomes: dict[str, Loaded | Conflict] = {}

    @property
    def exclusive(self) -> bool:
        """False. Raises ``SettingError`` where a commit can be lost to another writer's: a committer would be one."""
        if self._inner.exclusive:
            raise SettingError(
                f"{URL} is set, and this storage ignores conditional writes, so that only one writer may run",
                hint=f"leave {URL} unset, or use another storage",
                lake_root=self._place.storage.url,
            )
        return False

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict | Pending:
        """Send new files, and let everything else wait for them. What waits for nothing goes to the store itself."""
        for_queue = self._is_for_queue(base, transaction)
        if for_queue and not self._waiting and isinstance(refused := apply(base.manifest, transaction), Conflict):
            return refused
        waiting = _Waiting(transaction)
        if for_queue:
            self._send(waiting)
        # What the store itself gave a receipt for stays before what is committed there now.
        first = all(each.commit is not None for each in self._waiting.values())
        if waiting.given_up is None and first:
            outcome = self._inner.commit(base, transaction)
            if not isinstance(outcome, Pending):
                return outcome
            waiting.commit = Commit(self._inner, self._sender.clock, pending=outcome)
        self._waiting[transaction.id] = waiting
        return Pending(transaction.id, self._sender.name)

    def settle(self, base: Loaded, pending: Pending) -> Loaded | Conflict | None:
        """In the order of the commits, by itself where no committer did in time. Raises as ``submit_transaction``."""
        state = base
        while pending.id not in self._outcomes and self._waiting:
            first = next(iter(self._waiting.values()))
            outcome = self._settled(state, first)
            if outcome is None:
                return None
            del self._waiting[first.transaction.id]
            self._outcomes[first.transaction.id] = outcome
            self._clean(first)
            if isinstance(outcome, Loaded):
                state = outcome
        if pending.id not in self._outcomes:
            raise UnknownOutcomeError(
                "a transaction waits that this writer did not send", hint="run again; nothing is lost", key=pending.key
            )
        return self._outcomes.pop(pending.id)

    def _is_for_queue(self, base: Loaded, transaction: Transaction) -> bool:
        change = transaction.change
        undecided = base.manifest.prepared is not msgspec.UNSET
        files = isinstance(change, AddFiles) and bool(change.files)
        return files and not undecided and self._sender.is_trusted and layout.is_queued_id(transaction.id)

    def _send(self, waiting: _Waiting) -> None:
        """Send a transaction; one that could not be is left as it is."""
        clock, tap, stream = self._sender.clock, self._place.tap, self._place.stream
        patience = self._sender.settings.patience_seconds
        transaction = waiting.transaction
        message = CommitMessage(
            format=FORMAT,
            lake_id=self._lake_id,
            tap=tap,
            stream=stream,
            store=self.kind,
            id=transaction.id,
            until=timestamp(clock.now() + timedelta(seconds=patience)),
            behind=self._last_file(),
            transaction=transaction,
        )
        text = to_text(message)
        if len(text) > LARGEST:
            digest = put_body(self._place.storage, tap, stream, transaction)
            waiting.body = True
            text = to_text(msgspec.structs.replace(message, transaction=None, sha256=digest))
        given_up = clock.monotonic() + patience
        if self._sender.send(text, group=self._group, deduplication=transaction.id):
            waiting.given_up, waiting.look_again = given_up, clock.monotonic() + _LOOK_EVERY

    def _last_file(self) -> str | None:
        """The file that the next transaction has to come behind: the last one that is on its way."""
        files = [each.last_file for each in self._waiting.values()]
        return next((file for file in reversed(files) if file is not None), None)

    def _settled(self, base: Loaded, waiting: _Waiting) -> Loaded | Conflict | None:
        """What became of the first transaction that waits; None: not known yet."""
        if waiting.commit is not None:
            return waiting.commit.look(base)
        state = base
        if waiting.given_up is not None:
            fresh = self._inner.catch_up(base)
            if fresh is None:
                raise state_lost("a transaction was in a queue", tap=self._place.tap, stream=self._place.stream)
            state = fresh
            if is_done(state.manifest, waiting.transaction.change):
                return state
            if state.manifest.closed is None and not self._is_given_up(waiting):
                return None
        waiting.commit = submit_transaction(self._inner, state, waiting.transaction, clock=self._sender.clock)
        return waiting.commit.outcome

    def _is_given_up(self, waiting: _Waiting) -> bool:
        """Whether no committer will take a transaction, as far as can be told."""
        now = self._sender.clock.monotonic()
        assert waiting.given_up is not None
        if now >= waiting.given_up:
            self._sender.silent(waiting.transaction.id)
            return True
        if now < waiting.look_again:
            return False
        waiting.look_again = now + _LOOK_EVERY
        place = self._place
        waiting.refused = is_refused(place.storage, place.tap, place.stream, waiting.transaction.id)
        return waiting.refused

    def _clean(self, settled: _Waiting) -> None:
        place, id = self._place, settled.transaction.id
        remove_objects(place.storage, place.tap, place.stream, id, body=settled.body, refusal=settled.refused)

    def _group_in(self, shares: int) -> str:
        """One group a stream, since its transactions exclude each other, but in a store that takes several at once."""
        place = self._place
        table_id = f"{self._lake_id}/{layout.tap_segment(place.tap)}/{layout.stream_segment(place.stream)}"
        if self.kind != "postgres":
            return group_of(table_id, None)
        # The same for all of this object's, since groups keep the order.
        own = int.from_bytes(hashlib.sha256(place.ids().encode()).digest()[:4], "big")
        return group_of(table_id, own % shares)
