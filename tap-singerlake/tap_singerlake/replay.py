"""One stream's messages from a starting point on, each behind the SCHEMA message it was written under; and from these
to output and checkpoints: where blocks are cut, and when a bookmark is emitted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from singerlake.errors import LineageChangedError, MissingFileError
from singerlake.format.exact_json import encode
from singerlake.format.lines.messages import is_record_line
from singerlake.format.newlines import end_of
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Manifest, SchemaVersion
from singerlake.format.state.selection import Slice, check_offsets, newest_version, resolve_version, schema_of
from singerlake.reading import Ranges, read_slice_by_members
from singerlake.singer_file import Block
from singerlake.stream import LakeStream
from singerlake.upkeep.scan import schema_line
from tap_singerlake.catalog.columns import joined, met
from tap_singerlake.conversion import Conversion
from tap_singerlake.extent import start_offset

logger = logging.getLogger(__name__)

_EVENT = 1000
"""Bytes, about, of an event beside its messages."""


@dataclass(frozen=True, slots=True)
class SchemaLine:
    """The SCHEMA message that the messages behind it were written under: a line with its newline."""

    line: bytes


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """Whole lines of one file, RECORD and ACTIVATE_VERSION only."""

    block: Block
    file: DataFile
    lineage: str | None

    def bookmark(self, messages: int) -> Bookmark:
        """The position of a reader that has passed on the first ``messages`` of these, one at least."""
        offset = self.block.offsets[messages - 1] + 1
        return Bookmark(lineage=self.lineage, offset=offset, file=self.file.id, line=offset - self.file.offset)


@dataclass(frozen=True, slots=True)
class FileEnd:
    """Everything of a file was given, or it was passed over."""

    bookmark: Bookmark


Event = SchemaLine | MessageBlock | FileEnd
"""What a reader gives."""


def size_of(event: Event) -> int:
    """About the bytes that an event takes in memory."""
    return _EVENT + (len(event.block.data) if isinstance(event, MessageBlock) else 0)


@dataclass
class Reader:
    """Reads on from ``position``, or without one from the offset ``begin`` or from where ``from_version`` first
    appears; ``versions`` (labels, hashes, path segments) restricts to files of those. ``skip_expired``: where messages
    at the position expired, it goes on behind them. Goes once over what was committed when it began, up to the offset
    ``end``, if there is one. ``one_schema``: gives one SCHEMA message for all versions that it comes to, and no more
    of them than there were when it gave it."""

    stream: LakeStream
    position: Bookmark | None = None
    from_version: str | None = None
    versions: tuple[str, ...] | None = None
    skip_expired: bool = False
    begin: int | None = None
    end: int | None = None
    one_schema: bool = False
    _joined: tuple[bytes, str | None, int] | None = None
    _current: DataFile | None = None

    def events(self, manifest: Manifest) -> Generator[Event, None, None]:
        """What ``manifest`` lists, in offset order. A file that is gone since, because its messages were moved into
        another, costs a new look at the manifest.

        Raises ``CorruptObjectError`` for a manifest that leaves an offset out or has one twice, ``UnknownNameError``,
        ``LostBookmarkError``, ``ExpiredMessagesError``, ``MissingFileError``, ``BrokenFileError``, what storage
        raises, and ``LineageChangedError`` where the stream is rebuilt or dropped meanwhile and there is an ``end``.
        """
        while True:
            try:
                yield from self._files(manifest)
                return
            except MissingFileError as error:
                fresh = self.stream.snapshot()
                if self._current is None:
                    raise
                if self._current.id in fresh.by_id:
                    raise MissingFileError(
                        "a file that the manifest lists is not there",
                        hint="run 'singerlake verify'; restore the file from a backup",
                        key=self.stream.prefix + self._current.path,
                        id=self._current.id,
                    ) from error
                if self.end is not None and fresh.lineage != manifest.lineage:
                    raise LineageChangedError(
                        "the stream was rebuilt or dropped while it was read in one view with others",
                        hint="run again",
                        tap=fresh.tap,
                        stream=fresh.stream,
                    ) from error
                logger.info("%r: a file was replaced while it was being read; continuing in the new file", fresh.stream)
                manifest = fresh

    def _files(self, manifest: Manifest) -> Iterator[Event]:
        storage = self.stream.lake.storage
        wanted = None if self.versions is None else {resolve_version(manifest, text) for text in self.versions}
        start = start_offset(
            self.stream,
            manifest,
            self.position,
            self.from_version,
            begin=self.begin,
            end=self.end,
            skip_expired=self.skip_expired,
        )
        stop = manifest.next_offset if self.end is None else min(self.end, manifest.next_offset)
        logger.info("reading %r from offset %d of %d", manifest.stream, start, stop)
        listed = manifest.files_from(start, stop) if start < stop else FileList()
        if self.one_schema and listed:
            # A state that was read anew may have files of a version that the schema does not know.
            if self._joined is None or self._joined[1] != manifest.lineage:
                self._joined = _joined(manifest, listed, wanted), manifest.lineage, stop
            elif stop > self._joined[2]:
                stop = self._joined[2]
                listed = manifest.files_from(start, stop) if start < stop else FileList()
        check_offsets(manifest, listed, start, stop)

        def part_of(file: DataFile) -> Slice | None:
            chosen = wanted is None or file.version in wanted
            cut = stop - file.offset if file.end > stop else None
            return Slice(file, max(0, start - file.offset), cut) if chosen else None

        ranges = None if storage.near else Ranges(storage, self.stream.prefix, filter(None, map(part_of, listed)))
        for file in listed:
            if part := part_of(file):
                self._current = file
                head, stored = ranges.next_file(part) if ranges else (None, None)
                line = self._joined[0] if self._joined else schema_line(storage, self.stream.prefix, file, head)
                yield SchemaLine(line)
                for block in read_slice_by_members(storage, self.stream.prefix, part, stored):
                    messages = MessageBlock(block, file, manifest.lineage)
                    self.position = messages.bookmark(block.messages)
                    yield messages
            end = min(file.end, stop)
            self.position = Bookmark(lineage=manifest.lineage, offset=end, file=file.id, line=end - file.offset)
            yield FileEnd(self.position)
        if not manifest.files:
            # A value that is written there is a message about the table, as it was of the captured tap.
            version = newest_version(manifest)
            if version is not None and (wanted is None or version in wanted):
                yield SchemaLine(_message(manifest.stream, schema_of(manifest, version)))


def _joined(manifest: Manifest, listed: FileList, wanted: set[str] | None) -> bytes:
    """One SCHEMA message for the versions of these files, with the keys of the newest."""
    versions = met(manifest, listed, wanted)
    if not versions:
        return b""
    newest = versions[0]
    if any(version.key_properties != newest.key_properties for version in versions):
        logger.warning(
            "%r: the versions of this replay differ in key_properties; one_schema sends those of the newest, %s",
            manifest.stream,
            list(newest.key_properties),
        )
    schema = joined([version.schema for version in versions])
    return _message(manifest.stream, msgspec.structs.replace(newest, schema=schema))


def _message(stream: str, schema: SchemaVersion) -> bytes:
    message = {"type": "SCHEMA", "stream": stream, "schema": schema.schema, "key_properties": schema.key_properties}
    if schema.bookmark_properties:
        message["bookmark_properties"] = schema.bookmark_properties
    return encode(message) + b"\n"


@dataclass
class Replay:
    """One run over one stream. ``write`` takes whole lines. ``checkpoint`` takes a bookmark once everything before it
    was written: at the end of each file, after ``every`` messages, and at the end. ``limit``: the most records."""

    conversion: Conversion
    write: Callable[[bytes | memoryview], None]
    checkpoint: Callable[[Bookmark], None]
    every: int
    limit: int | None

    def __post_init__(self) -> None:
        self._left = self.limit
        self._since = 0
        self._schema = b""
        self._reached: Bookmark | None = None
        self._told: Bookmark | None = None

    def run(self, events: Iterable[Event]) -> Iterator[int]:
        """Writes ``events``; gives the number of records after each write."""
        for event in events:
            if self._left == 0:
                break
            if isinstance(event, SchemaLine):
                self._say_schema(event)
            elif isinstance(event, MessageBlock):
                yield from self._say_messages(event)
            else:
                self._reached = event.bookmark
                if self._since:
                    self._settle()
        self._settle()

    def _say_schema(self, event: SchemaLine) -> None:
        lines = self.conversion.schema(event.line)
        if lines != self._schema:
            self.write(lines)
            self._schema = lines

    def _say_messages(self, event: MessageBlock) -> Iterator[int]:
        block, view = event.block, memoryview(event.block.data)
        done = start = 0
        while done < block.messages and self._left != 0:
            messages, records = self._share(event, start, min(block.messages - done, self.every - self._since))
            last = done + messages == block.messages
            end = len(view) if last else end_of(block.data, messages, start)
            offsets = block.offsets[done : done + messages]
            self.write(self.conversion.messages(view[start:end], offsets, event.file))
            start, done = end, done + messages
            self._since += messages
            self._left = None if self._left is None else self._left - records
            self._reached = event.bookmark(done)
            yield records
            if self._since >= self.every:
                self._settle()

    def _share(self, event: MessageBlock, start: int, messages: int) -> tuple[int, int]:
        """``messages`` or fewer, as the limit allows, and the records among them."""
        if event.file.records + event.file.erased == event.file.messages:
            allowed = messages if self._left is None else min(messages, self._left)
            return allowed, allowed
        return take(event.block.data, start, messages, self._left)

    def _settle(self) -> None:
        if self._reached is not None and self._reached != self._told:
            self.checkpoint(self._reached)
            self._told = self._reached
        self._since = 0


def take(data: bytes, start: int, messages: int, limit: int | None) -> tuple[int, int]:
    """How many of the ``messages`` lines from ``start`` on hold no more than ``limit`` records, and how many records
    those are: ``(messages, records)``. Stops right behind the last record that the limit allows."""
    records = 0
    for count in range(messages):
        end = data.index(b"\n", start) + 1
        records += is_record_line(data[start:end])
        if records == limit:
            return count + 1, records
        start = end
    return messages, records
