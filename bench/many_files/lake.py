"""A local lake with one stream of very many files, of which only the last are there.

Every file that the state lists has the same ten messages, so that any can be put on the disk, or made up, when a
command is to read it. What a state of ten million files costs is the state's cost: nobody has to write so many files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from bench.commits.committing import MOMENT, SCHEMA, VERSION
from singerlake.adapters import open_storage
from singerlake.clock import parse_timestamp, random_id, timestamp
from singerlake.format import layout
from singerlake.format.file_id import timed_id
from singerlake.format.state import fold
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest, Position, SchemaVersion
from singerlake.singer_file import compress_member
from singerlake.storage.port import Storage
from singerlake.stores.publish import publish_manifest
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import SIZES

MESSAGES = 10
"""Of each file."""
THERE = 300
"""Files that are on the disk, the last ones."""
PREFIX = layout.stream_prefix("bench", "orders")
_EVERY = timedelta(seconds=20)
_WRITTEN_AT_ONCE = 32


def _body() -> tuple[bytes, int, int]:
    """The bytes of each file, where its records begin among them, and how many there are of its text."""
    schema = {"type": "SCHEMA", "stream": "orders", "schema": SCHEMA.schema, "key_properties": SCHEMA.key_properties}
    record = {"type": "RECORD", "stream": "orders", "record": {"id": 1}, "time_extracted": "2026-01-01T00:00:00Z"}
    head, records = (msgspec.json.encode(each) + b"\n" for each in (schema, record))
    first = compress_member(head, 1)
    return first + compress_member(records * MESSAGES, 1), len(first), len(head) + len(records) * MESSAGES


BODY, _RECORDS_AT, _RAW_BYTES = _body()
_LIKE: dict[str, Any] = {
    "version": VERSION,
    "messages": MESSAGES,
    "records": MESSAGES,
    "bytes": len(BODY),
    "raw_bytes": _RAW_BYTES,
    "sha256": hashlib.sha256(BODY).hexdigest(),
    "members": ((_RECORDS_AT, MESSAGES),),
}


def files(start: int, stop: int) -> Iterator[DataFile]:
    """The files from the ``start``-th to the one before the ``stop``-th, one of each twenty seconds."""
    born = parse_timestamp(MOMENT)
    assert born is not None
    for number in range(start, stop):
        moment = born + number * _EVERY
        id, time = timed_id(moment, f"{number:010d}"), timestamp(moment)
        path = layout.file_path("orders", VERSION, moment, moment, id)
        yield DataFile(id=id, path=path, first=time, last=time, offset=number * MESSAGES, **_LIKE)


def make(root: Path, kind: str, count: int, *, segments: bool = True) -> None:
    """Put such a lake where there is none. ``segments``: as it is written now; else its state is one object, as earlier
    versions wrote it."""
    storage = open_storage(str(root))
    first = fold.empty(
        tap="bench", stream="orders", store=kind, lineage=random_id(), created=MOMENT, transaction_id=random_id()
    )
    schema = SchemaVersion(
        schema=SCHEMA.schema, key_properties=SCHEMA.key_properties, first_offset=0, first_seen=MOMENT
    )
    state = msgspec.structs.replace(
        first,
        transaction=Position(count, random_id()),
        next_offset=count * MESSAGES,
        versions={VERSION: "v1"},
        schemas={VERSION: schema},
    )
    for file in files(max(count - THERE, 0), count):
        path = root / PREFIX / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(BODY)
    if segments and count > SIZES.whole:
        _put_segments(storage, state, count)
    else:
        whole = msgspec.structs.replace(state, files=tuple(files(0, count)))
        storage.put(layout.manifest_key("bench", "orders"), to_json(whole))


def _put_segments(storage: Storage, state: Manifest, count: int) -> None:
    objects, made = SegmentObjects(storage, "bench", "orders"), list[Segment]()
    end = count - SIZES.tail // 2
    starts = range(0, end, SIZES.segment)
    for at in range(0, len(starts), _WRITTEN_AT_ONCE):
        some = starts[at : at + _WRITTEN_AT_ONCE]
        made += objects.write([tuple(files(start, min(start + SIZES.segment, end))) for start in some])
    listed = FileList(files(end, count), parts=made, source=objects)
    publish_manifest(objects, msgspec.structs.replace(state, files=listed), fresh=made)
