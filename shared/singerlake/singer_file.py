"""A Singer file: complete gzip members of whole lines, the first one the SCHEMA message alone.

Writing takes members that were compressed elsewhere, so that the caller decides on which thread; reading gives
blocks of whole lines and checks them against the manifest as they pass. The layout is in ``shared/docs/format``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
from isal import igzip_lib, isal_zlib

from singerlake.errors import (
    AccessDeniedError,
    BrokenFileError,
    SingerlakeError,
    StorageFullError,
    StorageUnavailableError,
)
from singerlake.format.extra_fields import FileHeader
from singerlake.format.lines.holes import HOLE, numbered
from singerlake.format.lines.messages import is_schema_line
from singerlake.format.newlines import end_of, look
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import DataFile, NewFile

MEMBER_BYTES = 8 << 20
"""Raw bytes after which a member is closed: large enough to compress well, small enough to seek and to split."""
_READ = 1 << 20
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
"""Bytes as they are, on Windows too, and in no process that is started meanwhile."""
_FASTEST_ZLIB_LEVEL = 4
HELD_BYTES = 64 << 20
"""Most bytes of text held back until their checksum is seen; only files of foreign make have larger members."""


class Readable(Protocol):
    """What gives stored bytes in order, as a file does."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, RECORD and ACTIVATE_VERSION only, and holes. ``offset`` is the first message's in the stream.
    ``places`` are the offsets of all messages, where holes between them are left out; None: they are in a row."""

    data: bytes
    offset: int
    messages: int
    places: Sequence[int] | None = None

    @property
    def offsets(self) -> Sequence[int]:
        """The offset of each message."""
        return range(self.offset, self.offset + self.messages) if self.places is None else self.places

    @property
    def end(self) -> int:
        """The offset after its last message, at which a reader goes on."""
        return self.offsets[-1] + 1

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Each message as ``(offset, line)``; the line is the one that the tap wrote, without its newline."""
        return zip(self.offsets, self.data.split(b"\n"), strict=False)

    def after(self, count: int) -> Block:
        """This block of messages in a row without its first ``count`` messages."""
        cut = end_of(self.data, count)
        return Block(self.data[cut:], self.offset + count, self.messages - count)

    def first(self, count: int) -> Block:
        """The first ``count`` messages of this block, which are in a row."""
        return Block(self.data[: end_of(self.data, count)], self.offset, count)

    def without_holes(self) -> Block | None:
        """This block of messages in a row without its holes; None where it has nothing else."""
        if HOLE not in self.data:
            return self
        data, places, _ = numbered(self.data, self.offset)
        return Block(data, places[0], len(places), places) if places else None


def compress_member(raw: bytes, level: int, *, extra: bytes | None = None) -> bytes:
    """One complete gzip member. Levels 1 to 3 are ISA-L's, 4 to 9 zlib's. Releases the interpreter lock. ``extra`` is
    the JSON of an ``SL`` extra field."""
    if level < _FASTEST_ZLIB_LEVEL:
        if extra is None:
            return igzip_lib.compress(raw, level, flag=igzip_lib.COMP_GZIP)
        deflated = igzip_lib.compress(raw, level, flag=igzip_lib.COMP_DEFLATE)
    else:
        squeezer = zlib.compressobj(level, zlib.DEFLATED, -15, 9)
        deflated = squeezer.compress(raw) + squeezer.flush()
    flags = 4 if extra is not None else 0
    head = b"\x1f\x8b\x08" + bytes((flags,)) + b"\0\0\0\0\0\xff"
    if extra is not None:
        field = b"SL" + struct.pack("<H", len(extra)) + extra
        head += struct.pack("<H", len(field)) + field
    return head + deflated + struct.pack("<II", isal_zlib.crc32(raw) & 0xFFFFFFFF, len(raw) & 0xFFFFFFFF)


class Spool:
    """A data file growing on the local disk, a member at a time; no descriptor is held between members."""

    def __init__(self, path: Path, schema_line: bytes, header: FileHeader, *, level: int) -> None:
        self.path = path
        self.header = header
        self.bytes = 0
        self.raw_bytes = 0
        self.messages = 0
        self.records = 0
        self._members: list[tuple[int, int]] = []
        self._sha256 = hashlib.sha256()
        line = schema_line if schema_line.endswith(b"\n") else schema_line + b"\n"
        self._append(compress_member(line, level, extra=msgspec.json.encode(header)), len(line), os.O_CREAT | os.O_EXCL)

    def append(self, member: bytes, *, raw_bytes: int, messages: int, records: int) -> None:
        """Add one compressed member of whole lines. Raises ``OSError`` as the disk does."""
        self._members.append((self.bytes, messages))
        self._append(member, raw_bytes)
        self.messages += messages
        self.records += records

    def append_empty(self, members: bytes) -> None:
        """Add compressed members without content. Raises ``OSError`` as the disk does."""
        self._append(members, 0)

    def _append(self, member: bytes, raw_bytes: int, how: int = 0) -> None:
        # Without a file object, which asks the system for four things more, each time between two members.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | _BINARY | how, 0o666)
        try:
            rest = memoryview(member)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)
        self._sha256.update(member)
        self.bytes += len(member)
        self.raw_bytes += raw_bytes

    def describe(
        self, *, path: str, version: str, first: str, last: str, attached: tuple[Attached, ...] = ()
    ) -> NewFile:
        """The finished file as a transaction lists it; ``path`` is relative to the stream's folder."""
        return NewFile(
            id=self.header.id,
            path=path,
            version=version,
            messages=self.messages,
            records=self.records,
            bytes=self.bytes,
            raw_bytes=self.raw_bytes,
            sha256=self._sha256.hexdigest(),
            first=first,
            last=last,
            members=tuple(self._members),
            attached=attached,
        )


