"""What a stream writes where batches are wanted: messages in their order, with their records in files.

A batch file is sent to its storage whole, then comes its BATCH message, then the STATE that says how far it went. What
a batch cannot hold ends it: another SCHEMA, an ACTIVATE_VERSION, records of another ``version``.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

from singerlake.clock import IdSource
from singerlake.format.lines.records import Cut, cut, line_at
from singerlake.format.state.bookmark import Bookmark
from singerlake.spools import Spools
from singerlake.storage.port import Storage
from singerlake.upkeep.gc.batch_files import BatchNames
from singerlake.work.ahead import begun
from tap_singerlake.batch.files import Encoder, encoder
from tap_singerlake.batch.settings import BatchConfig
from tap_singerlake.batch.worker import Worker
from tap_singerlake.error_settings import place_of, spool_error
from tap_singerlake.output import encode

_ROOM = 16 << 20
"""Bytes of messages that may wait to be cut, and of records that may wait to be encoded."""
_UPLOADS = 4
"""Files that may be on their way while the next one grows."""

Write = Callable[[bytes | memoryview], None]


@dataclass(slots=True)
class _Batch:
    """A file that grows. ``time_extracted`` is the last that a record of it has."""

    stream: str
    version: Any
    path: Path
    encoder: Encoder
    time_extracted: Any = None


class Output(Protocol):
    """A context for one stream's messages. After ``most`` messages at the latest a checkpoint is due; ``room`` is how
    many bytes of them may wait while more are read."""

    @property
    def most(self) -> int: ...

    @property
    def room(self) -> int: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def write(self, lines: bytes | memoryview) -> None:
        """Whole lines of SCHEMA, RECORD and ACTIVATE_VERSION messages."""
        ...

    def checkpoint(self, bookmark: Bookmark) -> None:
        """All that was written goes out before the STATE of ``bookmark``."""
        ...

    def finish(self) -> None:
        """Return when everything is out."""
        ...


@dataclass(frozen=True, slots=True)
class DirectOutput:
    """Messages as they are, at once."""

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
    """Records in files. Left by an error, nothing more is written.

    Raises what storage raises, ``StorageFullError`` for the local disk, ``SettingError`` and what ``say`` raises.
    """

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
        try:
            self._folder = self._ends.enter_context(Spools(None).make())
        except OSError as error:
            raise spool_error(error, Path(error.filename or "")) from error
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
