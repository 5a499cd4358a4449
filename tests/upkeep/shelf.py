"""Data files of one stream in memory, written byte by byte as a target or a vacuum would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec

from singerlake.clock import timestamp
from singerlake.format import kept_schema, layout
from singerlake.format.extra_fields import FileHeader, Provenance, empty_member
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state import fold
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.singer_file import compress_member
from singerlake.upkeep.rebuild.rebuild import Rebuilt, rebuild_manifest
from tests.fakes import START, FakeClock, counting_ids
from tests.storage.memory import MemoryStorage

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
OTHER: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "string"}}}
TAP, STREAM = "t", "s"
PREFIX = layout.stream_prefix(TAP, STREAM)


def schema_line(schema: Any = SCHEMA, stream: str = STREAM, **more: Any) -> bytes:
    return json.dumps({"type": "SCHEMA", "stream": stream, "schema": schema, **more}).encode() + b"\n"


def record(n: int, stream: str = STREAM, **envelope: Any) -> bytes:
    return json.dumps({"type": "RECORD", "stream": stream, "record": {"n": n}, **envelope}).encode() + b"\n"


def file_id(number: int) -> str:
    return f"{number:016d}"


def header(number: int, *, created: int | None = None, run: str = "r", seq: int | None = None) -> bytes:
    """The ``SL`` field of file ``number``; ``created`` is in seconds."""
    moment = timestamp(START + timedelta(seconds=number if created is None else created))
    seq = number if seq is None else seq
    return msgspec.json.encode(FileHeader(id=file_id(number), created=moment, run=run, seq=seq))


def file_bytes(
    members: Sequence[Sequence[bytes]], *, extra: bytes | None, schema: bytes | None = None, front: bytes = b""
) -> bytes:
    """A data file: ``front``, the SCHEMA message in a member of its own, then a member for each list of lines."""
    head = compress_member(schema_line() if schema is None else schema, 1, extra=extra)
    return front + head + b"".join(compress_member(b"".join(lines), 1) for lines in members)


def numbered(number: int, messages: int) -> list[bytes]:
    """Lines that tell which file they are of."""
    return [record(1000 * number + n) for n in range(messages)]


def vacuumed_bytes(number: int, sources: Sequence[tuple[int, int]], *, each_part: int = 100) -> bytes:
    """A vacuumed file of whole originals ``(number, messages)``; their members keep their headers."""
    lists = [sources[at : at + each_part] for at in range(0, len(sources), each_part)]
    front = b"".join(
        empty_member(
            msgspec.json.encode(
                Provenance(
                    id=file_id(number), lineage="x", offset=0, replaces=tuple((file_id(n), count) for n, count in part)
                )
            )
        )
        for part in lists
    )
    return front + b"".join(file_bytes([numbered(n, count)], extra=header(n)) for n, count in sources)


@dataclass
class Shelf:
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.ids = counting_ids()
        self.storage = MemoryStorage(clock=self.clock, ids=self.ids)

    def path(self, number: int, schema: Any = SCHEMA) -> str:
        return layout.file_path(STREAM, schema_hash(schema), START, START, file_id(number))

    def put(self, number: int, body: bytes, *, path: str | None = None, schema: Any = SCHEMA) -> str:
        """Store a file, at the path of file ``number`` unless another is given; gives the path."""
        path = path or self.path(number, schema)
        self.storage.put(PREFIX + path, body)
        return path

    def original(self, number: int, messages: int = 2, schema: Any = SCHEMA, **head: Any) -> str:
        """File ``number`` as a target writes it."""
        body = file_bytes([numbered(number, messages)], extra=header(number, **head), schema=schema_line(schema))
        return self.put(number, body, schema=schema)

    def keyed(self, number: int, *keys: str, kept: bool = False) -> None:
        """A file of one message under a schema with these ``key_properties``; or that schema, kept beside the files."""
        if kept:
            said = kept_schema.kept(
                StreamSchema(schema=SCHEMA, key_properties=keys),
                tap=TAP,
                stream=STREAM,
                created=timestamp(START + timedelta(seconds=number)),
                run="r",
            )
            self.storage.put(PREFIX + layout.schema_path(schema_hash(SCHEMA)), kept_schema.to_json(said))
        else:
            line = schema_line(key_properties=list(keys))
            self.put(number, file_bytes([numbered(number, 1)], extra=header(number), schema=line))

    def vacuumed(self, number: int, *sources: tuple[int, int]) -> str:
        return self.put(number, vacuumed_bytes(number, sources))

    def rebuild(self, **more: Any) -> Rebuilt:
        birth = fold.empty(
            tap=TAP,
            stream=STREAM,
            store="lockfile",
            lineage="new",
            created=timestamp(self.clock.now()),
            transaction_id="tx",
        )
        return rebuild_manifest(self.storage, birth, **more)

    def numbers(self, manifest: Manifest) -> list[int]:
        """The listed files' numbers, in order."""
        return [int(file.id) for file in manifest.files]


def kinds(findings: Sequence[Any]) -> list[str]:
    return sorted(finding.kind for finding in findings)
