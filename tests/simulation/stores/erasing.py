"""Each manifest store with a stream from which records are erased, while writers, readers, vacuums, collectors and
droppers are at work."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from singerlake.clock import timestamp
from singerlake.conditions import Condition, Test
from singerlake.format import layout
from singerlake.format.extra_fields import read_provenance
from singerlake.format.lines.holes import HOLE
from singerlake.format.state import fold
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest, Run
from singerlake.storage.port import Storage
from singerlake.stores.writer import Upload
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.erase.erase import Erased, erase_messages
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.rebuild import rebuild
from singerlake.work.engine import Threads
from tests.simulation.jobs import Actor, WriterJob
from tests.simulation.run import Auditor
from tests.simulation.stores.dropping import DroppedTruth, DropperJob
from tests.simulation.stores.kinds import KINDS, Kind
from tests.simulation.watches.truth import Fail
from tests.simulation.world.files import STREAM, TAP, numbered_file, numbered_line
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World

VALUES = 3
"""What records hold, from 0 on: each value is in many files, and an eraser means one of them."""
Message = tuple[str, int]
"""The id of the file that a writer made, and the number of the message in it."""


class ErasedTruth(DroppedTruth):
    """What is so of a stream from which records are erased: a message keeps its place and its bytes, or is a hole where
    somebody was to erase it, and a hole stays one."""

    def __init__(self, fail: Fail, exists: Callable[[str], bool]) -> None:
        super().__init__(fail, exists)
        self.bytes_at: Callable[[str], bytes] = lambda path: b""
        """The bytes of an object by its path."""
        self.meant: set[int] = set()
        """Values that somebody began to erase."""
        self._values: dict[Message, int] = {}
        self._holes: set[Message] = set()
        self._unlisted: set[str] = set()

    def wrote_values(self, id: str, values: tuple[int, ...]) -> None:
        """A writer made a file of records that hold ``values``."""
        self._values |= {(id, at): value for at, value in enumerate(values)}

    def rewrote(self, path: str, body: bytes) -> None:
        """An eraser made a file, which is listed nowhere yet."""
        provenance, id = read_provenance(body), layout.file_id_in(path)
        assert provenance is not None
        assert id is not None
        self._made[id] = provenance.replaces
        self._unlisted.add(path)

    def became(self, state: Manifest) -> None:
        before = self.newest
        super().became(state)
        for file in state.files:
            self._unlisted.discard(file.path)
            if before is None or file.id not in before.by_id:
                self._look_into(file)

    def lets_go(self, path: str) -> bool:
        """A file that an eraser made goes without a transaction where none can list it any more."""
        return path in self._unlisted or super().lets_go(path)

    def holding(self, value: int) -> set[Message]:
        """The messages of the newest state that hold ``value``, holes too."""
        messages = self.messages(self.newest) if self.newest else ()
        return {message for message in messages if self._values[message] == value}

    def messages(self, state: Manifest) -> list[Message]:
        """The messages of a state, by their offsets."""
        return [message for file in state.files for message in self.messages_of(file.id)]

    def messages_of(self, id: str) -> list[Message]:
        """The messages of a file, in order."""
        return [(origin, at) for origin, count in self._made[id] for at in range(count)]

    def judges(self, messages: list[Message]) -> bool:
        """Whether a file of a rebuild that holds these messages, some of them of the newest state, tells anything."""
        return bool(messages)

    def rebuilt(self, made: Manifest) -> None:
        """In the end, this is what would be made of the files alone."""

    def erased(self, messages: set[Message]) -> None:
        """Somebody was told that these are erased: no reader who begins now finds them."""
        there = messages.intersection(self.messages(self.newest) if self.newest else ()) - self._holes
        if there:
            self._fail(f"an erasure was acknowledged and left records: {sorted(there)}")

    def shown(self, messages: list[Message], lines: list[bytes], *, told: str) -> set[Message]:
        """Which of ``messages`` are holes among ``lines``, which stand in their place: no fewer than before."""
        holes = self.holes_among(messages, lines, told=told)
        back = self._holes.intersection(messages) - holes
        if back:
            self._fail(f"erased records are in {told} again: {sorted(back)}")
        return holes

    def holes_among(self, messages: list[Message], lines: list[bytes], *, told: str) -> set[Message]:
        """The same for a file that may be an old one."""
        if len(lines) != len(messages):
            self._fail(f"{told} has {len(lines)} lines, it should have {len(messages)}")
        holes = {message for message, line in zip(messages, lines, strict=True) if line == HOLE[:-1]}
        for message, line in zip(messages, lines, strict=True):
            if message not in holes and line != numbered_line(*message, self._values[message]):
                self._fail(f"{told} has other bytes in the place of {message}: {line!r}")
        return holes

    def _look_into(self, file: DataFile) -> None:
        """What the bytes of a file that was listed just now say."""
        body = self.bytes_at(file.path)
        holes = self.shown(self.messages_of(file.id), lines_of(body), told=f"file {file.id}")
        wrong = {message for message in holes if self._values[message] not in self.meant}
        if wrong:
            self._fail(f"records were erased that nobody meant: {sorted(wrong)}")
        provenance = read_provenance(body)
        said: Counter[str] = Counter()
        for source, count, *_ in provenance.erased if provenance else ():
            said[source] += count
        if said != Counter(origin for origin, _ in holes) or file.erased != len(holes):
            self._fail(f"file {file.id} has the holes {sorted(holes)} and says {dict(said)}")
        self._holes |= holes


def lines_of(body: bytes) -> list[bytes]:
    """The messages of a data file."""
    return [line for line in gzip.decompress(body).split(b"\n")[:-1] if b'"SCHEMA"' not in line]


@dataclass(eq=False)
class ValuesWriterJob(WriterJob):
    """A writer of records that differ."""

    def file(self, run: Run, seq: int, messages: int) -> Upload:
        truth = _truth(self.world)
        id = self.world.ids()
        values = tuple(self.world.choices.below(VALUES) for _ in range(messages))
        truth.wrote(id, messages, run=run.id, seq=seq)
        truth.wrote_values(id, values)
        return numbered_file(id, values, run=run.id, seq=seq)


@dataclass(eq=False)
class EraserJob(Actor):
    """Erases the records of some values, one value after the other, now and then with the files that held them at once,
    or only says where they are."""

    values: list[int]

    def run(self, process: Process) -> None:
        world, truth, store = self.world, _truth(self.world), self.store(process)
        storage = cast(Storage, _Told(world))
        while self.values:
            self.rest(process)
            value, dry_run = self.values[0], world.choices.below(5) == 1
            if not dry_run:
                truth.meant.add(value)
            meant = truth.holding(value)
            context = StreamContext(storage, TAP, STREAM, process.clock, world.ids, store)
            done = erase_messages(
                context,
                Condition((Test("=", ((Decimal(value),),), path=("n",)),)),
                who=self.name,
                dry_run=dry_run,
                engine=Threads(storage, 1),
            )
            world.note(f"erased {done.records} records of {value}; dry run: {dry_run}")
            problems = [finding for finding in done.findings if finding.problem]
            if problems:
                world.fail(f"an eraser found fault: {problems}")
            if not dry_run:
                truth.erased(meant)
                if not store.abilities.followable:
                    self._published(meant)
                self.values.pop(0)
                if world.choices.below(3) == 1:
                    collected = collect_now(context, self.goes_at_once(done))
                    world.note(f"deleted at once: {collected.deleted.files} files of {len(done.left)}")

    def goes_at_once(self, done: Erased) -> frozenset[str]:
        """The ids of what is deleted without a grace time."""
        return frozenset(each.id for each in done.left if each.id is not None)

    def _published(self, meant: set[Message]) -> None:
        """Readers of this store have nothing but ``manifest.json``."""
        key = self.world.prefix + layout.MANIFEST
        stored, truth = self.world.storage.as_it_is(key), _truth(self.world)
        for file in truth.stored(stored.body, key).files if stored else ():
            there = self.world.storage.as_it_is(self.world.prefix + file.path)
            if there is None:
                continue
            messages = truth.messages_of(file.id)
            holes = truth.holes_among(messages, lines_of(there.body), told="what is published")
            if meant.intersection(messages) - holes:
                self.world.fail("an erasure was acknowledged, and readers are shown the records")


class _Told:
    """The storage, as an eraser has it: that it makes a file is told to whoever knows what is so."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.storage, name)

    def upload(self, key: str, path: Path, ready: Callable[[], object] = lambda: None) -> int:
        _truth(self._world).rewrote(key.removeprefix(self._world.prefix), path.read_bytes())
        return self._world.storage.upload(key, path, ready)


