"""The files of records on their way into the lake, on threads of their own, while more records are read."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from singerlake.adapters import open_storage
from singerlake.attached.keep import IN_MEMORY, Fetched, Fetcher, Keeper, decode_base64, inline
from singerlake.attached.property_path import values_at
from singerlake.attached.sources.https import WebFiles
from singerlake.attached.sources.locations import CORRECT, told
from singerlake.attached.sources.open_source import FileSources
from singerlake.attached.sources.source import Deadline
from singerlake.errors import UnreadableSourceError
from singerlake.format.lines.messages import REFUSALS
from singerlake.format.state.attached import Attached
from singerlake.format.state.model import Manifest
from singerlake.humanize import counted, cut, size
from singerlake.lake import Lake
from singerlake.storage.settings import StorageSettings
from target_singerlake.files.growing import RecordFiles
from target_singerlake.input.messages import Records
from target_singerlake.input.passthrough import parse
from target_singerlake.input.schema import Schema
from target_singerlake.settings import FileProperty, FileSettings, Settings

_SHOWN = 200
"""Characters of a source in a log."""
_SHARE = 6
"""Files take at most this part of the memory: a sixth."""

State = Callable[[], Manifest]
"""Gives what the writer of a stream knows of its state by now."""


@dataclass(eq=False, kw_only=True)
class Attaching:
    """Reads the files that records name, and writes them into the lake. The reading thread hands over, and waits while
    too much is under way: ``2 * threads`` files, or ``room`` bytes of texts that hold files, but one of any size.
    ``state_of`` waits until a stream's writer knows its state. ``wake`` is called when something went wrong."""

    settings: FileSettings
    tap: str
    room: int
    fetcher: Fetcher
    keeper: Keeper
    state_of: Callable[[str], State]
    wake: Callable[[], None]
    logger: logging.Logger

    def __post_init__(self) -> None:
        self._states: dict[str, State] = {}
        self._values = {stream: _FileValues(each) for stream, each in self.settings.properties.items()}
        self._not_seen = dict.fromkeys(self._values)
        self._stopped = threading.Event()
        self._executor = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="attach")
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._files = 0
        self._bytes = 0
        self._counts: Counter[str] = Counter()
        self._warned: set[tuple[str, str]] = set()

    def __contains__(self, stream: str) -> bool:
        return stream in self._values

    def schema(self, schema: Schema) -> None:
        """Note the schema of a stream; a property that it does not have is probably a typing mistake."""
        self._not_seen.pop(schema.stream, None)
        content = schema.content.schema
        known = content.get("properties") if isinstance(content, dict) else None
        for each in self.settings.properties.get(schema.stream, ()):
            if isinstance(known, dict) and each.path[0] not in known:
                self.logger.warning(
                    "file_properties names %r, which the schema of stream %r does not have", each.name, schema.stream
                )

    def records(
        self, records: Records, waiting: Callable[[], None], proceed: Callable[[], None]
    ) -> Iterator[tuple[bytes, Any, RecordFiles | None]]:
        """The lines of a stream that has files, one by one: each with its ``time_extracted``, and with its files, which
        are on their way then; None where it has none. ``waiting`` is called again and again while there is no room for
        another file, ``proceed`` before each file; what it raises leaves the record out. Raises what went wrong with an
        earlier file, and what the lake raises."""
        stream = records.stream
        for line, time, files in self._values[stream].of(records):
            yield line, time, self._begin(stream, files, waiting, proceed) if files else None

    def _begin(
        self, stream: str, files: Sequence[_FileValue], waiting: Callable[[], None], proceed: Callable[[], None]
    ) -> RecordFiles:
        if stream not in self._states:
            self._states[stream] = self.state_of(stream)
        state = self._states[stream]
        record = RecordFiles(len(files), self._changed, self.check)
        for place, file in enumerate(files):
            proceed()
            weight = len(file.text or "")
            while not self._has_taken(weight):
                waiting()
                proceed()
            self._executor.submit(self._do, weight, partial(self._row, stream, file, state), partial(record.put, place))
        return record

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def summary(self) -> None:
        """Say how many files came, and which streams of the setting did not."""
        counts = self._counts
        if counts["kept"] or counts["missing"]:
            self.logger.log(
                logging.WARNING if counts["missing"] else logging.INFO,
                "Attached %s of records, %s; %s new in the lake%s",
                counted(counts["kept"], "file"),
                size(counts["bytes"]),
                counted(counts["new"], "file"),
                f"; {counted(counts['missing'], 'file')} could not be read" if counts["missing"] else "",
            )
        for stream in self._not_seen:
            self.logger.warning("file_properties names stream %r, and no SCHEMA of it came", stream)

    def close(self) -> None:
        """End the threads. Files that are not in the lake yet are given up, and who waits for them is told."""
        self._stopped.set()
        self._fail(CancelledError())
        self._executor.shutdown(wait=True, cancel_futures=True)
        self.fetcher.sources.close()

    def _has_taken(self, weight: int) -> bool:
        """Whether there is room for another file, and takes it; waits a moment for that. Raises what went wrong."""
        most = 2 * self.settings.threads

        def has_room() -> bool:
            return not self._files or (self._files < most and self._bytes + weight <= self.room)

        with self._changed:
            self._changed.wait_for(lambda: self._error or has_room(), timeout=1.0)
            self.check()
            if not has_room():
                return False
            self._files += 1
            self._bytes += weight
            return True

    def _do(self, weight: int, work: Callable[[], Attached], put: Callable[[Attached], None]) -> None:
        try:
            self.check()
            row = work()
        except BaseException as error:
            self._fail(error)
            row = None
        with self._changed:
            self._files -= 1
            self._bytes -= weight
            if row is not None:
                put(row)
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
        self.wake()

    def _row(self, stream: str, file: _FileValue, state: State) -> Attached:
        source = told(file.text) if file.text is not None and file.property.holds == "location" else None
        try:
            fetched = self._fetched(file)
        except UnreadableSourceError as error:
            self._missing(stream, file.property.name, source, error)
            return Attached(0, file.property.name, source, None, None, None, 1)
        try:
            kept = self.keeper.keep(self.tap, stream, fetched, state)
        finally:
            fetched.drop()
        with self._changed:
            self._counts.update(kept=1, new=kept.new, bytes=fetched.size)
        media_type = sys.intern(fetched.media_type)
        return Attached(0, file.property.name, source, fetched.sha256, fetched.size, media_type, kept.copy)

    def _fetched(self, file: _FileValue) -> Fetched:
        if file.text is None:
            raise UnreadableSourceError(
                "the property holds neither a text nor a list of texts",
                hint=f"if the text lies deeper, name its path, such as photo.url or photos[*].url; else {CORRECT}",
            )
        if file.property.holds == "base64":
            return inline(decode_base64(file.text, self.settings.most_bytes))
        return self.fetcher.fetch(file.text, Deadline(self.fetcher.clock, self.settings.seconds, self._stopped))

    def _missing(self, stream: str, property: str, source: str | None, error: UnreadableSourceError) -> None:
        """Count a file that cannot be read, and tell of the first one of its stream for each reason. Raises
        ``UnreadableSourceError`` where it has to be there."""
        shown = None if source is None else cut(source, _SHOWN)
        if not self.settings.record_missing:
            raise UnreadableSourceError(
                f"a file of a record cannot be kept: {error.message}",
                hint=error.hint,
                stream=stream,
                property=property,
                source=shown,
            ) from error
        with self._changed:
            self._counts["missing"] += 1
            told_before = (stream, error.message) in self._warned
            self._warned.add((stream, error.message))
        if not told_before:
            self.logger.warning(
                "A file of a record cannot be kept: %s (stream=%r, property=%r, source=%r)",
                error.message,
                stream,
                property,
                shown,
            )


