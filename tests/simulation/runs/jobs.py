"""Who takes part: writers of atomic runs and of single streams, trimmers, publishers, and readers of many streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from singerlake.clock import timestamp
from singerlake.errors import RetryableError, UnknownOutcomeError
from singerlake.format.state.model import Manifest, Run
from singerlake.stores.atomic.commit_run import AtomicRun, RunShare, commit_run
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.view import StreamView, view, view_as_of
from singerlake.stores.log import ObjectLog
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.writer import StreamWriter, Upload
from tests.simulation.jobs import Actor, PublisherJob, TrimmerJob
from tests.simulation.runs.truth import Runs
from tests.simulation.runs.watch import STREAMS, RunsWatch
from tests.simulation.stores.kinds import Kind
from tests.simulation.stores.often import snapshot_settings
from tests.simulation.watches.watched import WatchedStore
from tests.simulation.world.files import SCHEMA, TAP, VERSION, written_file
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import LOCK, World


@dataclass(eq=False)
class TapActor(Actor):
    """Somebody who has to do with several streams."""

    @property
    def runs(self) -> Runs:
        """What is so of the tap's runs."""
        return runs_of(self.world)

    def decisions(self) -> Decisions:
        """The decisions about the tap's runs."""
        return Decisions(self.world.storage, TAP)

    def store_of(self, process: Process, stream: str) -> WatchedStore:
        """What this process has of a stream's manifest store."""
        return watched_store(self, process, stream)

    def writer(self, process: Process, stream: str) -> StreamWriter:
        """A writer of one stream."""
        return StreamWriter(
            place=StreamPlace(self.world.storage, TAP, stream, process.clock, self.world.ids),
            store=self.store_of(process, stream),
            writer_id=process.name,
            lock=LOCK,
            rebuild=self._rebuild,
        )

    def new_run(self, process: Process) -> Run:
        """A run that begins now."""
        return Run(id=self.world.ids(), writer=process.name, started=timestamp(process.clock.now()))

    def file(self, stream: str, run: Run, seq: int, messages: int) -> Upload:
        """A file of one stream."""
        id = self.world.ids()
        self.runs.streams[stream].wrote(id, messages, run=run.id, seq=seq)
        return written_file(id, messages, run=run.id, seq=seq)

    def look(self, process: Process) -> Mapping[str, StreamView]:
        """A view of all streams, looked after."""
        known = dict(self.runs.told)
        seen = view(self.decisions(), partial(self._load, process))
        self.world.note(f"sees {said(seen)}")
        self.runs.viewed(seen, known)
        return seen

    def look_back(self, process: Process) -> None:
        """A view as of one of the commits that took place, looked after."""
        decisions = self.decisions()
        listed = set(decisions.listed().names)
        known = {name: each for name, each in self.runs.decisions.items() if name in listed and each.committed}
        if known:
            commit = self.world.choices.one_of(tuple(sorted(known)))
            seen = view_as_of(decisions, commit, partial(self._load, process))
            self.world.note(f"sees {said(seen)} as of {commit}")
            self.runs.viewed_as_of(seen, commit, known)

    def _load(self, process: Process) -> dict[str, Manifest]:
        """The streams that were born, one after the other in any order, now and then with a rest between them."""
        begins = self.world.choices.below(len(STREAMS))
        loaded: dict[str, Manifest] = {}
        for stream in (*STREAMS[begins:], *STREAMS[:begins]):
            found = self.store_of(process, stream).load()
            if found is not None:
                loaded[stream] = found.manifest.shown
            if self.world.choices.below(2):
                self.rest(process)
        return loaded

    def _rebuild(self, kind: str) -> Manifest:
        raise AssertionError(f"no state was lost, and one of {kind} is to be rebuilt")


@dataclass(eq=False)
class RunWriterJob(TapActor):
    """Delivers runs, each whole: what a run was not told is in the lake the next one sends again. A run says of each
    of its streams how many messages its files have."""

    deliveries: tuple[dict[str, tuple[int, ...]], ...]
    delivered: int = 0

    def run(self, process: Process) -> None:
        while self.delivered < len(self.deliveries):
            self._deliver(process, self.deliveries[self.delivered])
            self.delivered += 1
            self.rest(process)

    def _deliver(self, process: Process, delivery: Mapping[str, tuple[int, ...]]) -> None:
        world, run = self.world, self.new_run(process)
        parts: list[RunShare] = []
        for stream, files in delivery.items():
            writer = self.writer(process, stream)
            writer.open()
            uploads = [self.file(stream, run, seq, messages) for seq, messages in enumerate(files)]
            writer.upload(uploads)
            parts.append(RunShare(writer, tuple(upload.file for upload in uploads), {VERSION: SCHEMA}, run))
        self.rest(process)
        files_of = {part.writer.stream: [file.id for file in part.files] for part in parts}
        self.runs.begins(run.id, files_of)
        world.note(f"commits run {run.id}: {files_of}")
        states = self._commit(process, parts, run)
        for part in parts:
            if any(file.id not in states[part.writer.stream].by_id for file in part.files):
                world.fail(f"the state of a run that was committed lacks files in stream {part.writer.stream}")
        self.runs.acked(run.id)
        world.note(f"knows that run {run.id} is committed")

    def _commit(self, process: Process, parts: list[RunShare], run: Run) -> dict[str, Manifest]:
        may_be_there = False
        while True:
            whole = AtomicRun(
                parts,
                self.decisions(),
                run_id=run.id,
                writer_id=process.name,
                clock=process.clock,
                ids=self.world.ids,
            )
            try:
                return commit_run(whole)
            except UnknownOutcomeError as error:
                may_be_there = True
                if self.world.choices.below(2):
                    raise
                self.world.note(f"tries again after {type(error).__name__}: {error}")
            except RetryableError:
                if not may_be_there:
                    self.runs.refused(run.id)
                raise


