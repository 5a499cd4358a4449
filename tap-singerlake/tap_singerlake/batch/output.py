"""What a stream writes where batches are wanted: messages in their order, with their records in files.

A batch file is sent to its storage whole, then comes its BATCH message, then the STATE that says how far it went. What
a batch cannot hold ends it: another SCHEMA, an ACTIVATE_VERSION, records of another ``version``.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self

from isal import isal_zlib

from singerlake.clock import IdSource
from singerlake.errors import SettingError
from singerlake.format.lines.records import Cut, cut, line_at
from singerlake.format.state.bookmark import Bookmark
from singerlake.spools import Spools
from singerlake.storage.port import Storage
from singerlake.upkeep.gc.batch_files import BatchNames
from singerlake.work.ahead import begun
from tap_singerlake.batch.settings import BatchConfig
from tap_singerlake.error_settings import on_spool, place_of
from tap_singerlake.output import encode

_ROOM = 16 << 20
"""Bytes of messages that may wait to be cut, and of records that may wait to be encoded."""
_UPLOADS = 4
"""Files that may be on their way while the next one grows."""

Write = Callable[[bytes | memoryview], None]

_GZIP = 16 + 15
"""``wbits`` of zlib for one gzip member."""
_LEVEL = 1


@dataclass(slots=True)
class _Batch:
    """A file that grows. ``time_extracted`` is the last that a record of it has."""

    stream: str
    version: Any
    path: Path
    encoder: LinesFile | ParquetFile
    time_extracted: Any = None


@dataclass(frozen=True, slots=True)
class DirectOutput:
    """A context for one stream's messages, which go out as they are, at once. After ``most`` messages at the latest a
    checkpoint is due; ``room`` is how many bytes of them may wait while more are read."""

    write: Write
    checkpoint: Callable[[Bookmark], None]
    most: int = sys.maxsize
    room: int = 1 << 19
    """The last part of one gzip member, while the next one is inflated: it is written while the cache still has it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is held."""

    def finish(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Where the batch files of a run go, and their names."""

    config: BatchConfig
    storage: Storage
    names: BatchNames


@dataclass
class BatchOutput:
    """The same with records in files. Left by an error, nothing more is written. Raises what storage raises,
    ``StorageFullError`` for the local disk, ``SettingError`` and what ``say`` raises."""

    batches: Batches
    say: Write
    state: Callable[[Bookmark], None]
    ids: IdSource
    _open: dict[str, _Batch] = field(default_factory=dict)
    _waiting: deque[tuple[Future[None] | None, Callable[[], None]]] = field(default_factory=deque)
    _worker: Worker = field(default_factory=lambda: Worker("singerlake-batch", _ROOM))
    _ends: ExitStack = field(default_factory=ExitStack)
    _folder: Path = Path()

    @property
    def most(self) -> int:
        return self.batches.config.size

    @property
    def room(self) -> int:
        return _ROOM

    def __enter__(self) -> Self:
        with on_spool():
            self._folder = self._ends.enter_context(Spools(None).make())
        self._ends.callback(self._worker.close)
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()

    def write(self, lines: bytes | memoryview) -> None:
        """Whole lines of SCHEMA, RECORD and ACTIVATE_VERSION messages."""
        at = 0
        while at < len(lines):
            found = cut(lines, at)
            if found.count:
                self._add(found)
                at = found.end
            else:
                line = line_at(lines, at)
                self._end_all()
                self._put(None, partial(self.say, line))
                at += len(line)

    def checkpoint(self, bookmark: Bookmark) -> None:
        """All that was written goes out before the STATE of ``bookmark``."""
        self._end_all()
        self._put(None, partial(self.state, bookmark))

    def finish(self) -> None:
        """Return when everything is out."""
        self._end_all()
        self._say_ready(left=0)

    def _add(self, found: Cut) -> None:
        batch = self._open.get(found.stream)
        if batch is not None and (batch.version, type(batch.version)) != (found.version, type(found.version)):
            self._end(self._open.pop(found.stream))
            batch = None
        if batch is None:
            path = self._folder / self.ids()
            batch = _Batch(found.stream, found.version, path, encoder(self.batches.config, path))
            self._open[found.stream] = batch
        if found.time_extracted is not None:
            batch.time_extracted = found.time_extracted
        add, records = batch.encoder.add, found.records
        self._worker.do(lambda: add(records), len(records))

    def _end_all(self) -> None:
        while self._open:
            self._end(self._open.pop(next(iter(self._open))))

    def _end(self, batch: _Batch) -> None:
        whole = self._worker.do(batch.encoder.finish)
        key = self.batches.names.next_key(batch.stream, self.batches.config.suffix)

        def send(_: None) -> None:
            whole.result()
            with place_of("batch_config"):
                self.batches.storage.upload(key, batch.path)
            batch.path.unlink(missing_ok=True)

        message: dict[str, Any] = {
            "type": "BATCH",
            "stream": batch.stream,
            "encoding": {"format": self.batches.config.format, "compression": self.batches.config.compression},
            "manifest": [self.batches.names.url(key)],
        }
        for name in ("version", "time_extracted"):
            if (value := getattr(batch, name)) is not None:
                message[name] = value
        self._put(begun(send, None), partial(self.say, encode(message) + b"\n"))

    def _put(self, sent: Future[None] | None, say: Callable[[], None]) -> None:
        self._waiting.append((sent, say))
        self._say_ready(left=_UPLOADS)

    def _say_ready(self, *, left: int) -> None:
        """Write what has its turn and whose file is sent; of files that are not, no more than ``left`` stay."""
        while self._waiting:
            sent, say = self._waiting[0]
            uploads = sum(each is not None for each, _ in self._waiting)
            if sent is not None and uploads <= left and not sent.done():
                return
            if sent is not None:
                sent.result()
            say()
            self._waiting.popleft()