def spool_error(error: OSError, path: Path) -> SingerlakeError:
    """What the disk of a spool at ``path`` refused, as an error that says what to do."""
    folder = str(path.parent)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError("no space is left for the spool", hint="free some, or set spool_dir", spool_dir=folder)
    if isinstance(error, PermissionError):
        return AccessDeniedError("the spool cannot be written", hint="set spool_dir", spool_dir=folder)
    reason = (error.strerror or str(error)).lower()
    return StorageUnavailableError(
        f"the spool cannot be written: {reason}", hint="check its disk, or set spool_dir", spool_dir=folder
    )


def first_line(stream: Readable, *, where: dict[str, str], checked: bool = True) -> bytes | None:
    """The first line of a data file, with its newline: the SCHEMA message that rules the file's records, whichever
    gzip member it shares with others. ``stream`` gives the stored bytes from the first one on. None where the text ends
    before the line does.

    ``checked``: the member in which the line ends is read to its end, or for ``HELD_BYTES`` of text, so that no line of
    a damaged member is given; raises ``BrokenFileError`` where it is damaged, or cut. Otherwise what is there of the
    stored bytes may end anywhere, and None also means that more of them are needed.
    """
    line, size = b"", 0
    try:
        for piece in _inflated(stream, where, _READ):
            if not line.endswith(b"\n"):
                begin, newline, _ = piece.partition(b"\n")
                line += begin + newline
            elif not piece:
                break
            size += len(piece)
            if line.endswith(b"\n") and (not checked or size > HELD_BYTES):
                break
    except BrokenFileError:
        if checked:
            raise
    return line if line.endswith(b"\n") else None


def read_blocks(
    stream: Readable, file: DataFile, *, member: int = 0, until: int | None = None, key: str = "", given: int = 0
) -> Iterator[Block]:
    """The messages of ``file`` from its ``member``-th tabled member on, in blocks of whole lines, in order.

    ``stream`` gives the stored bytes from that member's start (from the file's first byte for member 0) to the start
    of member ``until``, or to the end. SCHEMA messages are left out wherever they stand. ``given`` is the number of
    messages that were read before, for what an error says.

    Raises ``BrokenFileError`` where the gzip is damaged or cut, or where the messages or bytes are not what the
    manifest says; blocks given before that are good as far as they go.
    """
    where = {"key": key or file.path, "id": file.id}
    expected = given + sum(count for _, count in file.members[member:until])
    offset = file.offset + sum(count for _, count in file.members[:member])
    seen = given
    for data in inflate(stream, where=where):
        kept, count = kept_lines(data)
        if count:
            seen += count
            if seen > expected:
                break
            yield Block(kept, offset, count)
            offset += count
    check_count(seen, expected, where)


def check_count(seen: int, expected: int, where: dict[str, str]) -> None:
    """Raise ``BrokenFileError`` where a file, or a run of its members, holds more or fewer messages than it should."""
    if seen != expected:
        raise BrokenFileError(
            f"the manifest says {expected} messages, the file holds {'more' if seen > expected else seen}",
            hint="run 'singerlake verify'; restore the file from a backup",
            **where,
        )


def inflate(stream: Readable, *, where: dict[str, str], size: int = 4 * _READ) -> Iterator[bytes]:
    """The decompressed bytes of a run of gzip members, in blocks of about ``size`` that end on a newline. Raises
    ``BrokenFileError`` where the gzip is damaged, cut, or does not end on a newline; ``where`` says of what."""
    tail: list[bytes] = []  # Joined once: a line may be as long as hundreds of pieces.
    for piece in _inflated(stream, where, size):
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join((*tail, memoryview(piece)[:cut]))
            tail = [piece[cut:]] if cut < len(piece) else []
        elif piece:
            tail.append(piece)
    if tail:
        raise BrokenFileError("ends in the middle of a line", hint="run 'singerlake verify'", **where)


def _inflated(stream: Readable, where: dict[str, str], size: int) -> Iterator[bytes]:
    """The decompressed bytes in pieces of at most ``size``, and an empty piece where a gzip member has ended well."""
    pending = b""
    decompressor = None
    try:
        while True:
            data = pending or stream.read(_READ)
            pending = b""
            if not data:
                break
            if decompressor is None:
                decompressor = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            out = decompressor.decompress(data, size)
            if out:
                yield out
            while not decompressor.eof and not decompressor.needs_input:
                out = decompressor.decompress(b"", size)
                if out:
                    yield out
                else:
                    break
            if decompressor.eof:
                pending = decompressor.unused_data
                decompressor = None
                yield b""
    except (igzip_lib.error, EOFError) as error:  # type: ignore[misc]
        raise BrokenFileError(f"damaged gzip: {error}", hint="run 'singerlake verify'", **where) from error
    if decompressor is not None:
        raise BrokenFileError(
            "cut short: the last gzip member is not complete", hint="run 'singerlake verify'", **where
        )


def kept_lines(data: bytes) -> tuple[bytes, int]:
    """``data`` without its SCHEMA lines, and how many lines are left."""
    count, word = look(data)
    if not word:
        return data, count
    lines = [line for line in data.split(b"\n")[:-1] if not is_schema_line(line)]
    return b"".join(line + b"\n" for line in lines), len(lines)
