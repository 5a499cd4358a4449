"""The messages of data files: slices of them, read as they come or by whole gzip members, as a target writes them, from
storage in one piece or, where that is far, by ranges that are asked for before they are wanted.

A member whose place the manifest tells is inflated in one call, without the interpreter's lock, and given as it is.
Whatever is not just that (a member of foreign make that is too large, one whose count is another than the manifest's, a
damaged or a cut one) is read on from there in pieces: slower, with the same messages and the same errors.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import BinaryIO

from isal import igzip_lib

from singerlake.errors import BrokenFileError
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.selection import Slice
from singerlake.singer_file import HELD_BYTES, Block, Readable, kept_lines, read_blocks
from singerlake.storage.port import Storage
from singerlake.storage.streams import joined
from singerlake.work.ahead import together

LARGEST = 16 << 20
"""Bytes of a member, stored and as text, up to which it is inflated whole: twice what a target writes."""
_PIECE = 7 << 16
"""Bytes of text inflated in one call: a member's memory is given up in such pieces, as they are written. Of the sizes
between 64 KiB and 2 MiB it took the least memory, and hardly more time than any."""

RANGE = 4 << 20
"""Bytes of a range, and of the largest file that is read in one request, its SCHEMA message included."""
AT_ONCE = 4
"""Requests under way: enough to hide their latency, and with ``RANGE`` all of the memory that it takes."""


def read_slice(storage: Storage, prefix: str, part: Slice) -> Iterator[Block]:
    """The messages of one slice of a file below ``prefix`` in blocks of whole lines, without holes; a slice that begins
    or ends inside a member does so exactly there. Raises ``MissingFileError``, ``BrokenFileError``."""
    with _opened(storage, prefix, part) as stream:
        key = prefix + part.file.path
        yield from _within(part, read_blocks(stream, part.file, member=part.member, until=part.until, key=key))


def read_slice_by_members(
    storage: Storage, prefix: str, part: Slice, stored: BinaryIO | None = None
) -> Iterator[Block]:
    """As ``read_slice``, each block only once its gzip members have ended well, and of a whole file the last one only
    if it is the file that is listed. ``stored`` gives the bytes, and is closed; None: storage is asked for them."""
    with stored or _opened(storage, prefix, part) as stream:
        key = prefix + part.file.path
        yield from _within(part, read_members(stream, part.file, member=part.member, until=part.until, key=key))


def _opened(storage: Storage, prefix: str, part: Slice) -> BinaryIO:
    start = part.file.members[part.member][0] if part.member else 0
    return storage.open(prefix + part.file.path, start, part.stored_end)


def _within(part: Slice, blocks: Iterable[Block]) -> Iterator[Block]:
    """Of blocks that begin in the slice's first member, what the slice has."""
    file = part.file
    first = file.offset + part.skip
    last = file.end if part.stop is None else file.offset + part.stop
    for block in blocks:
        skip = max(0, first - block.offset)
        if skip >= block.messages:
            continue
        wanted = block.after(skip) if skip else block
        if wanted.offset >= last:
            return
        if wanted.offset + wanted.messages > last:
            wanted = wanted.first(last - wanted.offset)
        kept = wanted.without_holes() if file.erased else wanted
        if kept is not None:
            yield kept


def read_members(
    stream: Readable, file: DataFile, *, member: int = 0, until: int | None = None, key: str = ""
) -> Iterator[Block]:
    """The messages of ``file`` from its ``member``-th tabled member on, to ``until`` or to the end, as ``read_blocks``
    gives them, each block only once the members that it lies in have ended well, and the last one once the file has.

    Raises ``BrokenFileError`` as ``read_blocks``, and where a file that is read from its first byte to its last has
    another size or SHA-256 than the manifest says; nothing of the last member is given then.
    """
    stored = _Stored(stream, file if member == 0 and until is None else None, {"key": key or file.path, "id": file.id})
    offset = first = file.offset + sum(messages for _, messages in file.members[:member])
    parts = _parts(file, member, until)
    for number, (size, messages) in enumerate(parts, 1):
        is_last = number == len(parts)
        part = stored.take(size) if 0 <= size <= LARGEST else b""
        pieces = _pieces(part, messages) if len(part) == size else None
        if pieces is None or (is_last and stored.more()):
            stored.put_back(part)
            break
        if is_last:
            stored.check()
        del part
        while pieces:
            lines, count = pieces.popleft()
            yield Block(lines, offset, count)
            offset += count
        member += bool(messages)
    else:
        return
    rest = read_blocks(stored, file, member=member, until=until, given=offset - first, key=key)
    yield from verified(stored.checked(rest), file)