@dataclass(frozen=True, slots=True)
class _FileValue:
    """One file of a record: the text that names or holds it; None where the property has another value."""

    property: FileProperty
    text: str | None


class _FileValues:
    """Looks into the lines of one stream. Of a record only what ``properties`` begin with is decoded."""

    def __init__(self, properties: Sequence[FileProperty]) -> None:
        self._properties = properties
        names = dict.fromkeys(str(each.path[0]) for each in properties)
        self._fields = {f"f{at}": name for at, name in enumerate(names)}
        self._decoder = self._make_decoder()

    def of(self, records: Records) -> Iterator[tuple[bytes, Any, list[_FileValue]]]:
        """Each line of ``records``, its ``time_extracted`` as it came, and its files in the order of their rows."""
        for number, line in enumerate(io.BytesIO(records.data), records.number):
            time, record = self._decoded(line, number)
            yield line, time, [value for each in self._properties for value in _values(each, record)]

    def _decoded(self, line: bytes, number: int) -> tuple[Any, dict[str, Any]]:
        if self._decoder is not None:
            try:
                message = self._decoder.decode(line)
            except (*REFUSALS, ValueError):
                # ValueError: a number of more digits than the interpreter converts.
                pass
            else:
                held = {name: getattr(message.record, field) for field, name in self._fields.items()}
                return message.time_extracted, held
        content = parse(line, number, exact=False)
        return content.get("time_extracted"), content["record"]

    def _make_decoder(self) -> msgspec.json.Decoder[Any] | None:
        """None where msgspec can have no field of such a name."""
        try:
            fields = [(field, Any, None) for field in self._fields]
            record = msgspec.defstruct("Record", fields, rename=dict(self._fields), gc=False)
            message = msgspec.defstruct("Line", [("record", record), ("time_extracted", Any, None)], gc=False)
            return msgspec.json.Decoder(message)
        except ValueError:
            return None


