"""What one stream holds, from its manifest alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from singerlake.clock import parse_timestamp
from singerlake.errors import LookAtTheLake
from singerlake.format import layout
from singerlake.format.manifest import check_own, from_json
from singerlake.storage.port import Storage


@dataclass(frozen=True, slots=True)
class Census:
    """``versions`` maps hash to label; ``bytes`` are as stored, ``raw_bytes`` decompressed; ``last_write`` is when the
    last run brought something, UTC. ``trouble`` says why there are no figures."""

    tap: str
    stream: str
    versions: dict[str, str] = field(default_factory=dict)
    files: int = 0
    messages: int = 0
    records: int = 0
    bytes: int = 0
    raw_bytes: int = 0
    last_write: datetime | None = None
    trouble: str | None = None


def take_census(storage: Storage, tap: str, stream: str) -> Census:
    """The figures of one stream. Raises what storage raises."""
    key = layout.manifest_key(tap, stream)
    stored = storage.get(key)
    if stored is None:
        return Census(tap, stream, trouble="no manifest; run 'singerlake rebuild'")
    try:
        manifest = check_own(from_json(stored.body, key=key), tap=tap, stream=stream, store=None, key=key)
    except LookAtTheLake as error:
        return Census(tap, stream, trouble=f"{error.message}; {error.hint}")
    runs = [moment for run in manifest.runs if (moment := parse_timestamp(run.updated or run.started))]
    return Census(
        tap=tap,
        stream=stream,
        versions=manifest.versions,
        files=len(manifest.files),
        messages=sum(file.messages for file in manifest.files),
        records=sum(file.records for file in manifest.files),
        bytes=sum(file.bytes for file in manifest.files),
        raw_bytes=sum(file.raw_bytes for file in manifest.files),
        last_write=max(runs) if runs else stored.last_modified,
    )