@dataclass(eq=False)
class PlainWriterJob(TapActor):
    """Delivers files to one stream, each committed by itself."""

    stream: str
    files: tuple[int, ...]
    delivered: int = 0

    def run(self, process: Process) -> None:
        writer, run = self.writer(process, self.stream), self.new_run(process)
        writer.open()
        while self.delivered < len(self.files):
            upload = self.file(self.stream, run, self.delivered, self.files[self.delivered])
            writer.settled(writer.submit([upload], run))
            self.runs.acked_file(self.stream, upload.file.id)
            self.world.note(f"knows that {upload.file.id} is committed")
            self.delivered += 1
            self.rest(process)
        writer.finish()


@dataclass(eq=False)
class ViewerJob(TapActor):
    """Takes views of all streams, now and then as of a commit."""

    looks: int

    def run(self, process: Process) -> None:
        while self.looks:
            if self.world.choices.below(3) < 2:
                self.look(process)
            else:
                self.look_back(process)
            self.looks -= 1
            self.rest(process)


@dataclass(eq=False)
class StreamTrimmerJob(TrimmerJob):
    """Trims one of the logs."""

    stream: str

    def store(self, process: Process) -> WatchedStore:
        return watched_store(self, process, self.stream)


@dataclass(eq=False)
class StreamPublisherJob(PublisherJob):
    """Publishes one of the streams."""

    stream: str

    def store(self, process: Process) -> WatchedStore:
        return watched_store(self, process, self.stream)


class RunsAuditor(TapActor):
    """A fresh reader when all is over: it sees what was acknowledged, and the newest states; and a fresh writer, whom
    no run that somebody left behind keeps from writing."""

    def run(self, process: Process) -> None:
        world = self.world
        for stream, truth in self.runs.streams.items():
            loaded = self.store_of(process, stream).load()
            if (loaded and loaded.manifest) != truth.newest:
                world.fail(f"a fresh reader does not find the newest state of stream {stream}")
            lost = truth.unlisted()
            if lost:
                world.fail(f"acknowledged files are lost: {', '.join(lost)}")
        before = self.look(process)
        self.look_back(process)
        for stream in STREAMS:
            writer = self.writer(process, stream)
            writer.open()
            writer.record(self.new_run(process))
            writer.finish()
        after = self.look(process)
        if any(after[stream].end != each.end for stream, each in before.items()):
            world.fail("a view without writers changed")


def runs_of(world: World) -> Runs:
    """What is so of the runs of a world."""
    assert isinstance(world.watches, RunsWatch)
    return world.watches.runs


def watched_store(actor: Actor, process: Process, stream: str) -> WatchedStore:
    """A stream's store with all its promises looked after."""
    world = actor.world
    place = StreamPlace(world.storage, TAP, stream, process.clock, world.ids)
    store = NumberedStore("log", ObjectLog(place), place, snapshots=snapshot_settings(world))
    truth = runs_of(world).streams[stream]
    note = partial(_note, world, stream)
    return actor.kind.watched(store, truth, world.fail, note, lambda number: None, lambda transaction: None)


def said(views: Mapping[str, StreamView]) -> str:
    """Views as a trace shows them."""
    return ", ".join(f"{stream} to {each.end}" for stream, each in sorted(views.items())) or "no stream"


def _note(world: World, stream: str, text: str) -> None:
    world.note(f"{stream}: {text}")


def runs_cast(world: World, kind: Kind) -> Iterator[Actor]:
    """Who takes part."""
    choices = world.choices
    for number in range(choices.one_of((2, 2, 1, 3))):
        deliveries = tuple(_delivery(world) for _ in range(1 + choices.below(3)))
        yield RunWriterJob(f"runs{number}", world, kind, deliveries)
    for number in range(choices.below(3)):
        files = tuple(1 + choices.below(3) for _ in range(1 + choices.below(4)))
        yield PlainWriterJob(f"writer{number}", world, kind, choices.one_of(STREAMS), files)
    for number in range(1 + choices.below(2)):
        yield ViewerJob(f"viewer{number}", world, kind, 2 + choices.below(5))
    for number in range(choices.below(3)):
        yield StreamTrimmerJob(f"trimmer{number}", world, kind, 1 + choices.below(4), choices.one_of(STREAMS))
    if choices.below(3) == 1:
        yield StreamPublisherJob("publisher", world, kind, 1 + choices.below(3), choices.one_of(STREAMS))


def _delivery(world: World) -> dict[str, tuple[int, ...]]:
    choices = world.choices
    chosen = choices.one_of((("a", "b"), ("a", "b", "c"), ("b", "c"), ("a", "c"), ("c",)))
    return {stream: tuple(1 + choices.below(3) for _ in range(1 + choices.below(2))) for stream in chosen}
