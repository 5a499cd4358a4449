"""Data files while they grow: lines are compressed to gzip members, and members are appended to their file's spool. A
file names the lake's id, and lists the files of its records; it may grow before these are known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from singerlake.attached.members import attached_members
from singerlake.format.extra_fields import FileHeader
from singerlake.format.lines.times import Span
from singerlake.format.state.attached import Attached, shifted
from singerlake.singer_file import MEMBER_BYTES, Spool, compress_member, spool_error
from target_singerlake.input.schema import Schema

WAITING = 2
"""Members that may wait beside those that are being compressed: enough that no thread waits for the reading one."""
_BEHIND = 4
"""The reading thread helps while more than a fourth of what may be under way is."""
T = TypeVar("T")

_PART = 16
"""Members that wait for the id take at most this part of the memory: a sixteenth."""


class RecordFiles:
    """Rows that other threads put in, each in its place; ``message`` is the number of the record in its data file. All
    records share what ``changed`` tells, and ``check``, which raises what keeps files from coming."""

    __slots__ = ("_changed", "_check", "_left", "_rows", "message")

    def __init__(self, count: int, changed: threading.Condition, check: Callable[[], None]) -> None:
        self.message = 0
        self._rows: list[Attached | None] = [None] * count
        self._left = count
        self._changed = changed
        self._check = check

    @property
    def done(self) -> bool:
        """Whether all rows are there."""
        return not self._left

    def put(self, place: int, row: Attached) -> None:
        """Put in a row, whose ``message`` is 0. Under the lock of ``changed``, which the caller notifies."""
        self._rows[place] = row
        self._left -= 1

    def rows(self) -> Sequence[Attached]:
        """All rows, when they are there. Raises what ``check`` raises."""
        if self._left:
            with self._changed:
                while self._left:
                    self._check()
                    self._changed.wait()
        return shifted([row for row in self._rows if row is not None], self.message)


def _nothing(_: object) -> None:
    """Behind work after which nothing is to be done."""


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
    holds back. ``table_version`` is the ``version`` of the last record of its members that has one, ``activated`` that
    of its last ACTIVATE_VERSION; None where there is none."""

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
    table_version: int | None = None
    activated: int | None = None

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

    def compressed(self, parts: list[bytes], messages: int, records: int) -> Member:
        """A member of lines. ``parts`` is emptied, so that its lines are freed as soon as they are joined."""
        raw = b"".join(parts)
        parts.clear()
        return Member(compress_member(raw, self.level), len(raw), messages, records)

    def add_member(self, member: Member, before: Future[None]) -> None:
        """Append a member to the spool when ``before`` is done, the member before; or let it wait where the lake's id
        is not known. Raises ``StorageFullError``, ``AccessDeniedError``, ``StorageUnavailableError`` and what
        ``lake_id`` or ``before`` raises."""
        # Handed over earlier. The oldest member that is not done has a thread and waits for none, so that this ends.
        before.result()
        if self.lake_id.lets_wait(len(member.body)):
            self.waiting.append(member)
            return
        self.spool_waiting()
        self._append(member)

    def spool_waiting(self) -> None:
        """When ``ready``: have all of it in the spool. Waits for the lake's id; raises as ``add_member``."""
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
    """``threads`` that compress at once, each piece of work begun after those handed over before it in the same way,
    and how much they may be behind: ``limit`` raw bytes, at most half of ``max_memory_bytes``, or one piece."""

    def __init__(self, threads: int, max_memory_bytes: int) -> None:
        self.limit = min((threads + WAITING) * MEMBER_BYTES, max_memory_bytes // 2)
        self._slots = threading.Semaphore(threads)
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="compress")
        self._threads = threads
        self._others = ThreadPoolExecutor(max(threads - 1, 1), thread_name_prefix="compress")
        self._others_have = 0
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self.in_flight = 0

    def submit(self, size: int, work: Callable[[], T], then: Callable[[T], object] = _nothing) -> Future[None]:
        """Have a thread do ``work``, and then ``then`` with what it gave. Only ``then`` may wait for what was handed
        over before. They hold ``size`` bytes until both are done. Waits while too much is under way; raises what
        earlier work raised."""
        self._begin(size)
        return self._executor.submit(self._do, size, lambda: then(self._in_slot(work)))

    def share(self, size: int, work: Callable[[], T], then: Callable[[T], object] = _nothing) -> Future[None]:
        """As ``submit``, but with one thread fewer where there are several. While all of these have work, and one more
        piece waits, the caller may do ``work`` itself, and raises what that raises.

        For the short members of streams that take turns: to read them keeps the caller busy. Beside as many threads as
        there are processors, it would lose its own again and again, and they would run out of work."""
        before = self._begin(size)
        behind = before > self.limit // _BEHIND and self._others_have >= self._threads > 1
        if behind and self._slots.acquire(blocking=False):
            try:
                done = work()
            except BaseException as error:
                self.fail(error)
                raise
            finally:
                self._slots.release()
            return self._others.submit(self._do, size, lambda: then(done))
        with self._changed:
            self._others_have += 1
        return self._others.submit(self._do, size, lambda: then(self._of_others(work)))

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
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the threads; work not yet begun is dropped."""
        executors = (self._executor, self._others)
        for executor in executors:
            executor.shutdown(wait=False, cancel_futures=True)
        for executor in executors:
            executor.shutdown(wait=True)

    def _in_slot(self, work: Callable[[], T]) -> T:
        with self._slots:
            return work()

    def _of_others(self, work: Callable[[], T]) -> T:
        try:
            return self._in_slot(work)
        finally:
            with self._changed:
                self._others_have -= 1

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


class LakeId:
    """Asked for once, by ``ask`` on a thread of its own, when it is first wanted. ``failed`` gets what that raised, at
    once. Compressed members may wait for it, in a sixteenth of ``max_memory_bytes``. Any thread may use it."""

    def __init__(
        self, ask: Callable[[], str | None], failed: Callable[[BaseException], None], max_memory_bytes: int
    ) -> None:
        self._ask = ask
        self._failed = failed
        self._room = max_memory_bytes // _PART
        self._answer: Future[str | None] | None = None
        self._changing = threading.Lock()
        self.waiting = 0
        """Bytes of the members that wait for it."""

    @property
    def known(self) -> bool:
        """Whether ``wait`` gives it, or raises, at once."""
        return self._wanted().done()

    def wait(self) -> str | None:
        """The id. Raises what asking for it raised."""
        return self._wanted().result()

    def lets_wait(self, size: int) -> bool:
        """Whether a compressed member of ``size`` bytes may wait for it, which then counts as ``waiting``."""
        wanted = self._wanted()
        with self._changing:
            if wanted.done() or self.waiting + size > self._room:
                return False
            self.waiting += size
            return True

    def ended_waiting(self, size: int) -> None:
        """Members of ``size`` bytes are where they belong."""
        with self._changing:
            self.waiting -= size

    def _wanted(self) -> Future[str | None]:
        with self._changing:
            if self._answer is None:
                self._answer = Future()
                threading.Thread(target=self._run, args=(self._answer,), name="lake-id").start()
            return self._answer

    def _run(self, answer: Future[str | None]) -> None:
        try:
            found = self._ask()
        except BaseException as error:
            self._failed(error)
            answer.set_exception(error)
        else:
            answer.set_result(found)
