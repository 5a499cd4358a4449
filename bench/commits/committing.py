"""Writers that do nothing but commit descriptions of files, each in a process of its own; no file is uploaded and no
lock file is taken."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from bench.commits.slow import SlowStorage
from singerlake.adapters import open_storage
from singerlake.aws.settings import S3Settings
from singerlake.clock import SystemClock, random_id, timestamp
from singerlake.format import layout
from singerlake.format.file_id import timed_id
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state import fold
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import StreamSchema
from singerlake.format.state.transactions import AddFiles, Transaction
from singerlake.lake import Lake
from singerlake.settings import StoreSettings
from singerlake.storage.settings import together
from singerlake.stores.commit import Commit, submit_transaction
from singerlake.stores.port import Loaded, ManifestStore

SCHEMA = StreamSchema(schema={"type": "object", "properties": {"id": {"type": "integer"}}}, key_properties=("id",))
VERSION = schema_hash(SCHEMA.schema)
MOMENT = "2026-01-01T00:00:00.001000Z"
LATER = "2026-01-01T00:00:01.001000Z"
CLOCK = SystemClock()
_SETTLE_WAIT = 120.0
_POLL = 0.2


@dataclass(frozen=True)
class Stream:
    """A stream on a local disk, in one store, and how to reach it; ``delay`` is added to each call to the storage."""

    kind: str
    lake_root: str
    stores: StoreSettings = field(default_factory=StoreSettings)
    s3: S3Settings | None = None
    delay: float = 0.0

    def store(self) -> ManifestStore:
        """Another writer's or reader's view."""
        storage: Any = open_storage(self.lake_root)
        if self.delay:
            storage = SlowStorage(storage, self.delay)
        return Lake(storage, stores=self.stores, settings=together(self.s3)).stream("bench", "orders").store(self.kind)


@dataclass(frozen=True)
class Job:
    """Commits of ``files`` files each, for so many ``seconds`` or up to ``most`` of them, by each writer."""

    stream: Stream
    seconds: float
    files: int = 1
    most: int = 1000


@dataclass(frozen=True)
class Done:
    """Files a second that a writer was told are committed (or stored, where commits are settled later), and the ids of
    all of them."""

    rate: float
    told: tuple[str, ...]


def birth(store: ManifestStore) -> Loaded:
    """The stream, born if it is new."""
    first = fold.empty(
        tap="bench",
        stream="orders",
        store=store.kind,
        lineage=random_id(),
        created=timestamp(CLOCK.now()),
        transaction_id=random_id(),
    )
    return store.load() or store.create(first)


def new_file() -> NewFile:
    """A file of a thousand records, as a target would describe it."""
    id = timed_id(CLOCK.now(), random_id())
    return NewFile(
        id=id,
        path=f"{layout.to_segment(VERSION)}/orders-20260101T000000.001000Z-20260101T000001.001000Z-{id}.singer.gz",
        version=VERSION,
        messages=1000,
        records=1000,
        bytes=50_000,
        raw_bytes=400_000,
        sha256="0123456789abcdef" * 4,
        first=MOMENT,
        last=LATER,
        members=((180, 1000),),
    )


def transaction(files: int = 1) -> Transaction:
    """One commit of so many new files."""
    change = AddFiles(files=tuple(new_file() for _ in range(files)), schemas={VERSION: SCHEMA})
    return Transaction(id=random_id(), at=timestamp(CLOCK.now()), change=change)


def commit(job: Job, store: ManifestStore, base: Loaded, begin: float) -> Done:
    """Commit from then on, then see receipts settled."""
    told: list[str] = []
    waiting: list[Commit] = []
    in_time, seconds = 0, job.seconds
    for number in range(job.most):
        if time.monotonic() - begin >= job.seconds:
            break
        wanted = transaction(job.files)
        commit = submit_transaction(store, base, wanted, clock=CLOCK)
        if isinstance(commit.outcome, Loaded):
            base = commit.outcome
        elif commit.outcome is None:
            waiting.append(commit)
        else:
            raise RuntimeError(f"{job.stream.kind}: {commit.outcome}")
        assert isinstance(wanted.change, AddFiles)
        told += [file.id for file in wanted.change.files]
        took = time.monotonic() - begin
        if took <= job.seconds:
            in_time += job.files
            seconds = took if number == job.most - 1 else job.seconds
    for commit in reversed(waiting):
        _settled(commit, base)
    return Done(in_time / seconds, tuple(told))


def _settled(commit: Commit, base: Loaded) -> None:
    given_up = time.monotonic() + _SETTLE_WAIT
    while (outcome := commit.look(base)) is None:
        if time.monotonic() > given_up:
            raise RuntimeError(f"not settled: {commit.pending}")
        time.sleep(_POLL)
    if not isinstance(outcome, Loaded):
        raise RuntimeError(f"void: {outcome}")


class Crew:
    """Processes that wait for jobs; use as a context. A job begins in all of them at once."""

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ends: list[Connection] = []
        self._processes = []
        for _ in range(size):
            near, far = context.Pipe()
            process = context.Process(target=_work, args=(far,), daemon=True)
            process.start()
            far.close()
            self._ends.append(near)
            self._processes.append(process)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for end, process in zip(self._ends, self._processes, strict=True):
            with suppress(OSError):
                end.send(None)
            process.join(5)
            if process.is_alive():
                process.kill()

    def run(self, job: Job, writers: int) -> Sequence[Done]:
        """The job in the first so many of them."""
        ends = self._ends[:writers]
        for end in ends:
            end.send(job)
        for end in ends:
            _answer(end)
        begin = time.monotonic() + 0.1
        for end in ends:
            end.send(begin)
        return [_answer(end) for end in ends]


def _answer(end: Connection) -> Any:
    answer = end.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _work(end: Connection) -> None:
    while (job := end.recv()) is not None:
        try:
            store = job.stream.store()
            base = birth(store)
            end.send("ready")
            begin = end.recv()
            time.sleep(max(0.0, begin - time.monotonic()))
            end.send(commit(job, store, base, begin))
        except Exception as error:
            end.send(RuntimeError(f"{job.stream.kind}: {type(error).__name__}: {error}"))
