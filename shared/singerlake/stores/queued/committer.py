"""Messages of a queue, committed: the core of every committer.

A message is done only behind the commit of its transaction, or where it is dropped. All others come again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from singerlake.clock import Backoff, Clock, IdSource, timestamp
from singerlake.errors import InputError, SingerlakeError, TooManyConflictsError, UnknownOutcomeError
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import AddTogether, Transaction
from singerlake.humanize import shown
from singerlake.lock_file import LockSettings
from singerlake.storage.port import Storage
from singerlake.stores.commit import ATTEMPTS, between_tries, caught_up, commit_once, is_done, newer, submit_transaction
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore, Outdated
from singerlake.stores.queued.message import (
    CommitMessage,
    Dropped,
    Queue,
    Received,
    Wanted,
    get_body,
    read_message,
    refuse,
    wanted,
)

logger = logging.getLogger(__name__)

STREAMS = 64
"""States of streams that are kept at hand."""
PUBLISH_EVERY = 60.0
"""Seconds between two looks whether ``manifest.json`` of a stream is due."""
_KEPT_SECONDS = 600.0
"""How long a state is followed before it is loaded anew, should somebody have put another one in its place."""
_LOCK = LockSettings(max_wait=10.0)
"""Short, since writers stop waiting: their own commit needs no lock."""

MOST = 10
"""Messages that a queue gives at once."""
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0


@dataclass(eq=False)
class _Stream:
    """A stream's store, and the newest state that was seen of it."""

    tap: str
    name: str
    store: ManifestStore
    base: Loaded
    opened: float
    looked: float


@dataclass
class _Batch:
    """What is wanted of one stream, and the messages that want it. ``ids`` are those of transactions."""

    wanted: list[Wanted] = field(default_factory=list)
    messages: list[Received] = field(default_factory=list)


