"""Small data files, whole and readable: a rebuild in a simulation reads them as any other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import cast

import msgspec

from singerlake.attached.members import attached_members
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader, Provenance, empty_member
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import StreamSchema
from singerlake.singer_file import compress_member
from singerlake.stores.writer import Upload
from tests.fakes import START
from tests.simulation.world.storage import Spooled

TAP, STREAM = "t", "s"
SCHEMA = StreamSchema(schema={"type": "object", "properties": {"n": {"type": "integer"}}})
VERSION = schema_hash(SCHEMA.schema)
_SCHEMA_LINE = msgspec.json.encode({"type": "SCHEMA", "stream": STREAM, "schema": SCHEMA.schema, "key_properties": []})
_RECORD_LINE = b'{"type":"RECORD","stream":"s","record":{"n":1}}\n'
_TIME = "2026-01-01T00:00:00.000000Z"


def written_file(id: str, messages: int, *, run: str, seq: int) -> Upload:
    """A file as a target writes it."""
    header = FileHeader(id=id, created=_TIME, run=run, seq=seq)
    return _upload(id, compress_member(_SCHEMA_LINE + b"\n", 1, extra=msgspec.json.encode(header)), messages)


def numbered_line(id: str, number: int, value: int) -> bytes:
    """The message of that number in a file whose records differ; ``value`` is what its property ``n`` holds."""
    return b'{"type":"RECORD","stream":"s","record":{"n":%d,"of":"%s/%d"}}' % (value, id.encode(), number)


def numbered_file(id: str, values: Sequence[int], *, run: str, seq: int, rows: tuple[Attached, ...] = ()) -> Upload:
    """A file as a target writes it, of records that differ, with the ``rows`` of their attached files."""
    header = FileHeader(id=id, created=_TIME, run=run, seq=seq)
    head = compress_member(_SCHEMA_LINE + b"\n", 1, extra=msgspec.json.encode(header))
    lines = [numbered_line(id, number, value) for number, value in enumerate(values)]
    return _upload(id, head, len(values), b"".join(line + b"\n" for line in lines), rows)


def vacuumed_file(id: str, origins: tuple[tuple[str, int], ...], *, lineage: str, offset: int) -> Upload:
    """A file that holds the messages of others."""
    provenance = Provenance(id=id, lineage=lineage, offset=offset, replaces=origins)
    head = empty_member(msgspec.json.encode(provenance)) + compress_member(_SCHEMA_LINE + b"\n", 1)
    return _upload(id, head, sum(messages for _, messages in origins))


def _upload(id: str, head: bytes, messages: int, lines: bytes | None = None, rows: tuple[Attached, ...] = ()) -> Upload:
    lines = _RECORD_LINE * messages if lines is None else lines
    body = head + _compressed(lines) + attached_members(rows)
    file = NewFile(
        id=id,
        path=layout.file_path(STREAM, VERSION, START, START, id),
        version=VERSION,
        messages=messages,
        records=messages,
        bytes=len(body),
        raw_bytes=len(_SCHEMA_LINE) + 1 + len(lines),
        sha256=hashlib.sha256(body).hexdigest(),
        first=_TIME,
        last=_TIME,
        members=((len(head), messages),),
        attached=rows,
    )
    return Upload(cast(Path, Spooled(body)), file, SCHEMA)


@lru_cache(maxsize=64)
def _compressed(lines: bytes) -> bytes:
    return compress_member(lines, 1)
