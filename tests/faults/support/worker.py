"""A process of the fault cases: publishes prepared files, vacuums, erases, expires, collects, trims or reads, and can
be hit at any call.

It acknowledges a file, in ``<name>.acks``, only when the file is committed and settled. What it says and how it fails
is in ``<name>.log``.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import msgspec

from singerlake.conditions import parse_condition
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import StreamSchema
from singerlake.lake import Lake
from singerlake.lock_file import LockSettings
from singerlake.stores.writer import Receipt, StreamWriter, Upload
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.erase.erase import erase_messages
from singerlake.upkeep.gc.apply import collect_stream
from singerlake.upkeep.gc.expire import Cut, expire_messages
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from singerlake.work.engine import Threads
from tests.faults.support.haste import Haste, ShiftedClock
from tests.faults.support.places import LOCK, Place

_BARRIER_SECONDS = 60
_LEAVE_SECONDS = 5
THREE_FILES = 1500
"""Stored bytes of three prepared files, more or less: what a vacuum joins into one."""

MEANT = ("first-1-0-2", "first-1-1-0", "first-4-0-0")
"""What the records hold that are to be erased: two of one prepared file, and one of another."""
OLD = 12
"""The offset before which messages expire: those of two prepared files."""


@dataclass(frozen=True)
class Point:
    """A call in the worker's process, and what happens to the process there: ``kill``, ``stop`` (until somebody sends
    SIGCONT), ``meet`` (the others at the barrier) or ``count`` (nothing, but how often it came there is in
    ``<name>.count``). ``nth`` counts the calls that match."""

    call: str
    action: str
    after: bool = False
    nth: int = 1


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one process does. ``shifts`` are what its wall clock is off by, in seconds, at its first file, its second
    and so on, the last one for the rest; ``frozen`` makes that clock stand still."""

    place: Place
    name: str
    folder: Path
    task: str = "write"
    points: tuple[Point, ...] = ()
    shifts: tuple[float, ...] = (0.0,)
    frozen: bool = False
    lock: LockSettings = LOCK
    keep: int = 0

    def file(self, kind: str) -> Path:
        return self.folder / f"{self.name}.{kind}"


class Prepared(msgspec.Struct, frozen=True):
    """A finished file that waits for its publication, with its schema."""

    spool: str
    file: NewFile
    schema: StreamSchema


class StandingClock(ShiftedClock):
    """A wall clock that shows one moment for ever."""

    def __init__(self, haste: Haste | None) -> None:
        super().__init__(haste)
        self._standing = super().now()

    def now(self) -> datetime:
        return self._standing


