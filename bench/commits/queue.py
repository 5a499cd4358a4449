"""How many commits a second 64 writers of one stream make far from storage: each by itself, and by way of a queue with
one committer."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.commits.committing import CLOCK, Stream, birth, transaction
from bench.commits.far_queue import far_queue
from bench.commits.slow import SlowStorage
from bench.measure import Row
from singerlake.adapters import by_queue, open_storage
from singerlake.aws.settings import S3Settings
from singerlake.clock import random_id
from singerlake.committer import committer_of
from singerlake.lake import Lake
from singerlake.storage.settings import together
from singerlake.stores.commit import commit_transaction
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.stores.queued.committer import Worker
from singerlake.stores.queued.settings import QueueSettings
from singerlake.stores.queued.sqs import SqsQueue

WRITERS, PROCESSES, THREADS = 64, 4, 4
FAR = 0.03
"""Seconds that each call to storage and each request to the queue take more."""
SECONDS = 10.0
S3 = S3Settings(access_key_id="any", secret_access_key="any", region="us-east-1")
_IN_MEMORY = Path("/dev/shm")
"""As a stream's writer has them."""


@dataclass(frozen=True)
class Job:
    """Commits of one file each, for so many seconds; ``url`` is that of the queue, if there is one."""

    stream: Stream
    url: str | None


def rows(cache: Path) -> Iterator[Row]:
    """The two in one run, and what was lost or doubled."""
    cache.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        url = stack.enter_context(far_queue(FAR))
        near = _IN_MEMORY if _IN_MEMORY.is_dir() else cache
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=near)))
        wrong = 0
        direct, lost = measure(folder, None)
        wrong += lost
        queued, lost = measure(folder, url)
        wrong += lost
    yield Row(
        name=f"log: commits of {WRITERS} writers by a queue, {FAR * 1000:.0f} ms a request",
        value=queued,
        unit="files/s",
        bound=5,
        at_most=False,
        against="each by itself",
        against_value=direct,
        ratio=queued / direct,
    )
    yield Row(name="of files told committed there, not listed once", value=wrong, unit="files", bound=0)


def measure(folder: Path, url: str | None) -> tuple[float, int]:
    """Files a second that all writers together were told are committed, and those that are not listed once."""
    stream = Stream("log", str(folder / random_id()), delay=FAR)
    Lake(open_storage(stream.lake_root)).lake_id("log")
    birth(replace(stream, delay=0.0).store())
    job = Job(stream, url)
    context = multiprocessing.get_context("spawn")
    ends: list[Connection] = []
    processes = []
    for work in (*([_write] * PROCESSES), *([_commit] if url else [])):
        end, theirs = context.Pipe()
        process = context.Process(target=work, args=(job, theirs), daemon=True)
        process.start()
        processes.append(process)
        ends.append(end)
    for end in ends:
        end.recv()
    begin = time.monotonic() + 0.2
    for end in ends[:PROCESSES]:
        end.send(begin)
    told = [id for end in ends[:PROCESSES] for id in end.recv()]
    for process in processes:
        process.kill()
        process.join()
    loaded = replace(stream, delay=0.0).store().load()
    listed = [file.id for file in loaded.manifest.files] if loaded else []
    shutil.rmtree(stream.lake_root, ignore_errors=True)
    return len(told) / SECONDS, len(set(told) - set(listed)) + len(listed) - len(set(listed))


def _lake(job: Job) -> Lake:
    storage: Any = SlowStorage(open_storage(job.stream.lake_root), FAR)
    return Lake(storage, settings=together(S3))


def _store(job: Job) -> ManifestStore:
    lake = _lake(job)
    store = lake.stream("bench", "orders").store("log")
    queue = QueueSettings(url=job.url, patience_seconds=60) if job.url else None
    place = StreamPlace(lake.storage, "bench", "orders", CLOCK, random_id)
    return by_queue(store, place, queue, S3, lake_id=lake.lake_id("log"))


def _write(job: Job, end: Connection) -> None:
    """The writers of one process, each a thread."""
    told: list[str] = []
    ready = threading.Barrier(WRITERS // PROCESSES + 1)
    begins: list[float] = []

    def writer(number: int) -> None:
        store = _store(job)
        base = store.load()
        assert base is not None
        if number == 0:
            # What a process loads for its first commit is no part of the others.
            base = _committed(store, base, transaction())
        ready.wait()
        ready.wait()
        over = begins[0] + SECONDS
        time.sleep(max(0.0, begins[0] - time.monotonic()))
        while time.monotonic() < over:
            wanted = transaction()
            base = _committed(store, base, wanted)
            if time.monotonic() < over:
                told.append(wanted.change.files[0].id)  # type: ignore[union-attr]

    threads = [threading.Thread(target=writer, args=(at,), daemon=True) for at in range(WRITERS // PROCESSES)]
    for thread in threads:
        thread.start()
    ready.wait()
    end.send("ready")
    begins.append(end.recv())
    ready.wait()
    time.sleep(max(0.0, begins[0] + SECONDS - time.monotonic()))
    end.send(list(told))


def _committed(store: ManifestStore, base: Loaded, wanted: Any) -> Loaded:
    outcome = commit_transaction(store, base, wanted, clock=CLOCK, attempts=10_000)
    assert isinstance(outcome, Loaded), outcome
    return outcome


def _commit(job: Job, end: Connection) -> None:
    """A committer's process."""
    assert job.url is not None
    queue = SqsQueue(QueueSettings(url=job.url), S3, clock=CLOCK)
    committer = committer_of(_lake(job))
    workers = [Worker(queue, committer, CLOCK) for _ in range(THREADS)]
    threads = [threading.Thread(target=worker.run, daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    end.send("ready")
    for thread in threads:
        thread.join()
