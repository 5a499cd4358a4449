"""What a state says of a segment: a run of its listed files that is kept as an object of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from singerlake.clock import timestamp
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.file_id import is_timed
from singerlake.format.lines.times import Span, joined, known_span
from singerlake.format.state.files.data_file import DataFile


class VersionTotals(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A version's files in a segment: how many, records, stored bytes, and the offset after the last message."""

    files: int = 0
    records: int = 0
    bytes: int = 0
    end: int = 0


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the ``segments`` of section 5.3 of ``shared/docs/format``."""

    name: str
    sha256: str
    offset: int
    end: int
    versions: dict[str, VersionTotals]
    raw_bytes: int
    erased: int = 0
    attached: int = 0
    first: str = ""
    last: str = ""
    untimed: int = 0
    ids: tuple[str, str] | None = None
    others: int = 0
    misnamed: int = 0

    @property
    def files(self) -> int:
        return sum(version.files for version in self.versions.values())


def describe(files: Sequence[DataFile], *, name: str, sha256: str) -> Segment:
    """What is said of a segment with these files, of which there is one at least."""
    timed = [file.id for file in files if is_timed(file.id)]
    first, last, untimed = _times(files)
    return Segment(
        name=name,
        sha256=sha256,
        offset=files[0].offset,
        end=files[-1].end,
        versions=by_version(files),
        raw_bytes=sum(file.raw_bytes for file in files),
        erased=sum(file.erased for file in files),
        attached=sum(len(file.attached) for file in files),
        first=first,
        last=last,
        untimed=untimed,
        ids=(min(timed), max(timed)) if timed else None,
        others=len(files) - len(timed),
        misnamed=sum(layout.file_id_in(file.path) != file.id for file in files),
    )


def is_described(segment: Segment, files: Sequence[DataFile]) -> bool:
    """Whether all that is said of a segment is what its files come to."""
    return describe(files, name=segment.name, sha256=segment.sha256) == segment


def joined_totals(parts: Iterable[dict[str, VersionTotals]]) -> dict[str, VersionTotals]:
    """The totals of several runs of files, which come in the order of their offsets, together."""
    found: dict[str, VersionTotals] = {}
    for part in parts:
        for version, more in part.items():
            sum_ = found.get(version, VersionTotals())
            found[version] = VersionTotals(
                sum_.files + more.files, sum_.records + more.records, sum_.bytes + more.bytes, max(sum_.end, more.end)
            )
    return found


def by_version(files: Iterable[DataFile]) -> dict[str, VersionTotals]:
    """The totals of each version among ``files``, which are in the order of their offsets."""
    counts: dict[str, list[int]] = {}
    for file in files:
        count = counts.setdefault(file.version, [0, 0, 0, 0])
        count[0] += 1
        count[1] += file.records
        count[2] += file.bytes
        count[3] = file.end
    return {version: VersionTotals(*count) for version, count in counts.items()}


def _times(files: Iterable[DataFile]) -> tuple[str, str, int]:
    """The earliest and the latest time, and how many files have none that is known."""
    span: Span | None = None
    untimed = 0
    for file in files:
        known = known_span(file.first, file.last)
        span = joined(span, known)
        untimed += known is None
    return (timestamp(span[0]), timestamp(span[1]), untimed) if span else ("", "", untimed)


prepare_decoders(VersionTotals, Segment)
