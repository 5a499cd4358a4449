"""The records of files without a tap, and the data file that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from singerlake.attached.members import attached_members
from singerlake.attached.put.files import PutFile
from singerlake.clock import timestamp
from singerlake.format.exact_json import encode
from singerlake.format.extra_fields import FileHeader
from singerlake.format.layout import file_path
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import StreamSchema
from singerlake.singer_file import MEMBER_BYTES, Spool, compress_member, spool_error

RECORDS = 10_000
"""Most records of one data file: that many rows are in the state of the stream, and in one of its members."""
PROPERTY = "name"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "bytes": {"type": "integer", "minimum": 0},
        "sha256": {"type": "string"},
        "media_type": {"type": "string"},
        "modified": {"type": "string", "format": "date-time"},
    },
}
CONTENT = StreamSchema(schema=SCHEMA, key_properties=(PROPERTY,))
_LEVEL = 1


def write_data_file(path: Path, stream: str, version: str, header: FileHeader, kept: Sequence[PutFile]) -> NewFile:
    """Write a record for each of ``kept``, one at least, to a new file at ``path``, and describe it. Raises
    ``StorageFullError``, ``AccessDeniedError`` and ``StorageUnavailableError`` of the spool."""
    rows = tuple(_row(number, each) for number, each in enumerate(kept))
    try:
        spool = Spool(path, _schema_line(stream), header, level=_LEVEL)
        lines: list[bytes] = []
        size = 0
        for each in kept:
            lines.append(_record_line(stream, each))
            size += len(lines[-1])
            if size >= MEMBER_BYTES:
                _append(spool, lines)
                lines, size = [], 0
        _append(spool, lines)
        spool.append_empty(attached_members(rows))
    except OSError as error:
        raise spool_error(error, path) from error
    first, last = (choose(each.extracted for each in kept) for choose in (min, max))
    return spool.describe(
        path=file_path(stream, version, first, last, header.id),
        version=version,
        first=timestamp(first),
        last=timestamp(last),
        attached=rows,
    )


def _append(spool: Spool, lines: Sequence[bytes]) -> None:
    if lines:
        raw = b"".join(lines)
        member = compress_member(raw, _LEVEL)
        spool.append(member, raw_bytes=len(raw), messages=len(lines), records=len(lines))


def _schema_line(stream: str) -> bytes:
    return encode({"type": "SCHEMA", "stream": stream, "schema": SCHEMA, "key_properties": [PROPERTY]})


def _record_line(stream: str, kept: PutFile) -> bytes:
    record = {
        "name": kept.name,
        "bytes": kept.bytes,
        "sha256": kept.sha256,
        "media_type": kept.media_type,
        "modified": timestamp(kept.modified),
    }
    extracted = timestamp(kept.extracted)
    return encode({"type": "RECORD", "stream": stream, "record": record, "time_extracted": extracted}) + b"\n"


def _row(message: int, kept: PutFile) -> Attached:
    return Attached(message, PROPERTY, kept.name, kept.sha256, kept.bytes, kept.media_type, kept.copy)
