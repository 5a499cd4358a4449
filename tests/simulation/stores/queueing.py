"""Each manifest store with writers that send to a queue, and committers that come, go and die."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast
from unittest import mock

from singerlake.errors import StorageUnavailableError
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import AddFiles, Transaction
from singerlake.lock_file import LockSettings
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore, Outdated, Pending
from singerlake.stores.queued import committer as committer_module
from singerlake.stores.queued.committer import Committer, Worker
from singerlake.stores.queued.message import Received
from singerlake.stores.queued.settings import QueueSettings
from singerlake.stores.queued.store import QueuedStore, Sender
from tests.simulation.jobs import Actor
from tests.simulation.run import Auditor
from tests.simulation.stores.kinds import KINDS, Kind, StoreOf
from tests.simulation.watches.truth import Truth
from tests.simulation.watches.watched import WatchedStore
from tests.simulation.world.faults import Fate
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import LOCK, World
from tests.storage.memory import Step

URL = "http://queue/1/lake.fifo"
LAKE = "lake"
COMMITTER_LOCK = LockSettings(max_wait=10.0, stale_after=LOCK.stale_after, refresh=LOCK.refresh)


@dataclass(eq=False)
class _Message:
    id: str
    body: str
    group: str
    hidden_until: float = -1.0
    times: int = 0


@dataclass
class Messages:
    """What is in the queue of a run, which all its processes share. ``hidden`` is for how many seconds a message is
    given to nobody else, ``known`` for how many a second one of its deduplication id is dropped."""

    hidden: float
    known: float
    patience: int
    waiting: list[_Message] = field(default_factory=list)
    sent: int = 0
    ids: dict[str, float] = field(default_factory=dict)


def messages_of(world: World) -> Messages:
    """The queue of a run."""
    if "queue" not in world.shared:
        choices = world.choices
        hidden, known = choices.one_of((60.0, 5.0, 0.5)), choices.one_of((300.0, 300.0, 0.0))
        world.shared["queue"] = Messages(hidden, known, choices.one_of((30, 2, 60)))
    return cast(Messages, world.shared["queue"])


class SimulatedQueue:
    """A process's client, whose requests go wrong as those to storage do."""

    name = URL

    def __init__(self, world: World) -> None:
        self._world = world
        self._messages = messages_of(world)

    def send(self, body: str, *, group: str, deduplication: str) -> None:
        def effect() -> None:
            now, there = self._world.scheduler.now, self._messages
            if now - there.ids.get(deduplication, now - there.known) >= there.known:
                there.ids[deduplication] = now
                there.waiting.append(_Message(f"m{there.sent}", body, group))
                there.sent += 1

        self._ask("send", effect)

    def receive(self, most: int, *, wait: int) -> Sequence[Received]:
        del wait

        def effect() -> list[Received]:
            now, there = self._world.scheduler.now, self._messages
            blocked = {each.group for each in there.waiting if each.hidden_until > now}
            given = [each for each in there.waiting if each.group not in blocked][:most]
            for each in given:
                each.hidden_until, each.times = now + there.hidden, each.times + 1
            return [Received(each.id, each.body, f"{each.id}/{each.times}") for each in given]

        return self._ask("receive", effect)

    def delete(self, messages: Sequence[Received]) -> Sequence[Received]:
        receipts = {each.receipt for each in messages}

        def effect() -> list[Received]:
            there = self._messages
            there.waiting = [each for each in there.waiting if f"{each.id}/{each.times}" not in receipts]
            return []

        return self._ask("delete", effect)

    def _ask(self, operation: str, effect: Callable[[], Any]) -> Any:
        world = self._world
        fate = world.fate(f"queue-{operation}", "queue")
        world.step(Step(f"queue-{operation}", "queue", False))
        if fate in (Fate.UNAVAILABLE, Fate.NEVER):
            raise StorageUnavailableError("the queue does not answer")
        if fate is Fate.LATE:
            world.later(f"queue-{operation}", effect)
            raise StorageUnavailableError("the queue does not answer")
        answer = effect()
        if fate in (Fate.DUPLICATED, Fate.TWICE) and operation != "receive":
            world.later(f"queue-{operation}", effect)
        told = len(answer) if isinstance(answer, list) else ""
        world.note(f"queue-{operation}: {told}, {len(self._messages.waiting)} there")
        world.step(Step(f"queue-{operation}", "queue", True))
        if fate in (Fate.REPLY_LOST, Fate.REFUSED):
            raise StorageUnavailableError("the reply was lost")
        return answer


