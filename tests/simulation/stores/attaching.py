"""Each manifest store with a stream whose records have attached files, of few different bytes, while writers, erasers,
expirers, droppers, vacuums and collectors are at work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

from singerlake.attached.keep import free_copy, put_attached
from singerlake.errors import SettingError
from singerlake.format import layout
from singerlake.format.state.attached import Attached
from singerlake.format.state.attached_objects import paths_in
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import RetireFiles
from singerlake.stores.writer import Receipt, StreamWriter, Upload
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.erase.erase import Erased
from singerlake.upkeep.gc.apply import collect_now, collect_stream
from singerlake.upkeep.gc.expire import Cut, expire_messages
from tests.simulation.jobs import GRACE, SLOW, Actor, CollectorJob, WriterJob
from tests.simulation.stores.dropping import DropperJob
from tests.simulation.stores.erasing import VALUES, EraserJob, RebuildingAuditor, see_bytes
from tests.simulation.stores.kinds import KINDS, Kind
from tests.simulation.watches.attached import AttachedTruth, digest
from tests.simulation.world.files import STREAM, TAP, numbered_file
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World

PHOTOS = 4
"""Different files that records have."""
REMEMBERED = 900.0
"""Seconds for which a writer takes an object for there that it stored or saw."""


@dataclass(eq=False)
class _Lasting(Actor):
    """Whoever is at work so long that collectors come to their end meanwhile."""

    def rest(self, process: Process) -> None:
        super().rest(process)
        if not self.waits():
            process.clock.sleep(self.world.choices.one_of((0.0, 0.0, 0.0, 0.4, 1.1)) * GRACE)

    def waits(self) -> bool:
        """Whether it is in the middle of something, and stands still no longer than others allow for."""
        return False


@dataclass(eq=False)
class AttachingWriterJob(_Lasting, WriterJob):
    """A writer of records that differ, of which some have photos that others have, too."""

    own: StreamWriter | None = None
    known: dict[str, float] = field(default_factory=dict)
    unsettled: bool = False

    def run(self, process: Process) -> None:
        self.known.clear()
        self.unsettled = False
        super().run(process)

    def submit(self, writer: StreamWriter, uploads: list[Upload], run: Run) -> Receipt:
        self.unsettled = True
        return super().submit(writer, uploads, run)

    def _take(self, writer: StreamWriter, waiting: list[tuple[Receipt, list[Upload]]]) -> None:
        super()._take(writer, waiting)
        self.unsettled = False

    def waits(self) -> bool:
        return self.unsettled

    def _writer(self, process: Process) -> StreamWriter:
        self.own = super()._writer(process)
        return self.own

    def file(self, run: Run, seq: int, messages: int) -> Upload:
        truth, choices = truth_of(self.world), self.world.choices
        id = self.world.ids()
        values = tuple(choices.below(VALUES) for _ in range(messages))
        photos = [(at, choices.below(PHOTOS)) for at in range(messages) for _ in range(choices.one_of((1, 0, 2)))]
        rows = tuple(self._attached(at, f"photo {number}") for at, number in photos)
        truth.wrote(id, messages, run=run.id, seq=seq)
        truth.wrote_values(id, values)
        truth.wrote_photos(id, rows, messages)
        return numbered_file(id, values, run=run.id, seq=seq, rows=rows)

    def _attached(self, message: int, photo: str) -> Attached:
        assert self.own is not None
        world, body, sha256 = self.world, photo.encode(), digest(photo)
        copy = free_copy(self.own.open(), sha256)
        path = layout.attached_path(sha256, copy)
        if self.known.get(path, -REMEMBERED) + REMEMBERED <= world.scheduler.now:
            new = put_attached(world.storage, world.prefix + path, body, len(body))
            world.note(f"{'stored' if new else 'uses'} {photo}, copy {copy}")
            self.known[path] = world.scheduler.now
        return Attached(message, "photo", photo, sha256, len(body), "image/jpeg", copy)


@dataclass(eq=False)
class PhotoEraserJob(_Lasting, EraserJob):
    """Erases records, and their photos with the files that held them."""

    def goes_at_once(self, done: Erased) -> frozenset[str]:
        ids = super().goes_at_once(done) | done.objects
        truth_of(self.world).hurried |= ids
        return ids


@dataclass(eq=False)
class PhotoExpirerJob(_Lasting):
    """Expires what is before an offset that it saw, now and then with all that held it at once."""

    times: int

    def run(self, process: Process) -> None:
        world, truth = self.world, truth_of(self.world)
        while self.times:
            self.rest(process)
            store = self.store(process)
            seen = store.load()
            if seen is not None:
                before = world.choices.below(seen.manifest.next_offset + 1)
                truth.asked(before)
                context = StreamContext(world.storage, TAP, STREAM, process.clock, world.ids, store)
                try:
                    done = expire_messages(context, Cut(before=before), dry_run=False)
                except SettingError as error:
                    if truth.newest is None or truth.newest.lineage == seen.manifest.lineage:
                        world.fail(f"an offset that was seen is refused: {error}")
                    continue
                world.note(f"expired: {done.files.files} files, {done.attached.files} attached, before {before}")
                if world.choices.below(3) == 1:
                    truth.hurried |= set(done.ids)
                    collected = collect_now(context, frozenset(done.ids))
                    world.note(f"deleted at once: {collected.deleted.files} files of {len(done.ids)}")
            self.times -= 1


@dataclass(eq=False)
class PhotoSweeperJob(_Lasting):
    """Retires attached files that lay about unlisted for a while, also those that a slow writer is about to list."""

    times: int

    def run(self, process: Process) -> None:
        store, world = self.store(process), self.world
        while self.times:
            self.rest(process)
            found = list(world.storage.list(f"{world.prefix}{layout.ATTACHED}/"))
            loaded = store.load()
            if loaded is not None:
                state, old = loaded.manifest, world.clock.now() - timedelta(seconds=SLOW)
                listed = paths_in(state.files)
                paths = [entry.key.removeprefix(world.prefix) for entry in found if entry.last_modified < old]
                named = [(layout.attached_name_in(path) or "", path) for path in paths if path not in listed]
                orphans = tuple(each for each in named if each[0] not in state.retired_by_id)
                if orphans:
                    self.commit(store, loaded, RetireFiles(files=orphans), process)
            self.times -= 1


class CollectingAuditor(RebuildingAuditor):
    """Looks at the state in the end and at a rebuild of it, and sees that all collection comes to an end."""

    def run(self, process: Process) -> None:
        super().run(process)
        world, store = self.world, self.store(process)
        for _ in range(4):
            context = StreamContext(world.storage, TAP, STREAM, process.clock, world.ids, store)
            collect_stream(context, grace=timedelta(seconds=GRACE), delete=True, threads=1)
            process.clock.sleep(1.1 * GRACE)
        state = world.truth.newest
        assert state is not None
        left = [gone.id for gone in state.retired if layout.attached_name_in(gone.path) is not None]
        if left:
            world.fail(f"attached files are never collected: {', '.join(left)}")
        for path in paths_in(state.files):
            if world.storage.as_it_is(world.prefix + path) is None:
                world.fail(f"attached file {path} is listed and not on storage")


def truth_of(world: World) -> AttachedTruth:
    assert isinstance(world.truth, AttachedTruth)
    return world.truth


def _others(world: World, kind: Kind) -> Iterator[Actor]:
    choices = world.choices
    see_bytes(world)
    truth_of(world).now = lambda: world.scheduler.now
    for number in range(1 + choices.below(2)):
        values = [choices.below(VALUES) for _ in range(1 + choices.below(2))]
        yield PhotoEraserJob(f"eraser{number}", world, kind, values)
    for number in range(choices.below(2)):
        yield PhotoExpirerJob(f"expirer{number}", world, kind, 1 + choices.below(3))
    for number in range(1 + choices.below(2)):
        yield CollectorJob(f"collects{number}", world, kind, 2 + choices.below(6))
    if choices.below(2):
        yield PhotoSweeperJob("photo-sweeper", world, kind, 1 + choices.below(3))
    if choices.below(4) == 1:
        yield DropperJob("dropper", world, kind, 1)


ATTACHING = {
    f"attaching-{name}": replace(
        kind,
        name=f"attaching-{name}",
        truth=AttachedTruth,
        extras=_others,
        writer_job=AttachingWriterJob,
        auditor=CollectingAuditor,
    )
    for name, kind in KINDS.items()
}
