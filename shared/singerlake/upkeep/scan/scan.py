"""Reading a data file for everything it says of itself, in one pass and bounded memory."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import BinaryIO, Protocol, TypeAlias

import msgspec
from isal import igzip_lib, isal_zlib

from singerlake.attached.members import Parts, attached_rows
from singerlake.clock import timestamp
from singerlake.format.extra_fields import FileHeader, Provenance, member_extra, own_words
from singerlake.format.state.attached import Attached, in_order, shifted
from singerlake.format.state.model import StreamSchema
from singerlake.storage.port import Storage
from singerlake.upkeep.scan.lines import Lines, broken

_READ = 1 << 17
_PIECE = 1 << 17
CUT = struct.Struct("<QI")
_LONGEST_HEADER = 12 + 0xFFFF
"""Bytes of a gzip header up to the end of its extra field (RFC 1952, section 2.3)."""


Bytes: TypeAlias = bytes


class ScanResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a data file's own bytes say. The counts, ``sha256`` and ``members`` are those of a ``NewFile``, and so are
    ``erased`` and ``attached``.

    ``first`` and ``last`` are the earliest and the latest ``time_extracted`` of its records, None where none has one.
    ``header`` is the first one in the file, so that of the first joined file in a vacuumed one. ``content`` is the
    length and CRC-32 of the raw text; ``cuts`` are the same, each as a ``CUT``, of the text before each member, where
    there is any: what a copy that was cut between two members would have. ``holes`` says where those that are
    ``erased`` stand, each row of them as a ``HOLES``.
    """

    header: FileHeader | None
    provenance: Provenance | None
    stream: str
    schema: StreamSchema
    messages: int
    records: int
    erased: int
    bytes: int
    raw_bytes: int
    sha256: str
    first: str | None
    last: str | None
    members: tuple[tuple[int, int], ...]
    content: tuple[int, int]
    cuts: Bytes
    attached: tuple[Attached, ...] = ()
    holes: Bytes = b""


def scan(stream: BinaryIO, *, key: str, times: bool = True) -> ScanResult:
    """Read a whole data file from its stored bytes. ``times``: its ``first`` and ``last`` are wanted, which are None
    otherwise.

    Raises ``BrokenFileError`` where the gzip is damaged or cut, where a line is no Singer message or of another stream
    than the SCHEMA line, or where a vacuumed file does not hold the messages that its header says.
    """
    reader = _ScanReader(key, times)
    walk(stream, reader)
    return reader.finish()


class MemberReader(Protocol):
    """What sees the gzip members of the file at ``key``. ``bytes`` are the stored ones that it was given."""

    key: str
    bytes: int

    def stored(self, data: Bytes, /) -> None:
        """The next stored bytes, which may be ahead of the text."""

    def member(self, start: int, extra: Bytes | None, /) -> None:
        """A gzip member begins at the stored byte ``start``, with ``extra`` as its ``SL`` field."""

    def text(self, piece: Bytes, /) -> None:
        """The next decompressed bytes."""


def walk(stream: BinaryIO, reader: MemberReader) -> None:
    """Have ``reader`` see the members of a gzip file and the text in them, in order. Checksums are checked by the
    decompressor. Raises ``BrokenFileError`` where the gzip is damaged or cut."""
    buffer, more = b"", True
    while True:
        while more and len(buffer) < _LONGEST_HEADER:
            data = stream.read(_READ)
            reader.stored(data)
            buffer, more = buffer + data, bool(data)
        if not buffer:
            return
        extra = member_extra(buffer)
        begin = reader.bytes - len(buffer)
        if extra is None:
            broken(reader.key, f"no gzip member at byte {begin}" if begin else "not a gzip file")
        reader.member(begin, extra[0])
        inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        # What may come out is allocated before it does.
        most = min(_PIECE, 16 * len(buffer))
        while not inflater.eof:
            if not buffer:
                buffer = stream.read(_READ)
                if not buffer:
                    broken(reader.key, "cut short: the last gzip member is not complete")
                reader.stored(buffer)
            try:
                reader.text(inflater.decompress(buffer, most))
                while not inflater.eof and not inflater.needs_input:
                    reader.text(inflater.decompress(b"", _PIECE))
            except (igzip_lib.error, EOFError) as error:  # type: ignore[misc]  # isal's stub has an instance here
                broken(reader.key, f"damaged gzip: {error}", error)
            buffer, most = inflater.unused_data if inflater.eof else b"", _PIECE