class QueuedTruth(Truth):
    """What is so where writers have several transactions on their way: those of one run come in its order."""

    def became(self, state: Manifest) -> None:
        super().became(state)
        last: dict[str, int] = {}
        for origin in self._origins(state):
            run, batch = self._batch[origin]
            if batch < last.get(run, -1):
                self._fail(f"batch {batch} of run {run} comes behind a later one")
            last[run] = batch

    def settled(self, id: str, state: Manifest) -> None:
        """Where a committer made several transactions one, none has a place of its own."""
        if id in self.placed:
            super().settled(id, state)


class QueuedWatched(WatchedStore):
    """A receipt for what is in a queue promises nothing, and a state that is said to hold it has its files."""

    _files: dict[str, list[str]]

    def commit(self, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict | Pending:
        outcome = super().commit(base, transaction)
        if isinstance(outcome, Pending):
            change = transaction.change
            names = [file.id for file in change.files] if isinstance(change, AddFiles) else []
            self._files = {**getattr(self, "_files", {}), outcome.id: names}
            if outcome.key == URL:
                self._truth.pending.discard(outcome.id)
        return outcome

    def settle(self, base: Loaded, pending: Pending) -> Loaded | Conflict | None:
        outcome = super().settle(base, pending)
        if isinstance(outcome, Loaded):
            state = outcome.manifest
            for id in getattr(self, "_files", {}).get(pending.id, ()):
                if id not in state.by_id and id not in state.retired_by_id:
                    self._fail(f"a transaction was said to be in a state without its file {id}")
        return outcome


class QueuedAuditor(Auditor):
    """Only entries of ``merge`` have to be settled at the end."""

    def _settle(self, store: WatchedStore, process: Process) -> None:
        if store.kind == "merge":
            super()._settle(store, process)


class _Ended:
    """A committer's sign to end, whose waits are simulated."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self._process.clock.sleep(seconds)
        return False


@dataclass(eq=False)
class CommitterJob(Actor):
    """Commits what is in the queue, a number of batches long; each process begins with no state at hand."""

    times: int
    plain: StoreOf

    def run(self, process: Process) -> None:
        worker = self.worker(process)
        while self.times:
            worker.once()
            self.times -= 1
            self.rest(process)

    def worker(self, process: Process) -> Worker:
        """What this process works with."""
        world = self.world

        def open_store(tap: str, stream: str) -> ManifestStore | None:
            assert (tap, stream) == (TAP, STREAM)
            return cast(ManifestStore, self.watched(self.plain(world, process), process))

        committer = Committer(LAKE, world.storage, open_store, process.name, process.clock, world.ids)
        return Worker(SimulatedQueue(world), committer, process.clock, ended=cast(Any, _Ended(process)))


@contextmanager
def _patched(kind: Kind) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(kind.patched())
        stack.enter_context(mock.patch.object(committer_module, "_LOCK", COMMITTER_LOCK))
        yield


def queueing(kind: Kind, job: type[CommitterJob] = CommitterJob) -> Kind:
    """``kind`` with a queue, and committers of that sort."""

    def store_of(world: World, process: Process) -> ManifestStore:
        inner = kind.store_of(world, process)
        settings = QueueSettings(url=URL, patience_seconds=messages_of(world).patience)
        sender = Sender(SimulatedQueue(world), settings, process.clock)
        place = StreamPlace(cast(Any, world.storage), TAP, STREAM, process.clock, world.ids)
        return QueuedStore(inner, place, sender, lake_id=LAKE)

    def committers(world: World, _: Kind) -> Iterator[Actor]:
        for number in range(world.choices.one_of((1, 2, 3, 0))):
            yield job(f"committer{number}", world, made, 5 + world.choices.below(40), kind.store_of)

    def patched() -> AbstractContextManager[object]:
        return _patched(kind)

    made = replace(
        kind,
        name=f"queued-{kind.name}",
        store_of=store_of,
        extras=committers,
        truth=QueuedTruth,
        watched=QueuedWatched,
        auditor=QueuedAuditor,
        patched=patched,
    )
    return made


QUEUEING = {made.name: made for made in map(queueing, KINDS.values())}