@dataclass
class Committer:
    """Commits messages for one lake. Threads may share one, and with it the states of streams: a queue gives the
    messages of a group to one of them at a time, and mostly to another one than before.

    ``open_store`` gives the manifest store that keeps a stream; None where the stream is not there.
    """

    lake_id: str
    storage: Storage
    open_store: Callable[[str, str], ManifestStore | None]
    name: str
    clock: Clock
    ids: IdSource
    streams: int = STREAMS
    _idle: list[_Stream] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, messages: Sequence[Received]) -> list[Received]:
        """Commit what can be; gives the messages that are done with. The others are to be given out again."""
        done: list[Received] = []
        batches: dict[tuple[str, str, str], _Batch] = {}
        for message in messages:
            try:
                read = self._read(message)
            except SingerlakeError as error:
                logger.warning("message %s waits: %s", message.id, error)
                continue
            if isinstance(read, Dropped):
                logger.warning("message %s is dropped: %s", message.id, shown(read.reason))
                done.append(message)
                continue
            head, transaction = read
            batch = batches.setdefault((head.tap, head.stream, head.store), _Batch())
            batch.messages.append(message)
            batch.wanted.append(transaction)
        for (tap, stream, kind), batch in batches.items():
            done += self._commit(tap, stream, kind, batch)
        return done

    def _read(self, message: Received) -> tuple[CommitMessage, Wanted] | Dropped:
        head = read_message(message.body, self.lake_id)
        if isinstance(head, Dropped):
            return head
        transaction = head.transaction or get_body(self.storage, head)
        read = transaction if isinstance(transaction, Dropped) else wanted(head, transaction)
        if isinstance(read, Dropped):
            # A writer of this version may have sent it, and need not wait.
            self._refuse(head.tap, head.stream, head.id, read.reason)
            return read
        return head, read

    def _commit(self, tap: str, stream: str, kind: str, batch: _Batch) -> list[Received]:
        """Commit to one stream; gives the messages that are done with."""
        try:
            there = self._taken(tap, stream, kind) or self._opened(tap, stream, kind)
            if isinstance(there, Dropped):
                for message, each in zip(batch.messages, batch.wanted, strict=True):
                    logger.warning("message %s is dropped: %s", message.id, shown(there.reason))
                    self._refuse(tap, stream, each.transaction.id, there.reason)
                return batch.messages
            with self._locked(there, batch.wanted):
                committed = commit_parts(there.store, there.base, batch.wanted, clock=self.clock, ids=self.ids)
        except SingerlakeError as error:
            # What was at hand may be what is wrong, so that it is not kept.
            ids = ", ".join(message.id for message in batch.messages)
            logger.warning("messages %s of %s/%s must wait: %s", ids, shown(tap), shown(stream), error)
            return []
        there.base = committed.base
        self._tell(there, batch, committed)
        if there.base.manifest.closed is None:
            self._give_back(there)
        return batch.messages

    def publish(self) -> None:
        """Bring ``manifest.json`` up where that is due, behind the commits."""
        now = self.clock.monotonic()
        with self._lock:
            due = [there for there in self._idle if now - there.looked >= PUBLISH_EVERY]
            self._idle = [there for there in self._idle if now - there.looked < PUBLISH_EVERY]
        for there in due:
            there.looked = now
            try:
                there.store.publish(there.base)
            except SingerlakeError as error:
                logger.warning("%s/%s is not published: %s", shown(there.tap), shown(there.name), error)
            else:
                self._give_back(there)

    def _tell(self, there: _Stream, batch: _Batch, committed: Committed) -> None:
        for message, each in zip(batch.messages, batch.wanted, strict=True):
            id = each.transaction.id
            if id in committed.late:
                logger.warning("message %s is dropped: its writer waits no longer", message.id)
            elif id in committed.refused:
                reason = committed.refused[id]
                logger.warning("message %s is refused: %s", message.id, shown(reason))
                self._refuse(there.tap, there.name, id, reason)
        logger.debug("%s/%s: %d transactions at once", shown(there.tap), shown(there.name), len(committed.parts))

    def _refuse(self, tap: str, stream: str, id: str, reason: str) -> None:
        try:
            refuse(self.storage, tap, stream, id, reason)
        except SingerlakeError as error:
            # Its writer then waits to the end of its patience.
            logger.warning("transaction %s: its writer cannot be answered: %s", id, error)

    def _taken(self, tap: str, stream: str, kind: str) -> _Stream | None:
        """A stream that is at hand, for one thread alone."""
        begun = self.clock.monotonic() - _KEPT_SECONDS
        with self._lock:
            for there in reversed(self._idle):
                if (there.tap, there.name, there.store.kind) == (tap, stream, kind) and there.opened > begun:
                    self._idle.remove(there)
                    return there
        return None

    def _give_back(self, there: _Stream) -> None:
        with self._lock:
            self._idle.append(there)
            del self._idle[: max(0, len(self._idle) - self.streams)]

    def _opened(self, tap: str, stream: str, kind: str) -> _Stream | Dropped:
        store = self.open_store(tap, stream)
        if store is None:
            return Dropped("there is no such stream")
        if store.kind != kind:
            return Dropped(f"the stream is kept by the store {store.kind}")
        if store.exclusive:
            return Dropped("this storage ignores conditional writes, so that only one writer may run")
        base = store.load()
        now = self.clock.monotonic()
        return Dropped("the stream has no state") if base is None else _Stream(tap, stream, store, base, now, now)

    @contextmanager
    def _locked(self, there: _Stream, parts: Sequence[Wanted]) -> Iterator[None]:
        """The locks that the stream's writers take, where its store has such."""
        versions = {file.version for part in parts for file in part.change.files}
        place = StreamPlace(self.storage, there.tap, there.name, self.clock, self.ids)
        with ExitStack() as held:
            for lock in place.locks(self.name, versions, settings=_LOCK) if there.store.abilities.locks else ():
                held.enter_context(lock.held())
            yield


@dataclass
class Committed:
    """What becomes of transactions: ``base`` holds all but those ``refused`` (why, by id) or too ``late``. ``parts``
    are those that it took, or takes, one after the other; before ``undecided`` another run has to be decided."""

    base: Loaded
    parts: list[Wanted] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    undecided: Wanted | None = None


def commit_parts(
    store: ManifestStore, base: Loaded, wanted: Sequence[Wanted], *, clock: Clock, ids: IdSource
) -> Committed:
    """Commit transactions in their order, all that fit in one; one after the other in a store that settles commits
    later. What is in the state is left out. A refusal counts only with the newest state. Raises
    ``TooManyConflictsError``, ``UnknownOutcomeError``, and what the store raises; doing it all again is harmless."""
    backoff, unknown = between_tries(clock), None
    fresh = False
    for _ in range(ATTEMPTS):
        done = _fitting(base, wanted, clock)
        outcome: Loaded | Outdated | Conflict | None = None
        if done.refused and not fresh and done.undecided is None:
            pass
        elif done.undecided is not None:
            # Waits until that is decided, or decides it.
            store.commit(base, done.undecided.transaction)
        elif not done.parts:
            return done
        elif store.abilities.settles:
            return _one_by_one(store, done, clock)
        else:
            try:
                outcome = _committed(store, base, done.parts, clock, ids)
            except UnknownOutcomeError as error:
                unknown = error
            if isinstance(outcome, Loaded):
                done.base = outcome
                return done
            backoff.wait()
        base, fresh = caught_up(store, base, unknown), True
    raise unknown or TooManyConflictsError(
        f"other writers came first {ATTEMPTS} times in a row", hint="run fewer writers without the queue"
    )