class _ScanReader:
    """Puts together what a file says. ``_open`` is the stored byte of the last member that began on a line's border:
    only such a member can be read on its own, so only such members go into the table."""

    def __init__(self, key: str, times: bool) -> None:
        self.key = key
        self.bytes = 0
        self._digest = hashlib.sha256()
        self._lines = Lines(key, times=times)
        self._header: FileHeader | None = None
        self._origins: list[Provenance] = []
        self._front: Provenance | None = None
        self._attached: list[Attached] = []
        self._rows: tuple[Attached, ...] = ()
        self._parts = Parts()
        self._table: list[tuple[int, int]] = []
        self._cuts: list[tuple[int, int]] = []
        self._open = self._counted = self._raw_bytes = self._crc = 0

    def stored(self, data: bytes) -> None:
        """The next stored bytes."""
        self.bytes += len(data)
        self._digest.update(data)

    def member(self, start: int, extra: bytes | None) -> None:
        """A gzip member begins at the stored byte ``start``, with ``extra`` as its ``SL`` field."""
        self._close_empty()
        if extra is not None:
            self._note(extra)
        self._cuts.append((self._raw_bytes, self._crc))
        if self._lines.between:
            self._close_member()
            self._open = start

    def _note(self, extra: bytes) -> None:
        """A field that is neither is somebody else's, or damaged: gzip has no checksum over it, and the messages do
        not depend on it."""
        words = own_words(extra)
        if isinstance(words, Provenance) and self._lines.stream is None:
            self._front = words
        elif isinstance(words, FileHeader):
            self._header = self._header or words
            if self._lines.between:
                self._parts.header(self._lines.messages)
        elif words is None and self._lines.between:
            begin = self._parts.begin(self._lines.messages)
            self._rows = shifted(attached_rows(extra, self._lines.messages - begin), begin)

    def _close_empty(self) -> None:
        """Only a member without content says what a file was joined from, and what is attached to its records."""
        if self._front is not None:
            self._origins.append(self._front)
            self._parts.add(self._front.replaces)
            self._front = None
        self._attached += self._rows
        self._rows = ()

    def _close_member(self) -> None:
        messages = self._lines.messages
        if messages > self._counted:
            self._table.append((self._open, messages - self._counted))
            self._counted = messages

    def text(self, piece: bytes) -> None:
        """The next decompressed bytes."""
        if piece:
            self._front, self._rows = None, ()
        self._raw_bytes += len(piece)
        self._crc = isal_zlib.crc32(piece, self._crc)
        self._lines.feed(piece)

    def finish(self) -> ScanResult:
        lines = self._lines
        stream, schema = lines.finish()
        self._close_empty()
        self._close_member()
        return ScanResult(
            header=self._header,
            provenance=self._provenance(),
            stream=stream,
            schema=schema,
            messages=lines.messages,
            records=lines.records,
            erased=lines.erased,
            bytes=self.bytes,
            raw_bytes=self._raw_bytes,
            sha256=self._digest.hexdigest(),
            first=timestamp(lines.extracted[0]) if lines.extracted else None,
            last=timestamp(lines.extracted[1]) if lines.extracted else None,
            members=tuple(self._table),
            content=(self._raw_bytes, self._crc),
            cuts=b"".join([CUT.pack(*cut) for cut in sorted(set(self._cuts)) if cut[0]]),
            attached=in_order(self._attached),
            holes=bytes(lines.holes),
        )

    def _provenance(self) -> Provenance | None:
        erased = sum(row[1] for origin in self._origins for row in origin.erased)
        if erased != self._lines.erased:
            broken(self.key, f"holds {self._lines.erased} erased records, its header says {erased}")
        if not self._origins:
            return None
        provenance = Provenance.joined(self._origins)
        expected = sum(messages for _, messages in provenance.replaces)
        if expected != self._lines.messages:
            broken(self.key, f"holds {self._lines.messages} messages, its header says {expected}")
        return provenance


SMALL_BYTES = 1 << 14
"""Stored bytes of a small file. To open a larger one takes little beside inflating it."""


def small_bodies(storage: Storage, files: Sequence[tuple[str, int]]) -> Sequence[bytes | None]:
    """The whole of each file, given by key and stored bytes, where it is small and storage has it at hand; None for
    each that has to be opened. Raises what storage raises."""
    bodies: list[bytes | None] = [None] * len(files)
    small = [at for at, (_, size) in enumerate(files) if size <= SMALL_BYTES]
    for at, body in zip(small, storage.bodies([files[at][0] for at in small], SMALL_BYTES), strict=True):
        bodies[at] = body
    return bodies
