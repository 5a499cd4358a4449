"""A FIFO queue in memory, by the rules that SQS documents, and streams whose writers send to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from singerlake.clock import Clock
from singerlake.errors import StorageUnavailableError
from singerlake.lake import Lake
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import ManifestStore
from singerlake.stores.queued.committer import Committer
from singerlake.stores.queued.message import Received
from singerlake.stores.queued.settings import QueueSettings
from singerlake.stores.queued.store import QueuedStore, Sender
from singerlake.stores.writer import StreamWriter
from singerlake.stream import LakeStream
from tests.stores.stores import Place, make_place

URL = "http://queue/1/lake.fifo"
REMEMBERED = 300.0
"""Seconds for which a deduplication id is known."""


@dataclass
class _Message:
    id: str
    body: str
    group: str
    hidden_until: float = -1.0
    times: int = 0


@dataclass
class MemoryQueue:
    """``hidden`` is for how many seconds a message that was given out is given to nobody else. ``down`` are the
    operations that fail."""

    clock: Clock
    hidden: float = 60.0
    down: set[str] = field(default_factory=set)
    messages: list[_Message] = field(default_factory=list)
    sent: int = 0
    _known: dict[str, float] = field(default_factory=dict)

    name = URL

    def send(self, body: str, *, group: str, deduplication: str) -> None:
        self._check("send")
        now = self.clock.monotonic()
        if now - self._known.get(deduplication, now - REMEMBERED) < REMEMBERED:
            return
        self._known[deduplication] = now
        self.messages.append(_Message(f"m{self.sent}", body, group))
        self.sent += 1

    def receive(self, most: int, *, wait: int) -> Sequence[Received]:
        del wait
        self._check("receive")
        now = self.clock.monotonic()
        blocked = {each.group for each in self.messages if each.hidden_until > now}
        given = [each for each in self.messages if each.group not in blocked][:most]
        for each in given:
            each.hidden_until = now + self.hidden
            each.times += 1
        return [Received(each.id, each.body, f"{each.id}/{each.times}") for each in given]

    def delete(self, messages: Sequence[Received]) -> Sequence[Received]:
        self._check("delete")
        receipts = {each.receipt for each in messages}
        self.messages = [each for each in self.messages if f"{each.id}/{each.times}" not in receipts]
        return ()

    def again(self, at: int = 0) -> None:
        """The same message once more, as after the time for which a deduplication id is known."""
        old = self.messages[at]
        self.messages.append(_Message(f"m{self.sent}", old.body, old.group))
        self.sent += 1

    def _check(self, operation: str) -> None:
        if operation in self.down:
            raise StorageUnavailableError("the queue is down", hint="wait")


@dataclass
class QueuedPlace:
    """A place whose writers send to a queue, which a committer empties whenever time passes."""

    inner: Place
    queue: MemoryQueue
    works: bool = True
    patience: int = 30

    def __post_init__(self) -> None:
        self.sender = Sender(self.queue, QueueSettings(url=URL, patience_seconds=self.patience), self.inner.clock)
        self.plain: Callable[..., ManifestStore] = self.inner.store
        self.inner.store = self._queued  # type: ignore[method-assign]
        self.inner.lake = self._lake()
        self.inner.clock.on_sleep = self._work
        self._busy = False
        self.committer = self.new_committer()

    def new_committer(self) -> Committer:
        """Another process's."""
        inner = self.inner
        return Committer(
            inner.lake.lake_id(), inner.storage, self._open, f"worker {inner.ids()}", inner.clock, inner.ids
        )

    def _lake(self) -> Lake:
        """The lake with writers that send to the queue."""
        queued = self

        class QueuedStream(LakeStream):
            def writer(self, **options: Any) -> StreamWriter:
                made = super().writer(**options)
                made.store, made.successor = queued.through(made.store, self.name), self._successor
                return made

            def _successor(self, kind: str) -> ManifestStore:
                return queued.through(self.store(kind), self.name)

        class QueuedLake(Lake):
            def stream(self, tap: str, name: str) -> LakeStream:
                return QueuedStream(self, tap, name)

        lake = self.inner.lake
        return QueuedLake(lake.storage, lake.clock, lake.ids, lake.stores, lake.settings)

    def through(self, store: ManifestStore, stream: str = "s") -> QueuedStore:
        """``store`` as a writer uses it."""
        inner = self.inner
        place = StreamPlace(inner.storage, "t", stream, inner.clock, inner.ids)
        return QueuedStore(store, place, self.sender, lake_id=inner.lake.lake_id())

    def empty(self) -> int:
        """One batch; how many messages it had."""
        messages = self.queue.receive(10, wait=0)
        done = self.committer.handle(messages)
        if done:
            self.queue.delete(done)
        return len(messages)

    def _open(self, tap: str, stream: str) -> ManifestStore | None:
        kind = self.inner.lake.stream(tap, stream).kind()
        return None if kind is None else self.inner.lake.stream(tap, stream).store(kind)

    def _queued(self, stream: str = "s", kind: str | None = None) -> ManifestStore:
        return self.through(self.plain(stream, kind), stream)

    def _work(self, seconds: float) -> None:
        del seconds
        if self.works and not self._busy:
            self._busy = True
            try:
                self.empty()
            finally:
                self._busy = False


def queued_place(kind: str, request: pytest.FixtureRequest, **more: int) -> QueuedPlace:
    """A place of that kind, with its server running where it needs one."""
    inner = make_place(kind, request)
    return QueuedPlace(inner, MemoryQueue(inner.clock), **more)