def _parts(file: DataFile, member: int, until: int | None) -> list[tuple[int, int]]:
    """How the file lies from its ``member``-th tabled member on, to ``until`` or its end: stored bytes and messages, a
    tabled member each with what follows it. Before the first one stands what holds no messages."""
    members = file.members[member:until]
    ends = [start for start, _ in members]
    ends.append(file.bytes if until is None else file.members[until][0])
    parts = [(end - start, messages) for (start, messages), end in zip(members, ends[1:], strict=True)]
    return parts if member else [(ends[0], 0), *parts]


class _Stored:
    """The bytes of a stream in order. Where they are to be all of ``whole``, they are held against the manifest."""

    def __init__(self, stream: Readable, whole: DataFile | None, where: dict[str, str]) -> None:
        self._stream = stream
        self._whole = whole
        self._where = where
        self._size = 0
        self._sha256 = hashlib.sha256()
        self._back = b""

    def read(self, size: int, /) -> bytes:
        data, self._back = self._back[:size], self._back[size:]
        if len(data) < size:
            more = self._stream.read(size - len(data))
            if self._whole is not None:
                self._size += len(more)
                self._sha256.update(more)
            data = data + more if data else more
        return data

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer where there are no more."""
        data = self.read(size)
        while data and len(data) < size and (more := self.read(size - len(data))):
            data += more
        return data

    def more(self) -> bool:
        """Whether there is anything behind what was taken."""
        if not self._back:
            self._back = self.read(1)
        return bool(self._back)

    def put_back(self, data: bytes) -> None:
        """Have ``data``, which was taken last, read again."""
        self._back = data + self._back

    def check(self) -> None:
        """Raise ``BrokenFileError`` where all that was read is not the file that the manifest lists."""
        file = self._whole
        if file is not None and (self._size, self._sha256.hexdigest()) != (file.bytes, file.sha256):
            raise BrokenFileError(
                "other bytes than the manifest says: its size or SHA-256 is another",
                hint="run 'singerlake verify'; restore the file from a backup",
                **self._where,
            )

    def checked(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """``blocks``, which are read of this, and at their end ``check``."""
        yield from blocks
        self.check()


def _pieces(part: bytes, messages: int) -> deque[tuple[bytes, int]] | None:
    """The lines of so many messages that some whole members hold together, some at a time with their number; None where
    ``part`` is anything else."""
    pieces: deque[tuple[bytes, int]] = deque()
    size = 0
    while part:
        member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        tail = b""
        while not member.eof:
            try:
                text = member.decompress(part, _PIECE)
            except igzip_lib.error:  # type: ignore[misc]  # isal's stub has an instance here
                return None
            part = b""
            size += len(text)
            if size > LARGEST or not (text or member.eof):
                return None
            cut = text.rfind(b"\n") + 1
            lines, count = kept_lines(b"".join((tail, memoryview(text)[:cut]))) if cut else (b"", 0)
            tail = text[cut:] if cut else tail + text
            if count:
                pieces.append((lines, count))
                messages -= count
        if tail:
            return None
        part = member.unused_data
    return None if messages else pieces


def verified(blocks: Iterable[Block], file: DataFile) -> Iterator[Block]:
    """The same blocks, each held back until its gzip member has ended well, so that damaged bytes are never given."""
    starts, offset = set(), file.offset
    for _, messages in file.members:
        starts.add(offset)
        offset += messages
    held: list[Block] = []
    size = 0
    for block in blocks:
        if block.offset in starts or size > HELD_BYTES:
            yield from held
            held, size = [], 0
        held.append(block)
        size += len(block.data)
    yield from held


class Ranges:
    """Reads ``slices`` of files below ``prefix``, each once and in their order."""

    def __init__(self, storage: Storage, prefix: str, slices: Iterable[Slice]) -> None:
        wanted = ((prefix + part.file.path, start, end) for part in slices for start, end in spans(part))
        self._chunks = together(
            lambda one: storage.read_range(one[0], one[1], one[2] - one[1]), wanted, at_once=AT_ONCE
        )

    def next_file(self, part: Slice) -> tuple[bytes, BinaryIO]:
        """What stands in the file of the next slice before its first tabled member, and a stream of what ``part`` is
        read from. Raises ``MissingFileError`` and what storage raises, as the stream does."""
        first = next(self._chunks)
        rest = islice(self._chunks, len(spans(part)) - 1)
        return (first, joined(rest)) if part.member else (first[: _lead(part)], joined(chain((first,), rest)))


def spans(part: Slice) -> list[tuple[int, int]]:
    """The ranges to read for a slice, each ``(start, end)``. The first one has all that stands before the first tabled
    member. The last one goes to where the slice ends, or a byte beyond the file's end, to see whether there is more."""
    member, end, lead = part.member, part.stored_end or part.file.bytes + 1, _lead(part)
    start = part.file.members[member][0] if member else max(lead, min(RANGE, end))
    return [(0, lead if member else start), *((at, min(at + RANGE, end)) for at in range(start, end, RANGE))]


def _lead(part: Slice) -> int:
    return part.file.members[0][0] if part.file.members else part.file.bytes
