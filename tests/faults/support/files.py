"""Finished data files for workers to publish, and the data files that are on storage."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from singerlake.clock import random_id, timestamp
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.model import StreamSchema
from singerlake.singer_file import Spool, compress_member
from tests.fakes import START
from tests.faults.support.places import Place
from tests.faults.support.worker import Job, Prepared

LARGE = 1000
"""The number of a schema that makes transactions larger than an item of DynamoDB's."""


def prepare(job: Job, number: int, schema: int, *, id: str = "", records: int = 3) -> Prepared:
    """A finished data file of some records that say who wrote them."""
    described = {"type": "object", "properties": {"n": {"type": "string"}, f"v{schema}": {"type": "string"}}}
    if schema == LARGE:
        described["title"] = "-" * (1 << 18)
    version = schema_hash(described)
    header = FileHeader(id=id or random_id(), created="2026", run=job.name, seq=number)
    line = msgspec.json.encode(
        {"type": "SCHEMA", "stream": job.place.stream, "schema": described, "key_properties": []}
    )
    spool = Spool(job.folder / f"{job.name}-{number}-{header.id}", line, header, level=1)
    for part in range(2):
        lines = [
            msgspec.json.encode(
                {"type": "RECORD", "stream": job.place.stream, "record": {"n": f"{job.name}-{number}-{part}-{each}"}}
            )
            for each in range(records)
        ]
        raw = b"".join(each + b"\n" for each in lines)
        spool.append(compress_member(raw, 1), raw_bytes=len(raw), messages=records, records=records)
    path = layout.file_path(job.place.stream, version, START, START, header.id)
    file = spool.describe(path=path, version=version, first=timestamp(START), last=timestamp(START))
    return Prepared(str(spool.path), file, StreamSchema(schema=described))


def data_files(place: Place) -> Sequence[str]:
    """The ids of the data files on storage, listed or not."""
    names = (key.removeprefix(place.prefix) for key in place.keys_with(""))
    return [name[-len("0123456789abcdef.singer.gz") :][:16] for name in names if layout.is_data_file(name)]