class RebuildingAuditor(Auditor):
    """Looks at the state in the end, and at what would be made of the files if it were lost."""

    def run(self, process: Process) -> None:
        super().run(process)
        world, truth = self.world, _truth(self.world)
        assert truth.newest is not None
        birth = fold.empty(
            tap=TAP,
            stream=STREAM,
            store="lockfile",
            lineage=world.ids(),
            created=timestamp(process.clock.now()),
            transaction_id=world.ids(),
        )
        made = rebuild.rebuild_manifest(world.storage, birth, engine=Threads(world.storage, 1)).manifest
        truth.rebuilt(made)
        lasting = truth.messages(truth.newest)
        found: list[Message] = []
        perhaps: set[Message] = set()
        for file in made.files:
            messages = truth.messages_of(file.id)
            kept = {origin for origin, _ in messages} & {origin for origin, _ in lasting}
            lasts = [message for message in messages if message[0] in kept]
            if not truth.judges(messages):
                perhaps.update(lasts)
                continue
            found += lasts
            if kept:
                truth.shown(messages, lines_of(truth.bytes_at(file.path)), told=f"file {file.id} of a rebuild")
        if sorted(found) != sorted(message for message in lasting if message in found or message not in perhaps):
            world.fail("a rebuild from the files alone has other messages than the state")


def _truth(world: World) -> ErasedTruth:
    assert isinstance(world.truth, ErasedTruth)
    return world.truth


def see_bytes(world: World) -> None:
    """Let the truth look at objects."""

    def bytes_at(path: str) -> bytes:
        there = world.storage.as_it_is(world.prefix + path)
        assert there is not None
        return there.body

    _truth(world).bytes_at = bytes_at


def _erasers(world: World, kind: Kind) -> Iterator[Actor]:
    choices = world.choices
    see_bytes(world)
    for number in range(1 + choices.below(2)):
        values = [choices.below(VALUES) for _ in range(1 + choices.below(2))]
        yield EraserJob(f"eraser{number}", world, kind, values)
    if choices.below(4) == 1:
        yield DropperJob("dropper", world, kind, 1)


ERASING = {
    f"erasing-{name}": replace(
        kind,
        name=f"erasing-{name}",
        truth=ErasedTruth,
        extras=_erasers,
        writer_job=ValuesWriterJob,
        auditor=RebuildingAuditor,
    )
    for name, kind in KINDS.items()
}
