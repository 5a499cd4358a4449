"""Reading a data file for everything it says of itself, in one pass and bounded memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NoReturn

import msgspec
from isal import igzip_lib, isal_zlib

from singerlake.clock import timestamp
from singerlake.errors import BrokenFile
from singerlake.format.messages import Envelope, envelope, envelopes
from singerlake.format.model import StreamSchema
from singerlake.format.times import Span, joined, span
from singerlake.singer_file import FileHeader, Provenance, member_extra

_READ = 1 << 20
_PIECE = 1 << 20
_LONGEST_HEADER = 12 + 0xFFFF
"""Bytes of a gzip header up to the end of its extra field (RFC 1952, section 2.3)."""
_HINT = "restore the file from a backup; a rebuild leaves it out"


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a data file's own bytes say. The counts, ``sha256`` and ``members`` are those of a ``NewFile``.

    ``first`` and ``last`` are the earliest and the latest ``time_extracted`` of its records, None where none has one.
    ``header`` is the first one in the file, so that of the first joined file in a vacuumed one. ``content`` is the
    length and CRC-32 of the raw text; ``cuts`` are the same of the text before each member, which is what a copy
    that was cut between two members would have.
    """

    header: FileHeader | None
    provenance: Provenance | None
    stream: str
    schema: StreamSchema
    messages: int
    records: int
    bytes: int
    raw_bytes: int
    sha256: str
    first: str | None
    last: str | None
    members: tuple[tuple[int, int], ...]
    content: tuple[int, int]
    cuts: frozenset[tuple[int, int]]


def scan(stream: BinaryIO, *, key: str) -> Scanned:
    """Read a whole data file from its stored bytes.

    Raises ``BrokenFile`` where the gzip is damaged or cut, where a line is no Singer message or of another stream
    than the SCHEMA line, or where a vacuumed file does not hold the messages that its header says.
    """
    reader = _Reader(key)
    stored = _Stored()
    for item in _walk(stream, stored, key):
        if isinstance(item, _Member):
            reader.member(item)
        else:
            reader.feed(item)
    return reader.finish(stored)


@dataclass(slots=True)
class _Stored:
    """The stored bytes that were walked over."""

    bytes: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def passed(self, data: memoryview) -> None:
        self.bytes += len(data)
        self.digest.update(data)


@dataclass(frozen=True, slots=True)
class _Member:
    """A gzip member begins at the stored byte ``start``, with ``extra`` as its ``SL`` field."""

    start: int
    extra: bytes | None


def _walk(stream: BinaryIO, stored: _Stored, key: str) -> Iterator[_Member | bytes]:
    """The members of a gzip file and the text in them, in order. Checksums are checked by the decompressor."""
    buffer = b""
    while True:
        while len(buffer) < _LONGEST_HEADER and (data := stream.read(_READ)):
            buffer += data
        if not buffer:
            return
        found = member_extra(buffer)
        if found is None:
            _broken(key, f"no gzip member at byte {stored.bytes}" if stored.bytes else "not a gzip file")
        yield _Member(stored.bytes, found[0])
        inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        while not inflater.eof:
            if not buffer and not (buffer := stream.read(_READ)):
                _broken(key, "cut short: the last gzip member is not complete")
            try:
                yield inflater.decompress(buffer, _PIECE)
                while not inflater.eof and not inflater.needs_input:
                    yield inflater.decompress(b"", _PIECE)
            except (igzip_lib.error, EOFError) as error:  # type: ignore[misc]  # isal's stub has an instance here
                _broken(key, f"damaged gzip: {error}", error)
            rest = inflater.unused_data if inflater.eof else b""
            stored.passed(memoryview(buffer)[: len(buffer) - len(rest)])
            buffer = rest