def _committed(
    store: ManifestStore, base: Loaded, parts: Sequence[Wanted], clock: Clock, ids: IdSource
) -> Loaded | Outdated | Conflict:
    """One transaction of all parts. One alone goes as it came, so that older readers read it."""
    transaction = parts[0].transaction
    if len(parts) > 1:
        change = AddTogether(parts=tuple(part.change for part in parts))
        transaction = Transaction(id=ids(), at=timestamp(clock.now()), change=change)
    return commit_once(store, base, transaction, clock=clock)


def _one_by_one(store: ManifestStore, done: Committed, clock: Clock) -> Committed:
    commits = [submit_transaction(store, done.base, part.transaction, clock=clock) for part in done.parts]
    for part, commit in zip(done.parts, commits, strict=True):
        outcome = commit.wait(done.base)
        if isinstance(outcome, Conflict):
            done.refused[part.transaction.id] = outcome.reason
        else:
            done.base = newer(outcome, done.base)
    return done


def _fitting(base: Loaded, wanted: Sequence[Wanted], clock: Clock) -> Committed:
    state, fitting, now = base.manifest, Committed(base), clock.now()
    for each in wanted:
        id = each.transaction.id
        if is_done(state, each.change):
            continue
        if each.until <= now:
            fitting.late.add(id)
        elif each.behind is not None and not _is_there(state, each.behind):
            fitting.refused[id] = "what its writer sent before it is not in the stream"
        else:
            after = _applied(state, each)
            if isinstance(after, Manifest):
                state = after
                fitting.parts.append(each)
            elif after.undecided is not None:
                fitting.undecided = each
                break
            else:
                fitting.refused[id] = after.reason
    return fitting


def _applied(state: Manifest, each: Wanted) -> Manifest | Conflict:
    try:
        return apply(state, each.transaction)
    except InputError as error:
        return Conflict(error.message)


def _is_there(state: Manifest, id: str) -> bool:
    return id in state.by_id or id in state.retired_by_id


@dataclass
class Worker:
    """One thread's loop. It ends once ``ended`` is set, after the batch that is at work."""

    queue: Queue
    committer: Committer
    clock: Clock
    wait: int = 5
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._backoff = Backoff(self.clock, first=_FIRST_WAIT, longest=_LONGEST_WAIT)

    def run(self, *, idle_exit: float | None = None) -> None:
        """Work until ``ended``, or ``idle_exit`` seconds without a message. Failures are logged and waited for."""
        busy_at = self.clock.monotonic()
        while not self.ended.is_set():
            taken = self.once()
            now = self.clock.monotonic()
            if taken:
                busy_at = now
            elif idle_exit is not None and now - busy_at >= idle_exit:
                return

    def once(self) -> int:
        """One batch; how many messages it had. 0 also where the queue failed, after a wait."""
        try:
            messages = self.queue.receive(MOST, wait=self.wait)
        except SingerlakeError as error:
            logger.warning("the queue %s gives no messages: %s", self.queue.name, error)
            self._rest()
            return 0
        done = self.committer.handle(messages) if messages else []
        if done:
            self._delete(done)
        if len(done) < len(messages):
            self._rest()
        else:
            self._backoff = Backoff(self.clock, first=_FIRST_WAIT, longest=_LONGEST_WAIT)
        self.committer.publish()
        return len(messages)

    def _delete(self, done: Sequence[Received]) -> None:
        """A message that is not deleted comes again, and is found to be done."""
        try:
            left = self.queue.delete(done)
        except SingerlakeError as error:
            logger.warning("%d messages that are done come again, since the queue fails: %s", len(done), error)
            return
        if left:
            logger.warning("messages %s are done and come again", ", ".join(each.id for each in left))

    def _rest(self) -> None:
        """Wait before the next try, longer each time, and no longer than until the end."""
        self.ended.wait(self._backoff.next())
