"""Records with files, and what became of them in the lake."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from singerlake.attached.members import attached_rows
from singerlake.format import layout
from singerlake.format.extra_fields import member_extra
from singerlake.format.state.attached import Attached
from singerlake.lake import Lake
from singerlake.upkeep.verify import verify_stream
from tests.target.support import TAP, manifest, schema

SCHEMA = {"type": "object", "properties": {"id": {}, "photo": {}, "user": {}, "photos": {}, "scan": {}}}
START = schema(schema=SCHEMA)


def person(id: int, **record: Any) -> bytes:
    """A RECORD message of ``users``."""
    return json.dumps({"type": "RECORD", "stream": "users", "record": {"id": id, **record}}).encode()


def settings(folder: Path | str, properties: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """The settings for files below ``folder``; by default the property ``photo`` has their locations."""
    chosen = properties or {"photo": "location"}
    return {"file_properties": {"users": chosen}, "file_sources": [str(folder)], **more}


def photo(folder: Path, name: str, body: bytes | None = None) -> tuple[str, bytes]:
    """A file in ``folder``: its path, and its bytes."""
    content = f"the photo {name}".encode() if body is None else body
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return str(folder / name), content


def rows(root: Path | str, stream: str = "users") -> list[Attached]:
    """All rows of a stream, each with the number of its message in the stream; those of the data files themselves are
    the same."""
    found: list[Attached] = []
    lake = Lake.open(str(root))
    for file in manifest(root, stream).files:
        stored = lake.storage.get(layout.stream_prefix(TAP, stream) + file.path)
        assert stored is not None
        assert tuple(in_file(stored.body, file.messages)) == file.attached
        found += [Attached(file.offset + row.message, *_rest(row)) for row in file.attached]
    return found


def in_file(body: bytes, messages: int) -> Iterable[Attached]:
    """The rows of a data file of so many messages that nobody vacuumed, as its own members say."""
    at = body.find(b'{"attached":')
    while at >= 0:
        begin = body.rfind(b"\x1f\x8b\x08\x04", 0, at)
        extra = member_extra(body[begin:])
        assert extra is not None
        assert extra[0] is not None
        yield from attached_rows(extra[0], messages)
        at = body.find(b'{"attached":', begin + extra[1])


def row(message: int, source: str | None, body: bytes, media_type: str, property: str = "photo") -> Attached:
    """The row of a file that is in the lake."""
    return Attached(message, property, source, hashlib.sha256(body).hexdigest(), len(body), media_type, 1)


def without(message: int, source: str | None, property: str = "photo") -> Attached:
    """The row of a file that could not be read."""
    return Attached(message, property, source, None, None, None, 1)


def objects(root: Path | str, stream: str = "users") -> dict[str, bytes]:
    """The attached files of a stream that are in the lake, by name."""
    storage = Lake.open(str(root)).storage
    found = {}
    for entry in storage.list(f"{layout.stream_prefix(TAP, stream)}{layout.ATTACHED}/"):
        stored = storage.get(entry.key)
        assert stored is not None
        found[entry.key.rpartition("/")[2]] = stored.body
    return found


def is_sound(root: Path | str, stream: str = "users") -> None:
    """Every object that a row names has the bytes that the row says, and so has the rest of the stream."""
    lake = Lake.open(str(root))
    verification = verify_stream(lake.storage, TAP, stream, lake.stream(TAP, stream).state)
    assert [finding for finding in verification.findings if finding.kind != "unlisted"] == []
    there = objects(root, stream)
    for each in rows(root, stream):
        if each.sha256 is not None:
            body = there[layout.attached_name(each.sha256, each.copy)]
            assert (hashlib.sha256(body).hexdigest(), len(body)) == (each.sha256, each.bytes)


def _rest(row: Attached) -> tuple[Any, ...]:
    return row.property, row.source, row.sha256, row.bytes, row.media_type, row.copy
