"""Lakes for tests of readers: files written and committed as a target does it, from messages a test makes up."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from singerlake.clock import parse_timestamp, timestamp
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.lines.times import span
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.lake import Lake
from singerlake.singer_file import Spool, compress_member
from singerlake.stores.writer import StreamWriter, Upload

Line = bytes | Mapping[str, Any]
"""A whole message as bytes without newline, or a record to be put into a RECORD message."""


def build_stream(
    lake: Lake,
    tap: str,
    stream: str,
    schema: Any,
    records_or_lines: Iterable[Line],
    *,
    file_size: int = 1000,
    key_properties: Sequence[str] = (),
    bookmark_properties: Sequence[str] = (),
    member_size: int = 100,
    store: str | None = None,
) -> Manifest:
    """Append to a stream, ``file_size`` messages a file and ``member_size`` messages a gzip member, and bring the
    lake's caches up to date. Call again with another schema for a next version."""
    writer = lake.stream(tap, stream).writer(writer_id="a-test", store=store)
    manifest = writer.open()
    files = FilesOf(schema, key_properties, bookmark_properties, file_size, member_size)
    with tempfile.TemporaryDirectory() as folder:
        for upload in files.written(writer, records_or_lines, Path(folder)):
            manifest = writer.publish(upload.spool, upload.file, upload.schema)
    lake.announce(manifest)
    return manifest


@dataclass(frozen=True)
class FilesOf:
    """How the files of a stream are made."""

    schema: Any
    key_properties: Sequence[str] = ()
    bookmark_properties: Sequence[str] = ()
    file_size: int = 1000
    member_size: int = 100

    def written(self, writer: StreamWriter, records_or_lines: Iterable[Line], folder: Path) -> Iterator[Upload]:
        """The files on disk, each before the next one is made."""
        stream = writer.stream
        lines = [line if isinstance(line, bytes) else record_line(stream, line) for line in records_or_lines]
        head = {
            "type": "SCHEMA",
            "stream": stream,
            "schema": self.schema,
            "key_properties": list(self.key_properties),
        }
        if self.bookmark_properties:
            head["bookmark_properties"] = list(self.bookmark_properties)
        schema_line = json.dumps(head).encode()
        described = StreamSchema(
            schema=self.schema,
            key_properties=tuple(self.key_properties),
            bookmark_properties=tuple(self.bookmark_properties),
        )
        now = timestamp(writer.place.clock.now())
        moment = parse_timestamp(now)
        assert moment is not None
        for sequence, start in enumerate(range(0, len(lines), self.file_size)):
            part = lines[start : start + self.file_size]
            header = FileHeader(id=writer.place.ids(), created=now, run="a-test-run", seq=sequence)
            spool = Spool(folder / header.id, schema_line, header, level=1)
            for begin in range(0, len(part), self.member_size):
                _append(spool, part[begin : begin + self.member_size])
            version = writer.version_of(self.schema)
            path = layout.file_path(stream, version, moment, moment, header.id)
            times = span([json.loads(line).get("time_extracted") for line in part])
            first, last = map(timestamp, times) if times else (now, now)
            file = spool.describe(path=path, version=version, first=first, last=last)
            yield Upload(spool.path, file, described)


def record_line(stream: str, record: Mapping[str, Any], **envelope: Any) -> bytes:
    """A RECORD message; ``envelope`` are further members, such as ``version`` and ``time_extracted``."""
    return json.dumps({"type": "RECORD", "stream": stream, "record": record, **envelope}).encode()


def activate_version_line(stream: str, version: int) -> bytes:
    """An ACTIVATE_VERSION message."""
    return json.dumps({"type": "ACTIVATE_VERSION", "stream": stream, "version": version}).encode()


def _append(spool: Spool, lines: Sequence[bytes]) -> None:
    raw = b"".join(line + b"\n" for line in lines)
    records = sum(json.loads(line)["type"] == "RECORD" for line in lines)
    spool.append(compress_member(raw, 1), raw_bytes=len(raw), messages=len(lines), records=records)
