"""The actors: writers, readers, publishers, trimmers, vacuums and sweepers, each with the product's own code in
its hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from singerlake.clock import timestamp
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest, Run
from singerlake.format.state.transactions import Change, RetireFiles, Transaction
from singerlake.storage.port import Entry, Part, Storage
from singerlake.stores.commit import commit_transaction
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.stores.writer import Receipt, StreamWriter, Upload
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.gc.apply import collect_stream
from singerlake.upkeep.rebuild.rebuild import rebuild_manifest
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from singerlake.work.engine import Threads
from tests.simulation.watches.watched import WatchedStore
from tests.simulation.world.files import STREAM, TAP, written_file
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import LOCK, TRANSIENT, Job, World

if TYPE_CHECKING:
    from tests.simulation.stores.kinds import Kind

Answer = TypeVar("Answer")

SLOW = 30.0
"""Seconds for which a sweeper leaves an unlisted file alone. Short, so that slow writers meet it."""
GRACE = 2 * 3600.0
"""Seconds of a collection's grace time, longer than a process stands still."""


@dataclass(eq=False)
class Actor(Job):
    name: str
    world: World
    kind: Kind

    def store(self, process: Process) -> WatchedStore:
        """What this process has of the manifest store."""
        return self.watched(self.kind.store_of(self.world, process), process)

    def watched(self, inner: ManifestStore, process: Process) -> WatchedStore:
        """A store with all its promises looked after."""
        world, watches = self.world, self.world.watches
        assert watches is not None
        seen, sends = partial(watches.seen, process.name), partial(watches.sends, process.name)
        return self.kind.watched(inner, world.truth, world.fail, world.note, seen, sends)

    def commit(self, store: ManifestStore, base: Loaded, change: Change, process: Process) -> None:
        """Commit a change of maintenance; a conflict is no failure."""
        transaction = Transaction(id=self.world.ids(), at=timestamp(process.clock.now()), change=change)
        outcome = commit_transaction(store, base, transaction, clock=process.clock)
        if isinstance(outcome, Conflict):
            self.world.note(f"in vain: {outcome.reason}")

    def rest(self, process: Process) -> None:
        """Think of something else for a while."""
        process.clock.sleep(self.world.choices.one_of(self.world.profile.rests))


@dataclass(eq=False)
class WriterJob(Actor):
    """Delivers batches of messages, in runs: what a run was not told is committed the next run sends again."""

    batches: tuple[int, ...]
    delivered: int = 0

    def run(self, process: Process) -> None:
        world, writer = self.world, self._writer(process)
        run = Run(id=world.ids(), writer=process.name, started=timestamp(process.clock.now()))
        writer.open()
        sent = self.delivered
        waiting: list[tuple[Receipt, list[Upload]]] = []
        while sent < len(self.batches):
            group = self.batches[sent : sent + 1 + world.choices.below(2)]
            uploads = [self.file(run, sent + place, messages) for place, messages in enumerate(group)]
            waiting.append((self.submit(writer, uploads, run), uploads))
            sent += len(group)
            if sent == len(self.batches) or world.choices.below(3) < 2:
                self._take(writer, waiting)
            self.rest(process)
        if world.choices.below(2):
            writer.record(Run(id=run.id, writer=run.writer, started=run.started, status="finished"))
        writer.finish()

    def submit(self, writer: StreamWriter, uploads: list[Upload], run: Run) -> Receipt:
        """Hand files over, again after a failure: that is harmless."""
        return self._persist(lambda: writer.submit(uploads, run))

    def _take(self, writer: StreamWriter, waiting: list[tuple[Receipt, list[Upload]]]) -> None:
        while waiting:
            receipt, uploads = waiting[0]
            self._persist(partial(writer.settled, receipt))
            waiting.pop(0)
            self.delivered += len(uploads)
            for upload in uploads:
                self.world.truth.acked(upload.file.id)
            self.world.note(f"knows that {', '.join(upload.file.id for upload in uploads)} is committed")

    def _persist(self, call: Callable[[], Answer]) -> Answer:
        while True:
            try:
                return call()
            except TRANSIENT as error:
                if self.world.choices.below(2):
                    raise
                self.world.note(f"tries again after {type(error).__name__}: {error}")

    def file(self, run: Run, seq: int, messages: int) -> Upload:
        """The file of one batch."""
        id = self.world.ids()
        self.world.truth.wrote(id, messages, run=run.id, seq=seq)
        return written_file(id, messages, run=run.id, seq=seq)

    def _writer(self, process: Process) -> StreamWriter:
        world = self.world

        def rebuild(kind: str) -> Manifest:
            birth = fold.empty(
                tap=TAP,
                stream=STREAM,
                store=kind,
                lineage=world.ids(),
                created=timestamp(process.clock.now()),
                transaction_id=world.ids(),
            )
            return rebuild_manifest(world.storage, birth, engine=Threads(world.storage, 1)).manifest

        successor = self.kind.successor

        def moved(kind: str) -> ManifestStore:
            assert successor is not None
            return self.watched(successor(world, process, kind), process)

        return StreamWriter(
            place=StreamPlace(world.storage, TAP, STREAM, process.clock, world.ids),
            store=self.store(process),
            writer_id=process.name,
            lock=LOCK,
            rebuild=rebuild,
            successor=moved if successor else None,
        )


