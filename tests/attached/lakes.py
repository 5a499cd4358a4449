"""Lakes with attached files for tests of readers, without a target."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from singerlake.attached.keep import free_copy, put_attached
from singerlake.attached.members import attached_members
from singerlake.clock import parse_timestamp, timestamp
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.file_id import timed_id
from singerlake.format.state.attached import Attached
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.lake import Lake
from singerlake.singer_file import Spool, compress_member
from tests.lakes import record_line

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "n": {"type": "integer"}, "photo": {"type": ["null", "string"]}},
}

Files = Sequence[bytes | None]
"""The bodies of a record's files; None for one that could not be read."""


def a_photo(stream: str, id: int) -> bytes:
    return record_line(stream, {"id": id, "photo": f"{id}.jpg"})


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def attach(
    lake: Lake,
    tap: str,
    stream: str,
    files: Sequence[Files],
    *,
    schema: Mapping[str, Any] = SCHEMA,
    first_id: int = 0,
    file_size: int = 1000,
    member_size: int = 1000,
    line: Callable[[str, int], bytes] = a_photo,
) -> Manifest:
    """Append a record for each of ``files``, with the property ``photo`` and these files attached to it; ``file_size``
    records a data file and ``member_size`` a gzip member. ``line`` makes the message of the stream with an id."""
    there = lake.stream(tap, stream)
    writer = there.writer(writer_id="a-test")
    manifest = writer.open()
    now = timestamp(lake.clock.now())
    moment = parse_timestamp(now)
    assert moment is not None
    described = StreamSchema(schema=schema, key_properties=("id",))
    head = {"type": "SCHEMA", "stream": stream, "schema": schema, "key_properties": ["id"]}
    with tempfile.TemporaryDirectory() as folder:
        for begin in range(0, len(files), file_size):
            part = files[begin : begin + file_size]
            header = FileHeader(id=timed_id(lake.clock.now(), lake.ids()), created=now, run="a-test-run", seq=begin)
            spool = Spool(Path(folder) / header.id, json.dumps(head).encode(), header, level=1)
            lines, rows = [], list[Attached]()
            for number, bodies in enumerate(part):
                id = first_id + begin + number
                lines.append(line(stream, id) + b"\n")
                for body in bodies:
                    rows.append(_row(lake, there.prefix, manifest, number, f"{id}.jpg", body))
            for start in range(0, len(lines), member_size):
                _append(spool, lines[start : start + member_size])
            spool.append_empty(attached_members(rows))
            version = writer.version_of(schema)
            path = layout.file_path(stream, version, moment, moment, header.id)
            file = spool.describe(path=path, version=version, first=now, last=now, attached=tuple(rows))
            manifest = writer.publish(spool.path, file, described)
    writer.finish()
    lake.announce(manifest)
    return manifest


def _append(spool: Spool, lines: Sequence[bytes]) -> None:
    raw = b"".join(lines)
    records = sum(b'"RECORD"' in line for line in lines)
    spool.append(compress_member(raw, 1), raw_bytes=len(raw), messages=len(lines), records=records)


def _row(lake: Lake, prefix: str, manifest: Manifest, message: int, source: str, body: bytes | None) -> Attached:
    if body is None:
        return Attached(message, "photo", source, None, None, None, 1)
    digest = sha256(body)
    row = Attached(message, "photo", source, digest, len(body), "image/jpeg", free_copy(manifest, digest))
    put_attached(lake.storage, prefix + (row.path() or ""), body, len(body))
    return row