def _values(property: FileProperty, record: dict[str, Any]) -> Iterator[_FileValue]:
    for value in values_at(record, property.path):
        for each in value if isinstance(value, list) else (value,):
            if each is not None:
                yield _FileValue(property, each if isinstance(each, str) else None)


def sources_of(settings: Settings, storages: StorageSettings) -> FileSources:
    """What may be read, with the credentials of the lake. Nothing is sent. Raises ``SettingError``."""
    files = settings.files
    return FileSources(
        files.allowed,
        open_storage=partial(open_storage, settings=storages),
        small=_in_memory(settings),
        web=WebFiles(files.allowed, private=files.private_addresses),
    )


def attaching_of(
    settings: Settings,
    lake: Lake,
    sources: FileSources,
    state_of: Callable[[str], State],
    wake: Callable[[], None],
    folder: Path,
    logger: logging.Logger,
) -> Attaching | None:
    """What attaches files in a run whose spool is ``folder``; None where no setting says that a stream has some."""
    files = settings.files
    if not files.properties:
        if files.without_effect:
            logger.warning(
                "file_properties names no property that has files, so nothing is done with: %s",
                ", ".join(files.without_effect),
            )
        return None
    for entry, why in sources.trouble():
        logger.warning("file_sources allows %r, but %s", entry, why)
    fetcher = Fetcher(sources, lambda: folder / lake.ids(), files.most_bytes, lake.clock, _in_memory(settings))
    return Attaching(
        settings=files,
        tap=settings.tap_id,
        room=settings.max_memory_bytes // _SHARE,
        fetcher=fetcher,
        keeper=Keeper(lake.storage, lake.clock),
        state_of=state_of,
        wake=wake,
        logger=logger,
    )


def _in_memory(settings: Settings) -> int:
    """Bytes of a file that need no spool: all threads together hold no more than their share."""
    return min(IN_MEMORY, settings.max_memory_bytes // _SHARE // settings.files.threads)
