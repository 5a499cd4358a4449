"""Cutting what a reader selected into partitions: runs of gzip members, packed to about one size.

Pure. A large file becomes many partitions, and many small files become one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from operator import attrgetter

import msgspec

from singerlake.arrow.plan.request import Request
from singerlake.format.decoders import prepare_decoders
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import DataFile
from singerlake.work.machine import processors

MOST_BYTES = 128 << 20
"""Raw bytes of a partition where there is much to read: seconds of work for a task, against which starting one counts
little. Spark's own file readers have the same size (``spark.sql.files.maxPartitionBytes``)."""
FEWER_BYTES = 64 << 20
"""Raw bytes of a partition where there is little: about half a second of work; starting one takes a tenth."""
LEAST_BYTES = 16 << 20
"""Raw bytes of a partition where cores would be idle: below it, starting a task takes as long as its work."""
WANTED = 8
"""Partitions that a read is cut into before they get larger than ``FEWER_BYTES``."""
_DIGEST = 32
"""Bytes of a SHA-256."""
FILE_COST = 1 << 20
"""Raw bytes that opening one more file counts as."""


class Split(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Consecutive members of one file, and which of their messages are meant. A million of them may travel to tasks, so
    there is nothing in it that a task does not need.

    ``offset`` is that of the members' first message, ``messages`` are how many they hold, in about ``raw_bytes``. Their
    stored bytes are [``start``, ``end``). The messages meant have the offsets [``first``, ``stop``). ``file_offset`` is
    the offset of the whole file's first message. ``sha256`` is that of the stored bytes where they are the whole file,
    and empty elsewhere. ``holes``: there may be some among the messages. ``attached`` are the files of those that are
    meant, where they are asked for.
    """

    id: str
    path: str
    version: str
    offset: int
    messages: int
    raw_bytes: int
    start: int
    end: int
    first: int
    stop: int
    file_offset: int
    sha256: bytes = b""
    holes: bool = False
    attached: tuple[Attached, ...] = ()

    @property
    def next_offset(self) -> int:
        return self.offset + self.messages


def partition_bytes(files: Iterable[DataFile], first: int, stop: int, request: Request) -> int:
    """Raw bytes that a partition should have where the messages of ``files`` with offsets [first, stop) are read. Where
    ``request`` does not say, each core gets work as long as there is enough of it."""
    if request.partition_bytes is not None:
        return request.partition_bytes
    cores = request.cores or processors()
    plenty = max(WANTED, cores) * MOST_BYTES
    total = 0
    for file in files:
        meant = min(stop, file.end) - max(first, file.offset)
        if meant > 0:
            total += file.raw_bytes * meant // file.messages
            if total >= plenty:
                return MOST_BYTES
    usual = min(MOST_BYTES, max(FEWER_BYTES, total // WANTED))
    return min(usual, max(LEAST_BYTES, total // cores))


def splits(
    files: Iterable[DataFile], first: int, stop: int, target: int = MOST_BYTES, *, attached: bool = False
) -> Iterator[Split]:
    """The messages of ``files`` with offsets [first, stop), in runs of one file of about one size, about ``target`` raw
    bytes where the file is larger; no member is cut. ``attached``: with the files of the messages."""
    for file in files:
        if first <= file.offset and file.end <= stop and 2 * file.raw_bytes < 3 * target and file.messages:
            whole = _whole(file)
            yield _with_files(whole, file) if attached and file.attached else whole
            continue
        meant = _members_of(file, first, stop)
        for begin, end in _equal_parts(file, meant, target):
            run = _split(file, begin, end, first, stop)
            yield _with_files(run, file) if attached and file.attached else run


def _with_files(run: Split, file: DataFile) -> Split:
    message = attrgetter("message")
    begin = bisect_left(file.attached, run.first - file.offset, key=message)
    end = bisect_left(file.attached, run.stop - file.offset, key=message)
    return msgspec.structs.replace(run, attached=file.attached[begin:end])


def _members_of(file: DataFile, first: int, stop: int) -> range:
    """The members that hold any of the messages with offsets [first, stop)."""
    if first >= stop:
        return range(0)
    begin, end, offset = 0, 0, file.offset
    for index, (_, messages) in enumerate(file.members):
        if offset < stop and offset + messages > first:
            begin, end = (index if begin == end else begin), index + 1
        offset += messages
    return range(begin, end)


def _equal_parts(file: DataFile, meant: range, target: int) -> Iterator[tuple[int, int]]:
    """``meant`` in parts [begin, end) that are as equal as members allow, each member being in the part where its
    middle lies: a small rest would keep one core busy while the others wait."""
    if len(meant) < 2:
        if meant:
            yield meant.start, meant.stop
        return
    origin, total = file.members[meant.start][0], _end(file, meant.stop - 1) - file.members[meant.start][0]
    parts = max(1, (_raw_bytes(file, meant.start, meant.stop) + target // 2) // target)

    def part(member: int) -> int:
        middle = (file.members[member][0] + _end(file, member)) // 2 - origin
        return middle * parts // total

    begin = meant.start
    for index in meant[1:]:
        if part(index) != part(index - 1):
            yield begin, index
            begin = index
    yield begin, meant.stop


def _whole(file: DataFile) -> Split:
    """What most files of a lake of small ones become."""
    offset, messages = file.offset, 0
    for _, count in file.members:
        messages += count
    stop = offset + messages
    digest = _digest(file)
    size, holes = file.bytes, file.erased > 0
    return Split(
        file.id, file.path, file.version, offset, messages, file.raw_bytes, 0, size, offset, stop, offset, digest, holes
    )


def _split(file: DataFile, begin: int, end: int, first: int, stop: int) -> Split:
    members = file.members[begin:end]
    offset, messages = file.offset, 0
    for _, count in file.members[:begin]:
        offset += count
    for _, count in members:
        messages += count
    whole = len(members) == len(file.members)
    return Split(
        id=file.id,
        path=file.path,
        version=file.version,
        offset=offset,
        messages=messages,
        raw_bytes=_raw_bytes(file, begin, end),
        start=0 if whole else members[0][0],
        end=file.bytes if whole else _end(file, end - 1),
        first=max(first, offset),
        stop=min(stop, offset + messages),
        file_offset=file.offset,
        sha256=_digest(file) if whole else b"",
        holes=file.erased > 0,
    )


def _digest(file: DataFile) -> bytes:
    """The listed checksum; where it is none, what no file's is equal to."""
    with suppress(ValueError):
        digest = bytes.fromhex(file.sha256)
        if len(digest) == _DIGEST:
            return digest
    return b"none"


def _end(file: DataFile, member: int) -> int:
    """The stored byte after a member: empty members that follow it may be among them, which hold nothing."""
    return file.members[member + 1][0] if member + 1 < len(file.members) else file.bytes


def _raw_bytes(file: DataFile, begin: int, end: int) -> int:
    """About how many raw bytes members hold: the manifest knows it of the whole file only."""
    return file.raw_bytes * (_end(file, end - 1) - file.members[begin][0]) // file.bytes


def pack(pieces: Iterable[Split], target: int = MOST_BYTES) -> list[tuple[Split, ...]]:
    """``pieces`` in their order, put together until a partition has about ``target`` raw bytes."""
    partitions: list[tuple[Split, ...]] = []
    current: list[Split] = []
    size = 0
    for piece in pieces:
        cost = piece.raw_bytes + FILE_COST
        if current and size + cost > target:
            partitions.append(tuple(current))
            current, size = [], 0
        current.append(piece)
        size += cost
    if current:
        partitions.append(tuple(current))
    return partitions


prepare_decoders(Split)
