"""What streams hold, from their manifests alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from singerlake.clock import parse_timestamp
from singerlake.errors import LakeError
from singerlake.format import layout
from singerlake.format.state.features import features_of
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest
from singerlake.glance import at_a_glance
from singerlake.storage.port import Storage
from singerlake.upkeep.context import LakeContext
from singerlake.work.parallel import THREADS, in_parallel


@at_a_glance
@dataclass(frozen=True, slots=True)
class Census:
    """``versions`` maps hash to label; ``erased`` are messages whose record was erased, and not among ``records``;
    ``bytes`` are as stored, ``raw_bytes`` decompressed; ``attached`` are attached files, each content once, and
    ``attached_bytes`` theirs; ``features`` are what a reader has to know beyond the base of the format; ``last_write``
    is when the last run brought something, UTC. ``trouble`` says why there are no figures."""

    tap: str
    stream: str
    versions: dict[str, str] = field(default_factory=dict)
    files: int = 0
    messages: int = 0
    records: int = 0
    erased: int = 0
    bytes: int = 0
    raw_bytes: int = 0
    attached: int = 0
    attached_bytes: int = 0
    features: tuple[str, ...] = ()
    last_write: datetime | None = None
    trouble: str | None = None


@at_a_glance
@dataclass(frozen=True, slots=True)
class TapContents:
    """The streams of a tap that have a version, or whose state cannot be read."""

    tap: str
    streams: tuple[Census, ...]


@at_a_glance
@dataclass(frozen=True, slots=True)
class ContentsResult:
    """What each tap of a lake holds."""

    lake: str
    taps: tuple[TapContents, ...]

    @property
    def streams(self) -> tuple[Census, ...]:
        """Those of all taps."""
        return tuple(stream for tap in self.taps for stream in tap.streams)


def contents_of(lake: LakeContext, tap: str | None, stream: str | None) -> ContentsResult:
    """What the streams hold that the names mean."""
    pairs = lake.chosen(tap, stream)
    taps = lake.chosen_taps(tap) if stream is None else list(dict.fromkeys(name for name, _ in pairs))
    found = in_parallel(lambda pair: take_census(lake.storage, *pair, lake.stream(*pair).state), pairs, threads=THREADS)
    # As ``Manifest.is_dropped``.
    streams = [each for each in found if each.trouble or each.versions or each.files]
    return ContentsResult(
        lake.storage.url, tuple(TapContents(name, tuple(each for each in streams if each.tap == name)) for name in taps)
    )


def take_census(storage: Storage, tap: str, stream: str, state: Callable[[], Manifest | None]) -> Census:
    """The figures of one stream, whose newest state ``state`` gives. Raises what storage raises."""
    try:
        manifest = state()
    except LakeError as error:
        return Census(tap, stream, trouble=f"{error.message}; {error.hint}")
    if manifest is None:
        return Census(tap, stream, trouble="no manifest; run 'singerlake rebuild'")
    attached, totals = attached_totals(manifest.files.with_rows()), totals_of(manifest.files)
    return Census(
        tap=tap,
        stream=stream,
        versions=manifest.versions,
        files=len(manifest.files),
        messages=manifest.next_offset - manifest.floor,
        records=totals.records,
        erased=totals.erased,
        bytes=totals.bytes,
        raw_bytes=totals.raw_bytes,
        attached=attached.files,
        attached_bytes=attached.bytes,
        features=features_of(manifest),
        last_write=last_write_of(storage, manifest),
    )


def last_write_of(storage: Storage, manifest: Manifest) -> datetime | None:
    """When a run last committed messages to a stream. Where no run says it, as after a rebuild: when its last file was
    captured, at the latest when that was. Raises what storage raises."""
    runs = [moment for run in manifest.runs if run.captures and (moment := parse_timestamp(run.updated or run.started))]
    if runs:
        return max(runs)
    entry = storage.head(layout.manifest_key(manifest.tap, manifest.stream))
    captured = parse_timestamp(manifest.files[-1].last) if manifest.files else None
    return min((moment for moment in (captured, entry and entry.last_modified) if moment), default=None)


@dataclass(frozen=True, slots=True)
class Kind:
    """The files of one media type."""

    media_type: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class AttachedTotals:
    """``files`` counts each object once, however many records have it; ``bytes`` are theirs. ``unread`` counts those
    that could not be read when their records were captured. ``kinds`` begin with the one of the most bytes."""

    files: int = 0
    bytes: int = 0
    unread: int = 0
    kinds: tuple[Kind, ...] = ()


def attached_totals(files: Iterable[DataFile]) -> AttachedTotals:
    """The figures of what is attached to the records of ``files``."""
    objects: dict[tuple[str, int], tuple[str, int]] = {}
    unread = 0
    for file in files:
        for row in file.attached:
            if row.sha256 is None:
                unread += 1
            else:
                # Of two records that name one object differently the first counts.
                objects.setdefault((row.sha256, row.copy), (row.media_type or "", row.bytes or 0))
    counts: dict[str, list[int]] = {}
    for kind, size in objects.values():
        count = counts.setdefault(kind, [0, 0])
        count[0] += 1
        count[1] += size
    kinds = [Kind(kind, *count) for kind, count in counts.items()]
    kinds.sort(key=lambda kind: (-kind.bytes, kind.media_type))
    return AttachedTotals(len(objects), sum(kind.bytes for kind in kinds), unread, tuple(kinds))
