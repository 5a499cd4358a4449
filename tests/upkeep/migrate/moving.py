"""Streams on their way from one manifest store to another, for tests of that."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.clock import timestamp
from singerlake.errors import StorageUnavailableError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.model import Manifest, Run, StreamSchema
from singerlake.format.state.transactions import RecordRun, ReplaceFiles, RetireFiles
from singerlake.settings import StoreSettings
from singerlake.singer_file import Spool, compress_member
from singerlake.stores.segments.stored import read_manifest
from singerlake.stores.writer import StreamWriter, Upload
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.migrate import Migration, migrate_stream
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.stores import IN_A_DATABASE, ON_THE_LAKE, Place, make_place
from tests.upkeep.shelf import SCHEMA, schema_line

KEY = layout.manifest_key("t", "s")
KINDS = ON_THE_LAKE + IN_A_DATABASE
PAIRS = list(itertools.permutations(KINDS, 2))
LAKE_PAIRS = list(itertools.permutations(ON_THE_LAKE, 2))
RUN = Run(id="r", writer="ada", started="2026-01-01T00:00:00Z", updated="2026-01-01T00:00:01Z", status="finished")


class Killed(BaseException):
    """The process ends here."""


def lives_in(source: str, *others: str, request: pytest.FixtureRequest) -> Place:
    """A stream of ``source`` on a lake that has an id, as runs make it; its other stores can be reached, too."""
    place = make_place(source, request)
    for kind in others:
        if kind in IN_A_DATABASE:
            other = make_place(kind, request)
            changed = {
                name: value
                for name, value in vars_of(other.settings).items()
                if value != vars_of(StoreSettings())[name]
            }
            place = Place(
                source,
                settings=StoreSettings(**{**vars_of(place.settings), **changed}),
                s3=place.s3 or other.s3,
                ids=other.ids,
            )
    place.lake.lake_id(source)
    return place


def vars_of(settings: StoreSettings) -> dict[str, object]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def with_history(place: Place) -> Manifest:
    """A stream with files of two versions, a vacuumed file, an orphan that was retired, and a run."""
    base = place.born()
    base = place.committed(
        base,
        add(new_file("a", 3), new_file("b", 2), run=RUN),
        add(new_file("c", 4, schema=1)),
        ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),)),
        RetireFiles(files=(("x", "x/x"),)),
        RecordRun(run=RUN),
    )
    return base.manifest


def migrate(place: Place, kind: str, *, dry_run: bool = False) -> Migration:
    stream = place.lake.stream("t", "s")
    context = StreamContext(place.storage, "t", "s", place.clock, place.ids, stream.store())
    return migrate_stream(context, stream.store(kind), dry_run=dry_run)


def newest(place: Place) -> Manifest:
    """The state as the store that keeps the stream has it."""
    loaded = place.lake.stream("t", "s").store().load()
    assert loaded is not None
    return loaded.manifest


def content(manifest: Manifest) -> dict[str, object]:
    """All of a state but where it is kept and how many transactions it took."""
    return {
        name: getattr(manifest, name)
        for name in manifest.__struct_fields__
        if name not in ("store", "transaction", "closed")
    }


def published(place: Place) -> Manifest:
    stored = place.storage.get(KEY)
    assert stored is not None
    return read_manifest(stored.body, key=KEY, storage=place.storage)


def steps_of(place: Place, target: str) -> int:
    """How many steps a whole migration takes on the storage."""
    seen = itertools.count()
    place.storage.hook = lambda _: next(seen) and None
    migrate(place, target)
    place.storage.hook = lambda _: None
    return next(seen)


def kill_at(place: Place, number: int) -> None:
    """Raise at the step of that number, and at every later one: a process that ended does nothing more."""
    left = itertools.count()

    def hook(step: Step) -> None:
        if next(left) >= number:
            raise Killed

    place.storage.hook = hook


def at(place: Place, number: int, act: Callable[[], Any]) -> list[Step]:
    """Call ``act`` at the step of that number."""
    left, met = itertools.count(), list[Step]()

    def hook(step: Step) -> None:
        if not met and next(left) == number:
            met.append(step)
            act()

    place.storage.hook = hook
    return met


def unanswered(place: Place, number: int, operation: str, *, finished: bool) -> list[Step]:
    """Leave the request of that number without an answer, of those of one operation: before it has its effect, or
    after it (``finished``)."""
    left, failed = itertools.count(), list[Step]()

    def hook(step: Step) -> None:
        if (step.operation, step.done) == (operation, finished) and next(left) == number:
            failed.append(step)
            if operation == "put":
                raise UnknownOutcomeError("no answer", key=step.key)
            raise StorageUnavailableError("no answer", key=step.key)

    place.storage.hook = hook
    return failed


def places(source: str, target: str, request: pytest.FixtureRequest) -> Iterator[tuple[int, Place, Manifest]]:
    """For each step of a migration, a stream that is to be migrated."""
    place = lives_in(source, target, request=request)
    with_history(place)
    for number in range(steps_of(place, target)):
        fresh = lives_in(source, target, request=request)
        yield number, fresh, with_history(fresh)


def writer_of(place: Place) -> StreamWriter:
    return place.lake.stream("t", "s").writer(writer_id="ada")


def a_file(place: Place, folder: Path) -> Upload:
    """A finished file of one record, spooled."""
    moment = place.clock.now()
    now = timestamp(moment)
    header = FileHeader(id=place.ids(), created=now, run="r", seq=0)
    path = Path(tempfile.mkdtemp(dir=folder)) / header.id
    spool = Spool(path, schema_line(SCHEMA), header, level=1)
    line = b'{"type":"RECORD","stream":"s","record":{"n":1}}\n'
    spool.append(compress_member(line, 1), raw_bytes=len(line), messages=1, records=1)
    version = schema_hash(SCHEMA)
    key = layout.file_path("s", version, moment, moment, header.id)
    described = spool.describe(path=key, version=version, first=now, last=now)
    return Upload(path, described, StreamSchema(schema=SCHEMA))


def publish(upload: Upload, writer: StreamWriter) -> Manifest:
    return writer.publish(upload.spool, upload.file, upload.schema)
