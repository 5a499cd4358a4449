"""Data files while they grow: lines become gzip members on other threads, and the members of a file its spool."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from singerlake.attached.members import attached_members
from singerlake.format.extra_fields import FileHeader
from singerlake.format.lines.times import Span, joined, span
from singerlake.format.state.attached import Attached
from singerlake.singer_file import MEMBER_BYTES, Spool, compress_member, spool_error
from target_singerlake.files.lake_id import LakeId
from target_singerlake.files.record_files import RecordFiles
from target_singerlake.input.schema import Schema

WAITING = 2
"""Members that may wait beside those that are being compressed: enough that no thread waits for the reading one."""
_BEHIND = 4
"""The part of what may be under way from which on the reading thread helps: the others have work for as long."""
T = TypeVar("T")


def _done() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done


class Member(NamedTuple):
    """Compressed lines, and what they are in the file."""

    body: bytes
    raw_bytes: int
    messages: int
    records: int


@dataclass(slots=True)
class GrowingFile:
    """A file of one stream and schema. The reading thread adds to the counts, compressing threads to the spool;
    ``ready`` is done when all that was handed over is compressed, and in the spool or in ``waiting`` for the lake's id.
    ``attached`` are the files of its records, of those that have some. ``epochs`` are those of ``HeldStates`` that it
    holds back."""

    schema: Schema
    header: FileHeader
    path: Path
    epochs: list[int]
    opened: float
    first_received: datetime
    last_received: datetime
    level: int
    lake_id: LakeId
    messages: int = 0
    records: int = 0
    raw_bytes: int = 0
    spool: Spool | None = None
    spooled_raw_bytes: int = 0
    extracted: Span | None = None
    waiting: list[Member] = field(default_factory=list)
    ready: Future[None] = field(default_factory=_done)
    attached: list[RecordFiles] = field(default_factory=list)
    attached_until: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether ``finish`` need not wait."""
        # Asked again and again, of what may be a million records.
        while self.attached_until < len(self.attached) and self.attached[self.attached_until].done:
            self.attached_until += 1
        if self.waiting and not self.lake_id.known:
            return False
        return self.ready.done() and self.attached_until == len(self.attached)

    def finish(self) -> tuple[Attached, ...]:
        """Wait until the spool has all messages and the lake all files of its records; the rows of these, which the
        spool has behind its messages then. Call once. Raises as ``add_member``, and what kept a file from coming."""
        self.ready.result()
        self.spool_waiting()
        rows = tuple(row for record in self.attached for row in record.rows())
        if rows and self.spool is not None:
            try:
                self.spool.append_empty(attached_members(rows))
            except OSError as error:
                raise spool_error(error, self.path) from error
        return rows

    @property
    def first(self) -> datetime:
        """The earliest time that one of its records was extracted, or else its first message received."""
        return self.extracted[0] if self.extracted else min(self.first_received, self.last_received)

    @property
    def last(self) -> datetime:
        """The latest time that one of its records was extracted, or else its last message received."""
        # Where the clock was set back meanwhile, the last message came before the first one.
        return self.extracted[1] if self.extracted else max(self.first_received, self.last_received)

    def note_times(self, times: list[Any]) -> None:
        """The ``time_extracted`` of more of its records."""
        self.extracted = joined(self.extracted, span(times))

    def compressed(self, parts: list[bytes], messages: int, records: int) -> Member:
        """A member of lines, which ``parts`` no longer holds then."""
        raw = b"".join(parts)
        parts.clear()
        return Member(compress_member(raw, self.level), len(raw), messages, records)

    def add_member(self, member: Member, before: Future[None]) -> None:
        """Append a member to the spool when ``before`` is done, the member before; or let it wait where the lake's id
        is not known. Raises ``StorageFullError``, ``AccessDeniedError``, ``StorageUnavailableError`` and what
        ``lake_id`` or ``before`` raises."""
        # Submitted earlier, so it has a thread or is done: waiting for it cannot keep it from running.
        before.result()
        if self.lake_id.lets_wait(len(member.body)):
            self.waiting.append(member)
            return
        self.spool_waiting()
        self._append(member)

    def spool_waiting(self) -> None:
        """When ``ready`` is done: have all that was handed over in the spool. Waits for the lake's id; raises as
        ``add_member``."""
        while self.waiting:
            self._append(self.waiting[0])
            self.lake_id.ended_waiting(len(self.waiting.pop(0).body))

    def _append(self, member: Member) -> None:
        try:
            if self.spool is None:
                header = msgspec.structs.replace(self.header, lake_id=self.lake_id.wait())
                self.spool = Spool(self.path, self.schema.line, header, level=self.level)
            self.spool.append(member.body, raw_bytes=member.raw_bytes, messages=member.messages, records=member.records)
        except OSError as error:
            raise spool_error(error, self.path) from error
        self.spooled_raw_bytes += member.raw_bytes


class Compressor:
    """Threads that begin what they are given in order, and how much they may be behind: ``limit`` raw bytes, at most
    half of ``max_memory_bytes``, but one piece of work of any size."""

    def __init__(self, threads: int, max_memory_bytes: int) -> None:
        self.limit = min((threads + WAITING) * MEMBER_BYTES, max_memory_bytes // 2)
        self._behind = self.limit // _BEHIND
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="compress")
        self._others = ThreadPoolExecutor(threads - 1, thread_name_prefix="compress") if threads > 1 else None
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self.in_flight = 0

    def submit(self, size: int, work: Callable[[], object]) -> Future[None]:
        """Begin ``work`` after all that came before, which holds ``size`` bytes until it is done. Waits while too much
        is under way; raises what earlier work raised."""
        self._begin(size)
        return self._executor.submit(self._do, size, work)

    def share(self, size: int, work: Callable[[], T], then: Callable[[T], object]) -> Future[None]:
        """As ``submit``, of ``work`` and then ``then`` with what it gives. The caller is one of the threads that work
        at once: while the others are behind, it does ``work`` itself, and raises what that raises.

        For the short members of streams that take turns: to read them keeps a thread busy. With a thread for each
        processor beside it, the caller would lose its own processor again and again, and the others would run out of
        work."""
        before = self._begin(size)
        if self._others is None:
            return self._executor.submit(self._do, size, lambda: then(work()))
        if before <= self._behind:
            return self._others.submit(self._do, size, lambda: then(work()))
        try:
            done = work()
        except BaseException as error:
            self.fail(error)
            raise
        return self._others.submit(self._do, size, lambda: then(done))

    def _begin(self, size: int) -> int:
        """Count a piece of work once there is room for it; how many bytes were under way before it."""
        with self._changed:
            self._changed.wait_for(lambda: self._error or not self.in_flight or self.in_flight + size <= self.limit)
            self.check()
            before = self.in_flight
            self.in_flight += size
        return before

    def wait(self, size: int) -> None:
        """Wait until no more than ``size`` bytes are under way. Raises what earlier work raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._error or self.in_flight <= max(size, 0))
            self.check()

    def fail(self, error: BaseException) -> None:
        """Have ``submit``, ``wait`` and ``check`` raise an error, as if work had raised it."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify()

    def check(self) -> None:
        """Raises what earlier work raised."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the threads; work not yet begun is dropped."""
        for executor in (self._executor, self._others):
            if executor is not None:
                executor.shutdown(wait=True, cancel_futures=True)

    def _do(self, size: int, work: Callable[[], object]) -> None:
        try:
            # After an error a file lacks a member, so that nothing that begins later may pass for done.
            self.check()
            work()
        except BaseException as error:
            self.fail(error)
            raise
        finally:
            with self._changed:
                self.in_flight -= size
                self._changed.notify()
