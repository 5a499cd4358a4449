"""The open data files of a run. Lines wait in memory until they make a member, and members make files. A file is closed
by count, size or age. There is no thread, clock or storage here: the caller gives the time and takes the closed files.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from singerlake.clock import IdSource, timestamp
from singerlake.format.extra_fields import FileHeader
from singerlake.format.file_id import timed_id
from singerlake.format.lines.messages import envelope, table_version
from singerlake.format.lines.times import joined, span
from singerlake.format.newlines import end_of
from singerlake.singer_file import MEMBER_BYTES
from target_singerlake.files.growing import Compressor, GrowingFile, LakeId, Member, RecordFiles
from target_singerlake.input.schema import Schema
from target_singerlake.settings import Settings
from target_singerlake.state import HeldStates

_STREAM_BYTES = 32 << 10
"""What a stream takes in memory beside its lines, as measured: its writer, its state, what the scanner knows of it."""
_TIMES = 64
"""Times that may wait in memory for each stream: to sum them up one by one takes longer than to keep some."""
_LEAST, _MOST = 1 / 4, 1 / 2
"""The part of what may be in memory that is for what is being compressed, at least and at most, so that the next block
need not wait for it. The rest may stay buffered."""
_AT_ONCE = 4
"""Members that should be under way at once, as far as there is room."""
_TOGETHER = 1 << 20
"""Bytes of short members, of several files, that one thread compresses in a row: to hand over each by itself takes a
part of the time that compressing it does."""


@dataclass(slots=True)
class Stream:
    """One stream: its schema, the lines that wait, and their file. ``last`` is the last of ``parts`` with records."""

    name: str
    schema: Schema
    parts: list[bytes] = field(default_factory=list)
    times: list[Any] = field(default_factory=list)
    size: int = 0
    messages: int = 0
    records: int = 0
    last: bytes = b""
    file: GrowingFile | None = None


class _Member(NamedTuple):
    """Lines of a file that are to be compressed, and what is ready when those before them are."""

    file: GrowingFile
    parts: list[bytes]
    messages: int
    records: int
    before: Future[None]


@dataclass(eq=False)
class OpenFiles:
    """All streams of a run. Lines of one stream make a member once they are ``member_bytes``. Each new file gets the
    run's id, a spool in ``folder``, an id of its own and the lake's id; ``opened`` is called with its stream.
    ``closed`` is called with every closed file, in the order of its stream's messages; ``GrowingFile.ready`` tells when
    it is compressed. ``buffered`` is the bytes of all lines that wait. The caller sets ``now`` and ``monotonic``, the
    time, before it adds anything."""

    settings: Settings
    run_id: str
    folder: Path
    ids: IdSource
    lake_id: LakeId
    compressor: Compressor
    states: HeldStates
    opened: Callable[[str], None]
    closed: Callable[[GrowingFile], None]
    now: datetime = field(init=False)
    monotonic: float = field(init=False)

    def __post_init__(self) -> None:
        self._sequence = 0
        self.buffered = 0
        self._streams: dict[str, Stream] = {}
        self._open: dict[str, Stream] = {}
        self._bare: dict[str, Schema] = {}
        settings = self.settings
        self.member_bytes = min(MEMBER_BYTES, settings.max_memory_bytes, settings.max_file_bytes or MEMBER_BYTES)

    def use_schema(self, schema: Schema) -> bool:
        """Make ``schema`` its stream's; where it says something new, the stream's file is closed first, and the
        answer is True."""
        stream = self._streams.get(schema.stream)
        if stream is None:
            self._streams[schema.stream] = Stream(schema.stream, schema)
            self._bare[schema.stream] = schema
            return True
        if stream.schema.identity == schema.identity:
            return False
        self.close_file(stream)
        stream.schema = schema
        if schema.stream in self._bare:
            self._bare[schema.stream] = schema
        return True

    def take_bare(self) -> list[Schema]:
        """The schemas of streams without a message so far; each schema is given only once."""
        bare, self._bare = list(self._bare.values()), {}
        return bare

    @property
    def names(self) -> tuple[str, ...]:
        """The streams whose SCHEMA came."""
        return tuple(self._streams)

    def schema(self, name: str) -> Schema | None:
        """The schema a stream has now; None before its first."""
        stream = self._streams.get(name)
        return stream.schema if stream else None

    def add(
        self,
        name: str,
        data: bytes,
        messages: int,
        times: list[Any] | None,
        *,
        held: int | None = None,
        files: RecordFiles | None = None,
    ) -> None:
        """Whole lines of one stream whose schema is known: RECORDs only, with what spans their ``time_extracted``, or,
        with None, one message that is none; ``held`` is the epoch since when that waited. ``files`` are those of the
        one RECORD."""
        stream, limit = self._streams[name], self.settings.max_file_records
        if not limit or times is None:
            self._add(stream, data, messages, times, held, files)
            return
        if messages > 1 and messages > limit - (stream.file.records if stream.file else 0):
            times = _times_of_each(data)
        while messages >= (room := limit - (stream.file.records if stream.file else 0)):
            head = end_of(data, room)
            self._add(stream, data[:head], room, times if messages == room else times[:room], held, files)
            self.close_file(stream)
            data, messages, times = data[head:], messages - room, times[room:]
        if data:
            self._add(stream, data, messages, times, held, files)

    def _add(
        self,
        stream: Stream,
        data: bytes,
        messages: int,
        times: list[Any] | None,
        held: int | None,
        files: RecordFiles | None,
    ) -> None:
        file = stream.file or self._open_file(stream)
        if held is not None:
            file.epochs.append(self.states.opened_with(held))
        if files is not None:
            files.message = file.messages
            file.attached.append(files)
        if times is not None:
            stream.last = data
            stream.records += messages
            stream.times += times
            file.records += messages
        elif (activated := table_version(data)) is not None:
            file.activated = activated
        file.messages += messages
        file.last_received = self.now
        stream.parts.append(data)
        stream.messages += messages
        if len(stream.times) >= _TIMES:
            _note_times(stream, file)
        size = len(data)
        stream.size += size
        self.buffered += size
        if stream.size >= self.member_bytes:
            self._close_members([stream], stream.size)
            if self._is_full(file):
                self.close_file(stream)

    def keep_within_memory(self, block_bytes: int) -> None:
        """Turn the largest buffers into short members while too much waits, and wait where they and what is being
        compressed are too much together, beside a block of the input and its lines by stream."""
        most = self.settings.max_memory_bytes
        room = most - min(len(self._streams) * _STREAM_BYTES, most // 3) - 2 * block_bytes - self.lake_id.waiting
        if self.buffered > room * (1 - _MOST):
            largest = max((stream.size for stream in self._open.values()), default=0)
            self._close_largest(room - min(max(_AT_ONCE * largest, room * _LEAST), room * _MOST))
        self.compressor.wait(room - self.buffered)

    def oldest(self) -> float | None:
        """When, on the monotonic clock, the oldest open file got its first message; None where none is open."""
        first = next(iter(self._open.values()), None)
        return first.file.opened if first is not None and first.file is not None else None

    def close_older(self, moment: float) -> None:
        """Close the files that got their first message at ``moment`` or before."""
        for stream in list(self._open.values()):
            if stream.file is None or stream.file.opened > moment:
                return
            self.close_file(stream)

    def close_all(self) -> None:
        for stream in list(self._open.values()):
            self.close_file(stream)

    def close_file(self, stream: Stream) -> None:
        file = stream.file
        if file is None:
            return
        self._close_members([stream], stream.size)
        _note_times(stream, file)
        stream.file = None
        del self._open[stream.name]
        self.closed(file)

    def _open_file(self, stream: Stream) -> GrowingFile:
        self._sequence += 1
        now = self.now
        header = FileHeader(
            id=timed_id(now, self.ids()),
            created=timestamp(now),
            run=self.run_id,
            seq=self._sequence,
            atomic=self.settings.atomic_run,
        )
        stream.file = GrowingFile(
            schema=stream.schema,
            header=header,
            path=self.folder / header.id,
            epochs=[self.states.opened()],
            opened=self.monotonic,
            first_received=now,
            last_received=now,
            level=self.settings.compression_level,
            lake_id=self.lake_id,
        )
        self._open[stream.name] = stream
        self._bare.pop(stream.name, None)
        self.opened(stream.name)
        return stream.file

    def _close_largest(self, most: float) -> None:
        """Close members, the largest first, until at most ``most`` bytes wait, and the files that are full then."""
        closed, largest, size = list[Stream](), list[Stream](), 0
        for stream in sorted(self._open.values(), key=attrgetter("size"), reverse=True):
            if self.buffered - size <= most:
                break
            largest.append(stream)
            size += stream.size
            if size >= _TOGETHER:
                self._close_members(largest, size, short=True)
                closed += largest
                largest, size = [], 0
        self._close_members(largest, size, short=True)
        for stream in (*closed, *largest):
            if stream.file is not None and self._is_full(stream.file):
                self.close_file(stream)

    def _close_members(self, streams: Sequence[Stream], size: int, *, short: bool = False) -> None:
        """Have what waits of open files, ``size`` bytes in all, compressed, that of one after the other."""
        members = [_member(stream) for stream in streams if stream.size]
        if not members:
            return
        self.buffered -= size
        hand_over = self.compressor.share if short else self.compressor.submit
        ready = hand_over(size, partial(_compress, members), partial(_append, members))
        for file, *_ in members:
            file.ready = ready

    def _is_full(self, file: GrowingFile) -> bool:
        """Whether a file's compressed bytes reach the limit. What is still being compressed is estimated by what was;
        only near the limit is it waited for."""
        limit = self.settings.max_file_bytes
        if not limit:
            return False
        if file.spool is not None and file.spooled_raw_bytes:
            expected = file.spool.bytes * file.raw_bytes / file.spooled_raw_bytes
        else:
            expected = float(file.raw_bytes)
        if expected < limit:
            return False
        _await(file.ready)
        self.compressor.check()
        file.spool_waiting()
        return file.spool is not None and file.spool.bytes >= limit


def _member(stream: Stream) -> _Member:
    """What waits of a stream with an open file, which then waits no longer."""
    file = stream.file
    assert file is not None
    member = _Member(file, stream.parts, stream.messages, stream.records, file.ready)
    file.raw_bytes += stream.size
    if stream.last:
        # All records of one replication of a table have one version, so that a line of each member is enough.
        version = table_version(stream.last[stream.last.rfind(b"\n", 0, -1) + 1 :])
        file.table_version = file.table_version if version is None else version
        stream.last = b""
    stream.parts, stream.messages, stream.records, stream.size = [], 0, 0, 0
    return member


def _compress(members: Sequence[_Member]) -> list[Member]:
    return [each.file.compressed(each.parts, each.messages, each.records) for each in members]


def _append(members: Sequence[_Member], compressed: Sequence[Member]) -> None:
    for each, member in zip(members, compressed, strict=True):
        each.file.add_member(member, each.before)


def _note_times(stream: Stream, file: GrowingFile) -> None:
    file.extracted = joined(file.extracted, span(stream.times))
    stream.times.clear()


def _await(done: Future[None]) -> None:
    done.exception()


def _times_of_each(data: bytes) -> list[Any]:
    """The ``time_extracted`` of each RECORD line of ``data``."""
    heads = map(envelope, io.BytesIO(data))
    return [None if head is None else head.time_extracted for head in heads]
