"""Streams whose oldest messages expire, for tests of all manifest stores."""

from __future__ import annotations

import gzip

from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.stores.segments.stored import read_manifest
from singerlake.upkeep.gc.expire import Cut, Expired, expire_messages
from singerlake.upkeep.verify import verify_stream
from tests.stores.stores import Place
from tests.upkeep.vacuum.test_stores import PREFIX

KEY = layout.manifest_key("t", "s")


def expire(place: Place, before: int, *, dry_run: bool = False) -> Expired:
    return expire_messages(place.context(), Cut(before=before), dry_run=dry_run)


def messages(place: Place) -> dict[int, bytes]:
    """Every message under its offset, as any program reads it that knows the manifest and gzip."""
    found: dict[int, bytes] = {}
    for file in place.state().files:
        stored = place.storage.get(PREFIX + file.path)
        assert stored is not None
        lines = [line for line in gzip.decompress(stored.body).splitlines() if b'"SCHEMA"' not in line]
        assert len(lines) == file.messages
        found |= dict(enumerate(lines, file.offset))
    return found


def problems(place: Place) -> list[str]:
    """What ``singerlake verify`` finds wrong."""
    found = verify_stream(place.storage, "t", "s", place.state).findings
    return [str(finding) for finding in found if finding.problem]


def published(place: Place) -> Manifest:
    """What a reader sees that reads ``manifest.json`` alone."""
    stored = place.storage.get(KEY)
    assert stored is not None
    return read_manifest(stored.body, key=KEY, storage=place.storage)
