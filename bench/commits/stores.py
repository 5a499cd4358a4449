"""How many commits the five manifest stores take, from one writer and from eight, near and far; what a commit costs on
a stream of a million files, what loading that takes, and how fast the simulated runs of the tests are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.commits import latency, million, queue
from bench.commits.committing import CLOCK, Crew, Job, Stream, birth, commit
from bench.commits.slow import slow_wire
from bench.measure import Row
from singerlake.adapters import MANIFEST_STORES, ON_THE_LAKE
from singerlake.aws.settings import S3Settings
from singerlake.clock import random_id
from singerlake.lake import Lake
from singerlake.settings import StoreSettings
from singerlake.storage.settings import together
from tests.storage.memory import MemoryStorage

WRITERS = 8
SECONDS = 3.0
FAR = 0.03
"""Seconds added to each call: of the stores on the lake to each one to the storage, of the databases to each message
on the wire."""
GROUP = 8
SHOWN = {"dynamodb": "dynamodb (a fake server)", "postgres": "postgres (a local server without fsync)"}
SEEDS = 50
_NAME = "bench"
_ANY = 1.0
"""A bound that only standing still misses: these rows are there to be compared."""
_IN_MEMORY = Path("/dev/shm")


@dataclass
class Counted:
    """Files that writers were told are committed, and those of them that are not listed once."""

    told: int = 0
    missing: int = 0


@dataclass(frozen=True)
class Servers:
    """The databases, and what reaches them near and far."""

    near: StoreSettings
    far: StoreSettings
    s3: S3Settings


@dataclass
class Bench:
    """What every measurement needs."""

    folder: Path
    servers: Servers
    crew: Crew
    counted: Counted = field(default_factory=Counted)

    def stream(self, kind: str, *, far: bool) -> Stream:
        """A new stream. Of a database the wire is slow, of the others the storage."""
        stores = self.servers.far if far else self.servers.near
        delay = FAR if far and kind in ON_THE_LAKE else 0.0
        return Stream(kind, str(self.folder / random_id()), stores, self.servers.s3, delay)

    def rate(self, kind: str, writers: int, *, far: bool = False, files: int = 1) -> float:
        """Files a second that so many writers commit together; counts what is listed afterwards."""
        stream = self.stream(kind, far=far)
        birth(stream.store())
        done = self.crew.run(Job(stream, SECONDS, files), writers)
        told = [id for each in done for id in each.told]
        loaded = replace(stream, delay=0.0).store().load()
        listed = [file.id for file in loaded.manifest.files] if loaded else []
        self.counted.told += len(told)
        self.counted.missing += len(set(told) - set(listed)) + len(listed) - len(set(listed))
        shutil.rmtree(stream.lake_root, ignore_errors=True)
        return sum(each.rate for each in done)


def rows(cache: Path) -> Iterator[Row]:
    """Commits only, no uploads: for ``merge`` a commit is its receipt, settled after the clock was stopped."""
    work = cache / "stores"
    work.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        servers = stack.enter_context(_servers())
        for kind in MANIFEST_STORES:
            yield _in_process(kind, servers)
        near = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_IN_MEMORY if _in_memory() else work)))
        bench = Bench(near, servers, stack.enter_context(Crew(WRITERS)))
        for far in (False, True):
            for kind in MANIFEST_STORES:
                yield from _one_and_many(bench, kind, far=far)
        yield _row(
            "log", bench.rate("log", WRITERS, far=True, files=GROUP), _many("log", far=True, files=GROUP), bound=100
        )
        yield Row(
            name=f"of {bench.counted.told} files told committed above, not listed once",
            value=bench.counted.missing,
            unit="files",
            bound=0,
        )
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=work)))
        yield from latency.rows(folder, servers.near, servers.s3)
        yield from million.rows(folder)
        yield from queue.rows(work)
    yield _simulated()


def _one_and_many(bench: Bench, kind: str, *, far: bool) -> Iterator[Row]:
    one = bench.rate(kind, 1, far=far)
    yield _row(kind, one, f"commits, 1 writer, {_where(kind, far)}")
    many = bench.rate(kind, WRITERS, far=far)
    if far and kind == "merge":
        yield _row(kind, many, _many(kind, far=True), bound=6, against="1 writer", against_value=one, ratio=many / one)
    else:
        yield _row(kind, many, _many(kind, far=far), bound=300 if kind == "log" and not far else _ANY)


def _many(kind: str, *, far: bool, files: int = 1) -> str:
    grouped = f" of {files} files" if files > 1 else ""
    return f"commits{grouped}, {WRITERS} processes, {_where(kind, far)}"


def _where(kind: str, far: bool) -> str:
    if far:
        return f"{FAR * 1000:.0f} ms a call"
    if kind not in ON_THE_LAKE:
        return "local"
    return "a folder in memory" if _in_memory() else "a folder on disk"


def _in_memory() -> bool:
    """Whether there is a file system that makes fsync cost nothing, so that the store is measured and not the disk."""
    return os.access(_IN_MEMORY, os.W_OK)


def _row(kind: str, value: float, what: str, *, bound: float = _ANY, **more: Any) -> Row:
    return Row(name=f"{SHOWN.get(kind, kind)}: {what}", value=value, unit="files/s", bound=bound, at_most=False, **more)


def _in_process(kind: str, servers: Servers) -> Row:
    """One writer on a storage in its own memory: what is left is the store's own work."""
    storage = MemoryStorage(clock=CLOCK, ids=random_id)
    store = Lake(storage, stores=servers.near, settings=together(servers.s3)).stream("bench", "orders").store(kind)
    base = birth(store)
    job = Job(Stream(kind, ""), SECONDS)
    done = commit(job, store, base, time.monotonic())
    return _row(kind, done.rate, "commits, 1 writer, storage in memory", bound=50)


def _simulated() -> Row:
    """Whole runs of several writers, readers and faults, in one process."""
    from tests.simulation.stores.kinds import KINDS

    command = [sys.executable, "-m", "tests.simulation", "--store", "all", "--seeds", str(SEEDS)]
    started = time.perf_counter()
    # Whether the runs keep their promises is for the tests to say.
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rate = SEEDS * len(KINDS) / (time.perf_counter() - started)
    return Row(name="simulated runs of all stores", value=rate, unit="seeds/s", bound=20, at_most=False)


@contextmanager
def _servers() -> Iterator[Servers]:
    """Both databases on this machine, each with a near and a far port."""
    from singerlake.stores.dynamodb.client import DynamoTable
    from singerlake.stores.dynamodb.tables import create_table
    from singerlake.stores.postgres.schema import create_schema
    from tests.servers.dynamodb import dynamodb_server
    from tools.postgres import postgres_server

    with dynamodb_server() as dynamodb, postgres_server() as postgres, ExitStack() as wires:
        create_table(DynamoTable(_NAME, dynamodb.settings(), endpoint_url=dynamodb.endpoint_url, clock=CLOCK))
        create_schema(postgres.dsn, _NAME)
        near = StoreSettings(
            dynamodb_table=_NAME,
            dynamodb_endpoint_url=dynamodb.endpoint_url,
            postgres_url=postgres.dsn,
            postgres_schema=_NAME,
        )
        port = urlsplit(dynamodb.endpoint_url).port
        assert port is not None
        far = replace(
            near,
            dynamodb_endpoint_url=f"http://127.0.0.1:{wires.enter_context(slow_wire(port, FAR))}",
            postgres_url=replace(postgres, port=wires.enter_context(slow_wire(postgres.port, FAR))).dsn,
        )
        yield Servers(near, far, dynamodb.settings())
