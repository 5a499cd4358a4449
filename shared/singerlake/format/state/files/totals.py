"""Sums over the listed files of a stream, for which no segment is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment, VersionTotals, by_version, joined_totals


@dataclass(frozen=True, slots=True)
class Totals:
    """``raw_bytes`` are decompressed, ``erased`` messages that are holes, ``versions`` sums by version."""

    raw_bytes: int
    erased: int
    versions: dict[str, VersionTotals]

    @property
    def records(self) -> int:
        return sum(version.records for version in self.versions.values())

    @property
    def bytes(self) -> int:
        return sum(version.bytes for version in self.versions.values())


def totals_of(files: FileList) -> Totals:
    parts = [_totals(part) for part in (*files.parts, files.tail)]
    return Totals(
        raw_bytes=sum(part.raw_bytes for part in parts),
        erased=sum(part.erased for part in parts),
        versions=joined_totals(part.versions for part in parts),
    )


def _totals(part: Segment | Iterable[DataFile]) -> Totals:
    if isinstance(part, Segment):
        return Totals(part.raw_bytes, part.erased, part.versions)
    files = tuple(part)
    return Totals(sum(file.raw_bytes for file in files), sum(file.erased for file in files), by_version(files))