@dataclass(eq=False)
class ReaderJob(Actor):
    """Follows the stream, now and then from the beginning."""

    looks: int

    def run(self, process: Process) -> None:
        store = self.store(process)
        known: Loaded | None = None
        while self.looks:
            known = store.load() if known is None or not self.world.choices.below(4) else store.catch_up(known)
            self.looks -= 1
            self.rest(process)


@dataclass(eq=False)
class PublisherJob(Actor):
    """Brings ``manifest.json`` up, sometimes with a state that has grown old in its hands."""

    times: int

    def run(self, process: Process) -> None:
        store = self.store(process)
        while self.times:
            loaded = store.load()
            if loaded is not None:
                if self.world.choices.below(2):
                    self.rest(process)
                store.publish(loaded, run_ended=bool(self.world.choices.below(2)))
            self.times -= 1
            self.rest(process)


@dataclass(eq=False)
class TrimmerJob(Actor):
    """Removes old transactions, as ``gc`` does."""

    times: int

    def run(self, process: Process) -> None:
        store = self.store(process)
        while self.times:
            self.rest(process)
            store.trim(keep=self.world.choices.one_of((1, 0, 2, 5)), dry_run=not self.world.choices.below(5))
            self.times -= 1


@dataclass(eq=False)
class VacuumJob(Actor):
    """Joins small files, of which there are more or fewer."""

    times: int

    def run(self, process: Process) -> None:
        world, store = self.world, self.store(process)
        while self.times:
            self.rest(process)
            done = vacuum_stream(
                StreamContext(cast(Storage, _Told(world)), TAP, STREAM, process.clock, world.ids, store),
                target_bytes=world.choices.one_of((1000, 2000, 1 << 20)),
                threads=1,
            )
            world.note(f"vacuumed: {done.joined.files} files into {done.into.files}")
            problems = [finding for finding in done.findings if finding.problem]
            if problems:
                world.fail(f"a vacuum found fault: {problems}")
            self.times -= 1


class _Told:
    """The storage, as a vacuum has it: that it makes a file of others is told to whoever knows what is so."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.storage, name)

    def compose(self, key: str, pieces: Sequence[bytes | Part]) -> Entry:
        made, *old = (layout.file_id_in(each) or "" for each in (key, *_sources(pieces)))
        self._world.truth.joined(made, old)
        return self._world.storage.compose(key, pieces)


def _sources(pieces: Sequence[bytes | Part]) -> Iterator[str]:
    return (piece.key for piece in pieces if isinstance(piece, Part))


@dataclass(eq=False)
class SweeperJob(Actor):
    """Retires files that lay about unlisted for a while, as the first stage of collection does."""

    times: int

    def run(self, process: Process) -> None:
        store, world = self.store(process), self.world
        while self.times:
            self.rest(process)
            found = list(world.storage.list(world.prefix))
            loaded = store.load()
            if loaded is not None:
                orphans = tuple(self._orphans(found, loaded.manifest))
                if orphans:
                    self.commit(store, loaded, RetireFiles(files=orphans), process)
            self.times -= 1

    def _orphans(self, found: list[Entry], manifest: Manifest) -> Iterator[tuple[str, str]]:
        old = self.world.clock.now() - timedelta(seconds=SLOW)
        for entry in found:
            path = entry.key.removeprefix(self.world.prefix)
            id = layout.file_id_in(path) if layout.is_data_file(path) else None
            known = id is None or id in manifest.by_id or id in manifest.retired_by_id
            if id is not None and not known and entry.last_modified < old:
                yield id, path


@dataclass(eq=False)
class CollectorJob(Actor):
    """Collects what was replaced, and orphans too or not."""

    times: int

    def run(self, process: Process) -> None:
        world, store = self.world, self.store(process)
        while self.times:
            self.rest(process)
            done = collect_stream(
                StreamContext(world.storage, TAP, STREAM, process.clock, world.ids, store),
                grace=timedelta(seconds=GRACE),
                orphans=bool(world.choices.below(3)),
                delete=bool(world.choices.below(6)),
                threads=1,
            )
            world.note(f"collected: {done.retired.files} retired, {done.deleted.files} deleted")
            problems = [finding for finding in done.findings if finding.kind in ("missing", "differs")]
            if problems:
                world.fail(f"a collection found fault: {problems}")
            if done.plan.stuck:
                world.fail(f"a collection will never end: {done.plan.stuck}")
            process.clock.sleep(world.choices.one_of((0.0, 0.6, 1.1)) * GRACE)
            self.times -= 1
