"""Messages of a queue, committed: the core of every committer, whoever brings it the messages.

A message is told to be done only behind the commit of its transaction, or where it is no use. Everything else comes
again, and is then found in the state.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from singerlake.clock import Clock, IdSource
from singerlake.errors import SingerlakeError
from singerlake.humanize import shown
from singerlake.lock_file import LockSettings
from singerlake.storage.port import Storage
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.stores.queued import objects
from singerlake.stores.queued.commit_parts import Committed, commit_parts
from singerlake.stores.queued.message import CommitMessage, Dropped, Wanted, read_message, wanted
from singerlake.stores.queued.port import Received

logger = logging.getLogger(__name__)

STREAMS = 64
"""States of streams that are kept at hand."""
PUBLISH_EVERY = 60.0
"""Seconds between two looks whether ``manifest.json`` of a stream is due."""
_KEPT_SECONDS = 600.0
"""How long a state is followed before it is loaded anew, should somebody have put another one in its place."""
_LOCK = LockSettings(max_wait=10.0)
"""Short, since writers stop waiting: their own commit needs no lock."""


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
        transaction = head.transaction or objects.get_body(self.storage, head)
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
        logger.debug("%s/%s: %d transactions at once", shown(there.tap), shown(there.name), committed.parts)

    def _refuse(self, tap: str, stream: str, id: str, reason: str) -> None:
        try:
            objects.refuse(self.storage, tap, stream, id, reason)
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