class Calls:
    """Counts the calls that points name, and does there what they say."""

    def __init__(self, points: tuple[Point, ...], barrier: Barrier | None) -> None:
        self._points: list[list[Any]] = [[point, re.compile(point.call), 0] for point in points]
        self._barrier = barrier
        self._lock = threading.Lock()
        self._inside: Counter[int] = Counter()
        self._left = threading.Condition()

    def around(self, name: str, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        thread = threading.get_ident()
        with self._left:
            self._inside[thread] += 1
        try:
            self._meet(name, after=False)
            result = call(*arguments, **keywords)
            self._meet(name, after=True)
        finally:
            with self._left:
                self._inside[thread] -= 1
                self._left.notify_all()
        return result

    @property
    def counted(self) -> int:
        """How many calls matched the first point."""
        return self._points[0][2] if self._points else 0

    def _meet(self, name: str, *, after: bool) -> None:
        for each in self._points:
            point, pattern, _ = each
            if point.after is not after or not pattern.search(name):
                continue
            with self._lock:
                each[2] += 1
                due = each[2] == point.nth
            if not due or point.action == "count":
                continue
            if point.action == "meet":
                assert self._barrier is not None
                self._barrier.wait(_BARRIER_SECONDS)
            elif point.action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            else:
                self._stop()

    def _stop(self) -> None:
        """Stop the process while no other thread is in a call. One that refreshes a lock would keep the file lock that
        a write to a folder takes, and all other processes would wait for it."""
        thread = threading.get_ident()
        with self._left:
            self._left.wait_for(lambda: self._inside.total() == self._inside[thread], _LEAVE_SECONDS)
            os.kill(os.getpid(), signal.SIGSTOP)


class Watched:
    """Any object whose methods, called from outside it, are calls that points can name: ``<name>.<method> <key>``."""

    def __init__(self, name: str, inner: Any, calls: Calls) -> None:
        self._watched = (name, inner, calls)

    def __getattr__(self, attribute: str) -> Any:
        name, inner, calls = self._watched
        value = getattr(inner, attribute)
        if not callable(value):
            return value

        def call(*arguments: Any, **keywords: Any) -> Any:
            key = f" {arguments[0]}" if arguments and isinstance(arguments[0], str) else ""
            return calls.around(f"{name}.{attribute}{key}", value, *arguments, **keywords)

        return call


def work(job: Job, barrier: Barrier | None = None) -> None:
    """The process's main function; ends it."""
    output = os.open(job.file("log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, force=True)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    code = 1
    try:
        calls = Calls(job.points, barrier)
        _perform(job, calls)
        job.file("count").write_text(str(calls.counted))
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _perform(job: Job, calls: Calls) -> None:
    clock = (StandingClock if job.frozen else ShiftedClock)(job.place.haste)
    clock.shift = job.shifts[0]
    _watch_drivers(calls)
    lake = job.place.lake(clock)
    lake = replace(lake, storage=Watched("storage", lake.storage, calls))  # type: ignore[arg-type]
    if job.task == "write":
        writer = job.place.writer(job.name, lake, job.lock)
        writer.store = Watched("store", writer.store, calls)  # type: ignore[assignment]
        _write(job, writer, clock, calls)
        return
    store = Watched("store", lake.stream("t", job.place.stream).store(job.place.kind.name), calls)
    if job.task == "vacuum":
        _vacuum(job, lake, store)
    elif job.task == "erase":
        _erase(job, lake, store)
    elif job.task == "expire":
        _expire(job, lake, store)
    elif job.task == "gc":
        _collect(job, lake, store)
    elif job.task == "trim":
        print(store.trim(keep=job.keep, dry_run=False), flush=True)
    else:
        loaded = store.load()
        _append(job.file("read"), "\n".join(file.id for file in loaded.manifest.files))


def _vacuum(job: Job, lake: Lake, store: Any) -> None:
    """Join small files one run after the other, so that a call has the same number in every life."""
    done = vacuum_stream(
        StreamContext(lake.storage, "t", job.place.stream, lake.clock, lake.ids, store),
        target_bytes=THREE_FILES,
        threads=1,
    )
    print(done, flush=True)
    assert not any(finding.problem for finding in done.findings)


def _erase(job: Job, lake: Lake, store: Any) -> None:
    """Erase ``MEANT``, one file after the other."""
    done = erase_messages(
        StreamContext(lake.storage, "t", job.place.stream, lake.clock, lake.ids, store),
        parse_condition(f"n in {MEANT}", str),
        who=job.name,
        dry_run=False,
        engine=Threads(lake.storage, 1),
    )
    print(done, flush=True)
    assert not any(finding.problem for finding in done.findings)


def _expire(job: Job, lake: Lake, store: Any) -> None:
    """Expire what is before ``OLD``."""
    context = StreamContext(lake.storage, "t", job.place.stream, lake.clock, lake.ids, store)
    print(expire_messages(context, Cut(before=OLD), dry_run=False), flush=True)


def _collect(job: Job, lake: Lake, store: Any) -> None:
    """Take the next step of all that is retired, without waiting."""
    done = collect_stream(
        StreamContext(lake.storage, "t", job.place.stream, lake.clock, lake.ids, store),
        grace=timedelta(0),
        delete=True,
        threads=1,
    )
    print(done, flush=True)
    # Without waiting, what a writer has just uploaded counts as unlisted.
    assert not any(finding.kind in ("missing", "differs") for finding in done.findings)


def _write(job: Job, writer: StreamWriter, clock: ShiftedClock, calls: Calls) -> None:
    prepared = [msgspec.json.decode(line, type=Prepared) for line in job.file("plan").read_bytes().splitlines()]
    calls.around("worker.open", writer.open)
    waiting: list[Receipt] = []
    for number, each in enumerate(prepared):
        clock.shift = job.shifts[min(number, len(job.shifts) - 1)]
        waiting.append(writer.submit([Upload(Path(each.spool), each.file, each.schema)]))
        waiting = calls.around("worker.acknowledge", _acknowledge, job, waiting)
    for receipt in waiting:
        writer.settled(receipt)
        calls.around("worker.acknowledge", _acknowledge, job, [receipt])
    writer.finish()


def _acknowledge(job: Job, receipts: list[Receipt]) -> list[Receipt]:
    """Note the files of the receipts that are filled; gives the others."""
    for receipt in receipts:
        if receipt.manifest is not None:
            _append(job.file("acks"), "".join(f"{file.id}\n" for file in receipt.files))
    return [receipt for receipt in receipts if receipt.manifest is None]


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def _watch_drivers(calls: Calls) -> None:
    """Make what databases and the disk are asked for calls that points can name: ``dynamodb.<operation>``,
    ``postgres.<statement>``, ``os.replace <path>``."""
    original_replace = os.replace

    def renaming(source: Any, target: Any) -> None:
        calls.around(f"os.replace {os.fspath(target)}", original_replace, source, target)

    os.replace = renaming  # type: ignore[assignment]

    from botocore.client import BaseClient

    original_call = BaseClient._make_api_call

    def calling(client: Any, operation: str, arguments: Any) -> Any:
        service = client.meta.service_model.service_name
        return calls.around(f"{service}.{operation}", original_call, client, operation, arguments)

    BaseClient._make_api_call = calling

    import psycopg

    original_execute, original_commit = psycopg.Cursor.execute, psycopg.Connection.commit

    def executing(cursor: Any, query: Any, *arguments: Any, **keywords: Any) -> Any:
        name = f"postgres.{query if isinstance(query, str) else query.as_string(None)}"
        return calls.around(name, original_execute, cursor, query, *arguments, **keywords)

    def committing(connection: Any) -> None:
        calls.around("postgres.COMMIT", original_commit, connection)

    psycopg.Cursor.execute = executing  # type: ignore[method-assign]
    psycopg.Connection.commit = committing  # type: ignore[method-assign]