@dataclass(slots=True)
class _Reader:
    """Counts lines as they pass. ``_open`` is the stored byte of the last member that began on a line's border:
    only such a member can be read on its own, so only such members go into the table."""

    key: str
    header: FileHeader | None = None
    schema_message: dict[str, Any] | None = None
    messages: int = 0
    records: int = 0
    extracted: Span | None = None
    table: list[tuple[int, int]] = field(default_factory=list)
    cuts: list[tuple[int, int]] = field(default_factory=list)
    _origins: list[Provenance] = field(default_factory=list)
    _tail: list[bytes] = field(default_factory=list)
    _open: int = 0
    _counted: int = 0
    _end: int = 0
    _raw_bytes: int = 0
    _crc: int = 0

    def member(self, member: _Member) -> None:
        if member.extra is not None:
            self._note(member.extra)
        self.cuts.append((self._raw_bytes, self._crc))
        if not self._tail:
            self._close_member()
            self._open = member.start

    def _note(self, extra: bytes) -> None:
        """A field that is neither is somebody else's, or damaged: gzip has no checksum over it, and the messages do
        not depend on it."""
        found = _extra(extra)
        if isinstance(found, Provenance) and self.schema_message is None:
            self._origins.append(found)
        elif isinstance(found, FileHeader) and self.header is None:
            self.header = found

    def _close_member(self) -> None:
        if self.messages > self._counted:
            self.table.append((self._open, self.messages - self._counted))
            self._counted = self.messages

    def feed(self, piece: bytes) -> None:
        self._raw_bytes += len(piece)
        self._crc = isal_zlib.crc32(piece, self._crc)
        cut = piece.rfind(b"\n") + 1
        if cut:
            self._lines(b"".join((*self._tail, piece[:cut])))
            self._tail.clear()
        if cut < len(piece):
            self._tail.append(piece[cut:])

    def _lines(self, block: bytes) -> None:
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError as error:
                _broken(self.key, f"holds what is not UTF-8 after {self.messages} messages", error)
        if self.schema_message is None:
            end = block.index(b"\n") + 1
            self._schema(block[:end])
            block = block[end:]
        times = []
        for message in self._envelopes(block):
            kind = message.type
            if kind == "SCHEMA":
                continue
            if kind not in ("RECORD", "ACTIVATE_VERSION"):
                _broken(self.key, f"holds a message of type {kind!r:.60}")
            self.messages += 1
            if kind == "RECORD":
                times.append(message.time_extracted)
                self.records += 1
        self.extracted = joined(self.extracted, span(times))

    def _envelopes(self, block: bytes) -> list[Envelope]:
        found = envelopes(block)
        if found is None:
            found = [self._envelope(line) for line in block.split(b"\n")[:-1]]
        stream = self.schema_message["stream"] if self.schema_message else None
        for message in found:
            if message.stream != stream:
                _broken(self.key, f"holds a message of stream {message.stream!r:.80} beside {stream!r:.80}")
        return found

    def _envelope(self, line: bytes) -> Envelope:
        found = envelope(line)
        if found is None:
            # Says which of the two it is not: JSON, or an object.
            self._object(line)
            self._not_a_message("not a JSON object")
        return found

    def _object(self, line: bytes) -> dict[str, Any]:
        try:
            message = decode(line)
        except (ValueError, RecursionError) as error:
            self._not_a_message("not JSON", error)
        if not isinstance(message, dict):
            self._not_a_message("not a JSON object")
        return message

    def _not_a_message(self, why: str, cause: Exception | None = None) -> NoReturn:
        _broken(self.key, f"line {self.messages + 2} is not a Singer message: {why}", cause)

    def _schema(self, line: bytes) -> None:
        message = self._object(line)
        if message.get("type") != "SCHEMA" or not isinstance(message.get("stream"), str) or "schema" not in message:
            _broken(self.key, "does not begin with a SCHEMA message")
        self.schema_message = message

    def finish(self, stored: _Stored) -> Scanned:
        if self._tail:
            _broken(self.key, "ends in the middle of a line")
        if self.schema_message is None:
            _broken(self.key, "holds no message")
        self._close_member()
        message = self.schema_message
        return Scanned(
            header=self.header,
            provenance=self._provenance(),
            stream=message["stream"],
            schema=StreamSchema(
                schema=message["schema"],
                key_properties=_names(message.get("key_properties")),
                bookmark_properties=_names(message.get("bookmark_properties")),
            ),
            messages=self.messages,
            records=self.records,
            bytes=stored.bytes,
            raw_bytes=self._raw_bytes,
            sha256=stored.digest.hexdigest(),
            first=timestamp(self.extracted[0]) if self.extracted else None,
            last=timestamp(self.extracted[1]) if self.extracted else None,
            members=tuple(self.table),
            content=(self._raw_bytes, self._crc),
            cuts=frozenset(self.cuts),
        )

    def _provenance(self) -> Provenance | None:
        if not self._origins:
            return None
        replaces = tuple(source for part in self._origins for source in part.replaces)
        expected = sum(messages for _, messages in replaces)
        if expected != self.messages:
            _broken(self.key, f"holds {self.messages} messages, its header says {expected}")
        return msgspec.structs.replace(self._origins[0], replaces=replaces)


def _extra(extra: bytes) -> FileHeader | Provenance | None:
    try:
        return msgspec.json.decode(extra, type=FileHeader)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return msgspec.json.decode(extra, type=Provenance)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decode(line: bytes) -> Any:
    """Any JSON that either of two readers takes: a writer keeps lines that only the standard library accepts.
    Raises ``ValueError``."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(line)


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()


def _broken(key: str, message: str, cause: Exception | None = None) -> NoReturn:
    raise BrokenFile(message, hint=_HINT, key=key) from cause
