"""What the lines of a data file say, taken in pieces as they are decompressed."""

from __future__ import annotations

import io
import struct
from functools import lru_cache
from typing import Any, NoReturn

import msgspec

from singerlake.errors import BrokenFileError
from singerlake.format import layout
from singerlake.format.lines.counted import count
from singerlake.format.lines.holes import HOLE, around_holes
from singerlake.format.lines.messages import REFUSALS, Envelope, envelope, envelopes, is_schema_line, loads, messages_in
from singerlake.format.lines.times import Span, joined, span
from singerlake.format.schema_hash import DEEPEST, is_too_deep
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
    Methods raise ``BrokenFileError`` where a line is no message of the stream that the SCHEMA message names."""

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
        """The next bytes of the text."""
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
    """The stream and the content of a SCHEMA message in UTF-8; None where it is none. The same objects for the same
    line: all files of a version begin alike."""
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
    """Raise ``BrokenFileError`` for the data file at ``key``."""
    raise BrokenFileError(message, hint=_HINT, key=key) from cause


def schema_line(storage: Storage, prefix: str, file: DataFile, head: bytes | None = None) -> bytes:
    """The file's own SCHEMA message, with its newline. ``head``: the bytes before the first tabled member, where they
    were read already. Raises ``BrokenFileError`` and what storage raises.

    A writer of this package has it stand alone there; elsewhere it may share a member with messages.
    """
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
