"""The document is enough for a writer, too: a stream that was written from it alone is as good as any other."""

from __future__ import annotations

import gzip
import hashlib
import json
import secrets
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from singerlake.format.state import selection
from singerlake.lake import Lake
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from singerlake.upkeep.verify import verify_metadata, verify_stream
from tests.golden.independent.names import segment
from tests.lakes import build_stream
from tests.tap.runs import replay

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
HASH = "3)vD5#h"
"""Of that schema, as section 3 has it."""
LINES = [b'{"type":"RECORD","stream":"s","record":{"id":%d}}' % n for n in range(6)]
NOW = "2026-01-01T00:00:00.000000Z"


def a_random_id() -> str:
    """2.2."""
    return "".join(secrets.choice("0123456789abcdefghijklmnopqrstuv") for _ in range(16))


def a_member(text: bytes, words: bytes | None = None) -> bytes:
    """4, and RFC 1952."""
    made = gzip.compress(text, mtime=0)
    if words is None:
        return made
    field = b"SL" + struct.pack("<H", len(words)) + words
    squeezer = zlib.compressobj(wbits=-15)
    deflated = squeezer.compress(text) + squeezer.flush()
    trailer = struct.pack("<II", zlib.crc32(text), len(text))
    return b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H", len(field)) + field + deflated + trailer


def write_file(folder: Path, lines: list[bytes], offset: int, header: bool) -> dict[str, Any]:
    """A data file (4), and how the manifest lists it (5)."""
    id = a_random_id()
    words = json.dumps({"id": id, "created": NOW, "run": "a-run", "seq": offset}).encode()
    schema = {"type": "SCHEMA", "stream": "s", "schema": SCHEMA, "key_properties": ["id"]}
    first = a_member(json.dumps(schema).encode() + b"\n", words if header else None)
    text = b"".join(line + b"\n" for line in lines)
    body = first + a_member(text)
    path = f"{segment(HASH)}/s-20260101T000000.000000Z-20260101T000000.000000Z-{id}.singer.gz"
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(body)
    return {
        "id": id,
        "path": path,
        "version": HASH,
        "offset": offset,
        "messages": len(lines),
        "records": len(lines),
        "bytes": len(body),
        "raw_bytes": len(json.dumps(schema)) + 1 + len(text),
        "sha256": hashlib.sha256(body).hexdigest(),
        "first": NOW,
        "last": NOW,
        "members": [[len(first), len(lines)]],
    }


@pytest.fixture(params=[True, False], ids=["with a header", "without"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A lake of one tap and stream, with nothing that the document calls optional."""
    folder = tmp_path / "lake" / "raw" / "t" / "s"
    files = [write_file(folder, LINES[:2], 0, request.param), write_file(folder, LINES[2:4], 2, request.param)]
    held = {"schema": SCHEMA, "key_properties": ["id"], "bookmark_properties": [], "first_offset": 0, "first_seen": NOW}
    state = {
        "format": 1,
        "tap": "t",
        "stream": "s",
        "store": "lockfile",
        "lineage": a_random_id(),
        "created": NOW,
        "transaction": {"number": 2, "id": a_random_id()},
        "next_offset": 4,
        "versions": {HASH: "v1"},
        "schemas": {HASH: held},
        "files": files,
        "retired": [],
        "runs": [],
        "closed": None,
    }
    (folder / "manifest.json").write_text(json.dumps(state))
    return tmp_path / "lake"


def read(lake: Lake) -> list[bytes]:
    stream = lake.stream("t", "s")
    parts = selection.select(stream.snapshot())
    return b"".join(block.data for part in parts for block in stream.read(part)).splitlines()


def test_it_is_sound_read_continued_joined_and_rebuilt(root: Path) -> None:
    lake = Lake.open(str(root))
    stream = lake.stream("t", "s")
    assert verify_metadata(lake.storage) == ()
    assert verify_stream(lake.storage, "t", "s", stream.state).findings == ()
    assert read(lake) == LINES[:4]
    assert [row["id"] for row in replay(root, tap_id="t").records()] == [0, 1, 2, 3]
    assert stream.to_arrow().read_all().column("id").to_pylist() == [0, 1, 2, 3]
    build_stream(lake, "t", "s", SCHEMA, LINES[4:], key_properties=["id"])
    assert read(lake) == LINES
    done = vacuum_stream(
        StreamContext(lake.storage, "t", "s", lake.clock, lake.ids, stream.store()), target_bytes=1 << 20
    )
    assert (done.findings, done.joined.files) == ((), 3)
    assert read(lake) == LINES
    (root / "raw" / "t" / "s" / "manifest.json").unlink()
    assert read(lake) == LINES
