"""Each manifest store with a stream whose state has segments, of two or three files each, while writers, readers,
vacuums, those who publish, and collectors are at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from unittest import mock

from singerlake.clock import parse_timestamp
from singerlake.errors import CorruptObjectError
from singerlake.format.file_id import timed_id
from singerlake.format.state.files.cut import Sizes
from singerlake.format.state.model import Manifest, Run
from singerlake.storage.probe import storage_time
from singerlake.stores.dynamodb import items as dynamodb_items
from singerlake.stores.dynamodb.items import SegmentItems
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.segments import objects, stored
from singerlake.stores.writer import Upload
from singerlake.upkeep.gc.segments import collect_segments
from tests.fakes import START
from tests.simulation.jobs import GRACE, Actor, WriterJob
from tests.simulation.stores.kinds import KINDS, Kind, dynamo_store
from tests.simulation.world.files import written_file
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World


@dataclass(eq=False)
class SegmentCollectorJob(Actor):
    """Collects segments that no state names."""

    times: int

    def run(self, process: Process) -> None:
        world = self.world
        while self.times:
            self.rest(process)
            grace = timedelta(seconds=GRACE)
            time = partial(storage_time, world.storage, ids=world.ids)
            segments = self.kind.store_of(world, process).segments
            done = collect_segments(segments, time=time, grace=grace, delete=True)
            world.note(f"segments: {done.deleted.files} deleted, {done.waiting.files} wait; copies: {done.copies}")
            process.clock.sleep(world.choices.one_of((0.0, 0.6, 1.1)) * GRACE)
            self.times -= 1


@dataclass(eq=False)
class TimedWriterJob(WriterJob):
    """Gives its files ids that say when they were made, by its own clock, so that few segments are read for one."""

    def file(self, run: Run, seq: int, messages: int) -> Upload:
        id = timed_id(parse_timestamp(run.started) or START, self.world.ids())
        self.world.truth.wrote(id, messages, run=run.id, seq=seq)
        return written_file(id, messages, run=run.id, seq=seq)


@dataclass(eq=False)
class LaterWriterJob(TimedWriterJob):
    """Comes when the others have mostly ended, about when collectors look again; ``wait`` in seconds."""

    wait: float = 0.0

    def run(self, process: Process) -> None:
        process.clock.sleep(self.wait)
        super().run(process)


@dataclass(eq=False)
class SegmentReaderJob(Actor):
    """Loads states, and reads all their segments some time later; of their copies only a part."""

    times: int

    def run(self, process: Process) -> None:
        world = self.world
        while self.times:
            store, begun = self.store(process), world.scheduler.now
            loaded = store.load()
            process.clock.sleep(world.choices.one_of((0.0, 0.01, 0.5)) * GRACE)
            try:
                if loaded is not None:
                    loaded.manifest.files.check()
                    self._read_part(loaded.manifest)
            except CorruptObjectError as error:
                if world.scheduler.now - begun < GRACE:
                    world.fail(f"a reader misses a segment: {error}")
                world.note("read for too long")
            process.clock.sleep(world.choices.one_of((0.0, 0.5, 1.0)) * GRACE)
            self.times -= 1

    def _read_part(self, state: Manifest) -> None:
        choices = self.world.choices
        start = choices.below(state.next_offset + 1)
        stop = start + 1 + choices.below(8)
        files = [file for _, run in state.files.segments_with_files() for file in run]
        expected = [file for file in files if file.end > start and file.offset < stop]
        if list(state.files_from(start, stop)) != expected:
            self.world.fail(f"a reader got other files than those from {start} to {stop}")


def store_with_items(world: World, process: Process, items: type[SegmentItems] = SegmentItems) -> NumberedStore:
    """The store in DynamoDB, with the entries of segments as items."""
    return dynamo_store(world, process, items=items)


def _collectors(world: World, kind: Kind) -> Iterator[Actor]:
    choices = world.choices
    for number in range(1 + choices.below(2)):
        yield SegmentCollectorJob(f"segments{number}", world, kind, 3 + choices.below(6))
    for number in range(choices.below(5)):
        batches = tuple(1 + choices.below(4) for _ in range(1 + choices.below(3)))
        wait = choices.one_of((0.6, 1.1, 1.2, 1.7, 2.2, 2.8)) * GRACE
        yield LaterWriterJob(f"later{number}", world, kind, batches, wait=wait)
    for number in range(choices.below(3)):
        yield SegmentReaderJob(f"segmentreader{number}", world, kind, 2 + choices.below(5))


@contextmanager
def _in_segments(kind: Kind) -> Iterator[None]:
    with ExitStack() as patches:
        patches.enter_context(kind.patched())
        patches.enter_context(mock.patch.object(stored, "SIZES", Sizes(whole=2, segment=3, tail=1)))
        # Some segments have items, and some do not have them yet.
        sizes = Sizes(whole=2, segment=3, tail=1)
        patches.enter_context(mock.patch.multiple(dynamodb_items, SIZES=sizes, _AT_ONCE=1))
        # One request after the other, in the world's order, and each of them made.
        patches.enter_context(mock.patch.multiple(objects, _AHEAD=1, _AT_ONCE=1, _KEPT=0))
        yield


def _segmenting(kind: Kind) -> Kind:
    def patched() -> AbstractContextManager[object]:
        return _in_segments(kind)

    return replace(kind, name=f"segments-{kind.name}", extras=_collectors, writer_job=TimedWriterJob, patched=patched)


_ITEMS = replace(_segmenting(KINDS["dynamodb"]), name="items-dynamodb", store_of=store_with_items)
SEGMENTING = {made.name: made for made in (*map(_segmenting, KINDS.values()), _ITEMS)}