class Worker:
    """One thread. ``room`` is the most bytes that may be under way, but one piece of work of any size. After an error
    nothing more is done: later work fails with it, too. It keeps no process alive."""

    def __init__(self, name: str, room: int) -> None:
        self._name = name
        self._room = room
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Callable[[], None], int, Future[None]]] = deque()
        self._under_way = 0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._error: BaseException | None = None

    def do(self, work: Callable[[], None], size: int = 0) -> Future[None]:
        """Have ``work`` done after all that came before. Waits while too much is under way. Raises what earlier work
        raised."""
        done = Future[None]()
        with self._changed:
            self._changed.wait_for(lambda: self._error or not self._under_way or self._under_way + size <= self._room)
            if self._error is not None:
                raise self._error
            self._under_way += size
            self._waiting.append((work, size, done))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return done

    def close(self) -> None:
        """Begin nothing more, and return when nothing is under way. What waited is cancelled."""
        with self._changed:
            self._closed = True
            for _, _, done in self._waiting:
                done.cancel()
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                work, size, done = self._waiting.popleft()
            try:
                if self._error is None:
                    work()
            except BaseException as error:
                self._error = error
            if self._error is None:
                done.set_result(None)
            else:
                done.set_exception(self._error)
            # What it holds is let go before there is room for more.
            del work
            with self._changed:
                self._under_way -= size
                self._changed.notify_all()


def encoder(config: BatchConfig, path: Path) -> LinesFile | ParquetFile:
    """What makes the file at ``path``, which is not there yet."""
    return ParquetFile(path, config.compression) if config.format == "parquet" else LinesFile(path, config.compression)


class LinesFile:
    """JSON lines: the records as they are, in one gzip member or as plain text. Each method raises what the spool's
    disk refuses."""

    def __init__(self, path: Path, compression: str) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._gzip = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP) if compression == "gzip" else None

    def add(self, records: bytes | bytearray) -> None:
        self._write(records if self._gzip is None else self._gzip.compress(records))

    def finish(self) -> None:
        if self._gzip is not None:
            self._write(self._gzip.flush())
        if self._file is not None:
            with on_spool(self._path):
                self._file.close()

    def _write(self, data: bytes | bytearray) -> None:
        with on_spool(self._path):
            if self._file is None:
                self._file = self._path.open("xb", buffering=0)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]


class ParquetFile:
    """Parquet as singer-sdk writes it: a column for each property that a record of the batch has, with the type that
    its values have in common. Holds all records of the batch in memory."""

    def __init__(self, path: Path, compression: str) -> None:
        self._path = path
        self._compression = "gzip" if compression == "gzip" else "snappy"
        self._records: list[dict[str, Any]] = []

    def add(self, records: bytes | bytearray) -> None:
        self._records += map(json.loads, records.splitlines())

    def finish(self) -> None:
        from singerlake.arrow.parquet import UnlikeRecordsError, write_parquet

        try:
            with on_spool(self._path):
                write_parquet(self._path, self._records, compression=self._compression)
        except UnlikeRecordsError as error:
            raise SettingError(
                f"the records of a batch do not fit into columns of parquet: {error}",
                hint="set the format of batch_config to jsonl",
            ) from error
