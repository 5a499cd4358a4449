"""Data files while they grow: lines become gzip members on one other thread, in order, and members a spool."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from singerlake.clock import parse_timestamp
from singerlake.errors import AccessDenied, SingerlakeError, StorageFull, StorageUnavailable
from singerlake.format.messages import envelope
from singerlake.singer_file import FileHeader, Spool, compress_member
from target_singerlake.schema import Schema

IN_FLIGHT_BYTES = 24 << 20
"""Raw bytes that may wait for the compressing thread, beside what streams buffer."""


@dataclass
class GrowingFile:
    """A file of one stream and schema. The reading thread adds to the counts, the compressing thread to the spool;
    ``ready`` is done when all that was handed over is in the spool."""

    schema: Schema
    header: FileHeader
    path: Path
    epoch: int
    opened: float
    first_received: datetime
    last_received: datetime
    level: int
    messages: int = 0
    records: int = 0
    raw_bytes: int = 0
    spool: Spool | None = None
    spooled_raw_bytes: int = 0
    first_extracted: datetime | None = None
    last_extracted: datetime | None = None
    ready: Future[None] = field(default_factory=Future)

    @property
    def first(self) -> datetime:
        """When its first record was extracted, or else received."""
        return self.first_extracted or self.first_received

    @property
    def last(self) -> datetime:
        """When its last record was extracted, or else received."""
        return self.last_extracted or self.last_received

    def add_member(self, parts: list[bytes], messages: int, records: int) -> None:
        """Compress lines and append them to the spool. Raises ``StorageFull``, ``AccessDenied`` and
        ``StorageUnavailable``."""
        raw = b"".join(parts)
        parts.clear()
        member = compress_member(raw, self.level)
        try:
            if self.spool is None:
                self.spool = Spool(self.path, self.schema.line, self.header, level=self.level)
            self.spool.append(member, raw_bytes=len(raw), messages=messages, records=records)
        except OSError as error:
            raise _spool_error(error, self.path) from error
        self._note_times(raw)
        self.spooled_raw_bytes += len(raw)

    def _note_times(self, raw: bytes) -> None:
        if not self.spooled_raw_bytes:
            self.first_extracted = _extracted(raw[: raw.find(b"\n") + 1])
        end = len(raw) - 1
        while end > 0:
            start = raw.rfind(b"\n", 0, end) + 1
            line = raw[start:end]
            if (moment := _extracted(line)) is not None:
                self.last_extracted = moment
                return
            found = envelope(line)
            if found is None or found.type != "ACTIVATE_VERSION":
                self.last_extracted = None
                return
            end = start - 1


def _extracted(line: bytes) -> datetime | None:
    found = envelope(line)
    text = found.time_extracted if found else None
    return parse_timestamp(text) if isinstance(text, str) else None


def _spool_error(error: OSError, path: Path) -> SingerlakeError:
    folder = str(path.parent)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull("no space is left for the spool", hint="free some, or set spool_dir", spool_dir=folder)
    if isinstance(error, PermissionError):
        return AccessDenied("the spool cannot be written", hint="set spool_dir", spool_dir=folder)
    reason = (error.strerror or str(error)).lower()
    return StorageUnavailable(
        f"the spool cannot be written: {reason}", hint="check its disk, or set spool_dir", spool_dir=folder
    )


class Compressor:
    """One thread that does what it is given in order, and how much it may be behind."""

    def __init__(self, limit: int = IN_FLIGHT_BYTES) -> None:
        self._limit = limit
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="compress")
        self._changed = threading.Condition()
        self._in_flight = 0
        self._error: BaseException | None = None

    def submit(self, size: int, work: Callable[[], None]) -> Future[None]:
        """Do ``work`` after all that came before, which holds ``size`` bytes until then. Waits while too much is
        under way; raises what earlier work raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._error or not self._in_flight or self._in_flight + size <= self._limit)
            self.check()
            self._in_flight += size
        return self._executor.submit(self._do, size, work)

    def check(self) -> None:
        """Raises what earlier work raised."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread; work not yet begun is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _do(self, size: int, work: Callable[[], None]) -> None:
        try:
            # After an error a file lacks a member, so that nothing may pass for done any more.
            self.check()
            work()
        except BaseException as error:
            self._error = error
            raise
        finally:
            with self._changed:
                self._in_flight -= size
                self._changed.notify()
