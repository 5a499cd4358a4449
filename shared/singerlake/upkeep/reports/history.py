"""The schema versions of one stream, from its manifest alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from singerlake.format.state.files.segment import VersionTotals
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import schema_of


@dataclass(frozen=True, slots=True)
class Version:
    """``first_offset``: where it first appears; ``first_seen``: when, UTC, by the clock of the run that brought it.
    ``last_offset`` is that of its newest message. ``properties`` are those of the record itself."""

    label: str
    hash: str
    first_offset: int
    first_seen: str
    last_offset: int | None
    files: int
    records: int
    bytes: int
    properties: int
    key_properties: tuple[str, ...]


def versions_of(manifest: Manifest) -> list[Version]:
    """In the order of their first appearance. Raises ``CorruptObjectError`` where one has no schema."""
    versions, totals = [], totals_of(manifest.files).versions
    for version, label in manifest.versions.items():
        schema = schema_of(manifest, version)
        held = totals.get(version, VersionTotals())
        versions.append(
            Version(
                label=label,
                hash=version,
                first_offset=schema.first_offset,
                first_seen=schema.first_seen,
                last_offset=held.end - 1 if held.files else None,
                files=held.files,
                records=held.records,
                bytes=held.bytes,
                properties=_count(schema.schema),
                key_properties=tuple(schema.key_properties),
            )
        )
    return sorted(versions, key=lambda each: each.first_offset)


def _count(schema: Any) -> int:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return len(properties) if isinstance(properties, dict) else 0
