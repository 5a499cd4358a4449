"""The schema versions of streams, from their manifests alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from singerlake.errors import LakeError
from singerlake.format import layout
from singerlake.format.state.files.segment import VersionTotals
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import schema_of
from singerlake.glance import at_a_glance
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.result import Finding
from singerlake.work.parallel import THREADS, in_parallel


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


@at_a_glance
@dataclass(frozen=True, slots=True)
class StreamVersions:
    """The versions of a stream in the order in which they came. Offsets mean the same messages within its ``lineage``,
    which is None where its manifest is missing. ``floor`` is the first offset that did not expire, ``next_offset`` the
    one that the next message gets. All are None where the manifest cannot be read."""

    tap: str
    stream: str
    lineage: str | None = None
    floor: int | None = None
    next_offset: int | None = None
    versions: tuple[Version, ...] = ()

    @property
    def dropped(self) -> bool:
        """As ``Manifest.is_dropped``."""
        return self.lineage is not None and not self.versions and self.floor == self.next_offset


@at_a_glance
@dataclass(frozen=True, slots=True)
class VersionsResult:
    """The versions of each stream. A manifest that cannot be read is a finding."""

    lake: str
    streams: tuple[StreamVersions, ...]
    findings: tuple[Finding, ...]


def versions_in(lake: LakeContext, tap: str | None, stream: str | None) -> VersionsResult:
    """The versions of the streams that are meant. They are read even if one cannot be."""
    read = list(in_parallel(lambda pair: _read(lake, *pair), lake.chosen(tap, stream), threads=THREADS))
    return VersionsResult(
        lake.storage.url,
        tuple(versions for versions, _ in read),
        tuple(finding for _, finding in read if finding is not None),
    )


def _read(lake: LakeContext, tap: str, stream: str) -> tuple[StreamVersions, Finding | None]:
    try:
        state = lake.stream(tap, stream).snapshot()
        versions = tuple(versions_of(state))
    except LakeError as error:
        prefix = layout.stream_prefix(tap, stream)
        return StreamVersions(tap, stream), Finding("manifest", prefix, f"{error.message}; {error.hint}")
    return StreamVersions(tap, stream, state.lineage, state.floor, state.next_offset, versions), None


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
