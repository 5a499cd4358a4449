"""Reading a data file for everything it says of itself, in one pass and bounded memory."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, BinaryIO, NoReturn, Protocol, TypeAlias

import msgspec
from isal import igzip_lib, isal_zlib

from singerlake.attached.members import Parts, attached_rows
from singerlake.clock import timestamp
from singerlake.errors import BrokenFileError
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader, Provenance, member_extra, own_words
from singerlake.format.lines.counted import count
from singerlake.format.lines.holes import HOLE, around_holes
from singerlake.format.lines.messages import REFUSALS, Envelope, envelope, envelopes, is_schema_line, loads, messages_in
from singerlake.format.lines.times import Span, joined, span
from singerlake.format.schema_hash import DEEPEST, is_too_deep
from singerlake.format.state.attached import Attached, in_order, shifted
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.selection import schema_in_force, schema_of
from singerlake.singer_file import first_line
from singerlake.storage.port import Storage

HOLES = struct.Struct("<QQ")
"""Holes in a row: the number of the first one among the messages of the file, from 0 on, and how many they are."""
_KEPT_BYTES = 1 << 20
"""Of a SCHEMA message that is kept for the next file."""
_HINT = "restore the file from a backup; a rebuild leaves it out"


class Lines:
    """Checks and counts the lines of the file at ``key``, as they pass. ``messages``, ``records``, ``erased`` (holes),
    ``holes`` (where these stand: each row of them as a ``HOLES``), ``extracted`` (the span of the records' times, where
    ``times`` are wanted), ``stream`` and ``schema`` are what was seen so far.
    Methods raise ``BrokenFileError`` where a line is not a message of the stream that the SCHEMA message names."""

    def __init__(self, key: str, *, times: bool) -> None:
        self.messages = 0
        self.records = 0
        self.erased = 0
        self.holes = bytearray()
        self.extracted: Span | None = None
        self.stream: str | None = None
        self.schema: StreamSchema | None = None
        self._key = key
        self._times = times
        self._tail: list[bytes] = []
        self._schemas = 0

    @property
    def between(self) -> bool:
        """Whether the last line that was begun has ended."""
        return not self._tail

    def feed(self, piece: bytes) -> None:
        cut = piece.rfind(b"\n") + 1
        if cut:
            whole = cut == len(piece) and not self._tail
            self._lines(piece if whole else b"".join((*self._tail, memoryview(piece)[:cut])))
            self._tail.clear()
        if cut < len(piece):
            self._tail.append(piece[cut:])

    def finish(self) -> tuple[str, StreamSchema]:
        """The stream and its schema, once all has passed."""
        if self._tail:
            broken(self._key, "ends in the middle of a line")
        if self.stream is None or self.schema is None:
            broken(self._key, "holds no message")
        return self.stream, self.schema

    def _lines(self, block: bytes) -> None:
        if self.stream is None:
            end = block.index(b"\n") + 1
            self._schema(block[:end])
            block = block[end:]
        if HOLE in block:
            block = self._without_holes(block)
        if not block:
            return
        assert self.stream is not None
        counted = count(block, self.stream, times=self._times)
        if counted is None:
            self._one_by_one(block)
            return
        self.messages += counted.messages
        self.records += counted.records
        self.extracted = joined(self.extracted, counted.extracted)

    def _without_holes(self, block: bytes) -> bytes:
        parts: list[bytes] = []
        before, erased = self.messages, 0
        for part, holes in around_holes(block):
            parts.append(part)
            if holes:
                self.holes += HOLES.pack(before, holes)
            erased += holes
            before += holes or messages_in(part)
        self.messages += erased
        self.erased += erased
        return b"".join(parts)

    def _one_by_one(self, block: bytes) -> None:
        self._is_utf8(block)
        times = []
        for message in self._envelopes(block):
            kind = message.type
            if kind == "SCHEMA":
                self._schemas += 1
                continue
            if kind not in ("RECORD", "ACTIVATE_VERSION"):
                broken(self._key, f"holds a message of type {kind!r:.60}")
            self.messages += 1
            if kind == "RECORD":
                times.append(message.time_extracted)
                self.records += 1
        if self._times:
            self.extracted = joined(self.extracted, span(times))

    def _envelopes(self, block: bytes) -> list[Envelope]:
        heads = envelopes(block)
        if heads is None:
            heads = [self._envelope(line, at) for at, line in enumerate(block.split(b"\n")[:-1])]
        for message in heads:
            if message.stream != self.stream:
                broken(self._key, f"holds a message of stream {message.stream!r:.80} beside {self.stream!r:.80}")
        return heads

    def _envelope(self, line: bytes, at: int) -> Envelope:
        """Of the line with that index in its block."""
        head = envelope(line)
        if head is None:
            # Says which of the two it is not: JSON, or an object.
            self._object(line, at)
            self._not_a_message(at, "not a JSON object")
        return head

    def _object(self, line: bytes, at: int = 0) -> dict[str, Any]:
        try:
            message = decode(line)
        except (ValueError, RecursionError) as error:
            self._not_a_message(at, "not JSON", error)
        if not isinstance(message, dict):
            self._not_a_message(at, "not a JSON object")
        return message

    def _not_a_message(self, at: int, why: str, cause: Exception | None = None) -> NoReturn:
        number = self.messages + self._schemas + at + 1
        broken(self._key, f"line {number} is not a Singer message: {why}", cause)

    def _is_utf8(self, block: bytes) -> None:
        try:
            block.decode()
        except UnicodeDecodeError as error:
            broken(self._key, f"holds bytes that are not UTF-8 after {self.messages} messages", error)

    def _schema(self, line: bytes) -> None:
        self._is_utf8(line)
        schema = schema_in(line)
        if schema is None:
            # Says so where it is not even JSON, or an object.
            message = self._object(line)
            if message.get("type") == "SCHEMA" and is_too_deep(message.get("schema")):
                broken(self._key, f"its SCHEMA message is nested more than {DEEPEST} levels")
            broken(self._key, "does not begin with a SCHEMA message")
        self.stream, self.schema = schema
        self._schemas += 1


def schema_in(line: bytes) -> tuple[str, StreamSchema] | None:
    """The stream and content of a SCHEMA message in UTF-8, if it is one; for the same line, the same objects."""
    return (_kept if len(line) <= _KEPT_BYTES else _kept.__wrapped__)(line)


@lru_cache(maxsize=8)
def _kept(line: bytes) -> tuple[str, StreamSchema] | None:
    try:
        message = decode(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("type") != "SCHEMA" or is_too_deep(message.get("schema")):
        return None
    if not isinstance(message.get("stream"), str) or "schema" not in message:
        return None
    return message["stream"], StreamSchema(
        schema=message["schema"],
        key_properties=_names(message.get("key_properties")),
        bookmark_properties=_names(message.get("bookmark_properties")),
    )


def decode(line: bytes) -> Any:
    """Any JSON that either of two readers takes: a writer keeps lines that only the standard library accepts. Raises
    ``ValueError`` and ``RecursionError``."""
    try:
        return msgspec.json.decode(line)
    except REFUSALS:
        return loads(line)


def _names(value: Any) -> tuple[str, ...]:
    """The names of a list of properties; one may stand alone, as the target takes it."""
    if isinstance(value, str):
        return (value,)
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()


def broken(key: str, message: str, cause: Exception | None = None) -> NoReturn:
    raise BrokenFileError(message, hint=_HINT, key=key) from cause


def schema_line(storage: Storage, prefix: str, file: DataFile, head: bytes | None = None) -> bytes:
    """The file's own SCHEMA message, with its newline. ``head``: the bytes before the first tabled member, where they
    were read already. Raises ``BrokenFileError`` and what storage raises. A writer of this package has it stand alone
    there; elsewhere it may share a member with messages."""
    key = prefix + file.path
    where = {"key": key, "id": file.id}
    end = file.members[0][0] if file.members else file.bytes
    if head is None and end:
        head = storage.read_range(key, 0, end)
    line = first_line(io.BytesIO(head), where=where) if head else None
    if line is None:
        with storage.open(key) as body:
            line = first_line(body, where=where)
    if line is None or not is_schema_line(line):
        raise _broken(where)
    return line


def schema_before(storage: Storage, manifest: Manifest, offset: int) -> StreamSchema | None:
    """What the newest SCHEMA message of the stream said before the message ``offset`` came; None where no message is
    left of what was before. The state says it, unless a later file has the same version: then it is read from a file.
    Raises as ``schema_line``, and ``CorruptObjectError``."""
    if offset >= manifest.next_offset:
        return schema_in_force(manifest)
    if offset <= manifest.floor:
        return None
    file = manifest.files[manifest.files.index_behind(offset - 1)]
    if file.version not in totals_of(manifest.files_from(file.end)).versions:
        return schema_of(manifest, file.version)
    prefix = layout.stream_prefix(manifest.tap, manifest.stream)
    said = schema_in(schema_line(storage, prefix, file))
    if said is None:
        raise _broken({"key": prefix + file.path, "id": file.id})
    return said[1]


def _broken(where: dict[str, str]) -> BrokenFileError:
    return BrokenFileError("does not begin with a SCHEMA message", hint="run 'singerlake verify'", **where)


_READ = 1 << 17
_PIECE = 1 << 17
CUT = struct.Struct("<QI")
LONGEST_HEADER = 12 + 0xFFFF
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
    otherwise. Raises ``BrokenFileError`` where the gzip is damaged or cut, where a line is not a Singer message or of
    another stream than the SCHEMA line, or where a vacuumed file does not hold the messages that its header says."""
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
        while more and len(buffer) < LONGEST_HEADER:
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
        self.bytes += len(data)
        self._digest.update(data)

    def member(self, start: int, extra: bytes | None) -> None:
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
        if provenance.messages != self._lines.messages:
            said = sum(messages for _, messages in provenance.replaces)
            why = "and that a file had none" if provenance.messages is None else ""
            broken(self.key, f"holds {self._lines.messages} messages, its header says {said} {why}".rstrip())
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
