"""What pages tell of a lake, taken from its manifests: everything that grows with the number of files is a sum here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from singerlake.format.metadata.root import TapNotes
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.selection import newest_version
from singerlake.site.facts.samples import Samples
from singerlake.site.facts.totals import Histograms, tally, together
from singerlake.tables.maintain.status import Standing
from singerlake.tables.state.model import ColumnEntry, Source, source_of
from singerlake.upkeep.lock_files import LockFile
from singerlake.upkeep.reports.attached_totals import AttachedTotals, attached_totals
from singerlake.upkeep.reports.census import Census
from singerlake.upkeep.reports.history import Version, versions_of
from singerlake.upkeep.reports.runs import Tracked, last_signs, track
from singerlake.upkeep.reports.schema_diff import SchemaDiff, compare_each


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """One version with its schema, and how it differs from the one that came before it; None for the first."""

    version: Version
    schema: StreamSchema
    diff: SchemaDiff | None


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """One stream. ``state`` is its manifest without the files, ``newest`` what a table of all of it would hold, None
    where ``trouble`` says why there is none; so may there be trouble with its samples alone. ``versions`` are in the
    order in which they came, ``current`` is the one of the newest file. ``locks`` are read only where a run has not
    said how it ended."""

    tap: str
    stream: str
    census: Census
    state: Manifest | None = None
    newest: Source | None = None
    locks: tuple[LockFile, ...] = ()
    versions: tuple[VersionFacts, ...] = ()
    current: VersionFacts | None = None
    tally: Histograms = field(default_factory=Histograms)
    attached: AttachedTotals = field(default_factory=AttachedTotals)
    samples: Samples | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class TapFacts:
    """One tap: what people say of it, and its streams by name. ``trouble`` says why they cannot be listed."""

    tap: str
    notes: TapNotes
    streams: tuple[StreamFacts, ...]
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table. ``standing`` is None where ``trouble`` says why there is none."""

    table: str
    standing: Standing | None = None
    columns: tuple[ColumnEntry, ...] = ()
    key: tuple[str, ...] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class LakeFacts:
    """All facts of the site. ``now`` is when the lake was read, in UTC. ``tables_trouble`` says why tables cannot be
    listed."""

    title: str
    url: str
    lake_id: str | None
    now: datetime
    taps: tuple[TapFacts, ...]
    signs: Mapping[str, datetime]
    tables: tuple[TableFacts, ...] = ()
    tables_trouble: str | None = None

    @property
    def streams(self) -> list[StreamFacts]:
        return [stream for tap in self.taps for stream in tap.streams]

    def runs(self, stream: StreamFacts, last: int) -> tuple[Tracked, ...]:
        """Its last captures, the newest first: maintenance says nothing of how fresh it is."""
        if stream.state is None:
            return ()
        return track(stream.state, stream.locks, self.signs, now=self.now, last=last, maintenance=False)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over streams; ``bytes`` are as stored. ``last_write`` is the newest of theirs."""

    streams: int
    versions: int
    files: int
    records: int
    bytes: int
    raw_bytes: int
    last_write: datetime | None
    troubles: int


def stream_facts(
    manifest: Manifest, census: Census, locks: Sequence[LockFile], samples: Samples | None, trouble: str | None
) -> StreamFacts:
    """What a manifest tells; ``trouble`` is that with the samples."""
    versions = _versions(manifest)
    newest = newest_version(manifest)
    return StreamFacts(
        tap=manifest.tap,
        stream=manifest.stream,
        census=census,
        state=msgspec.structs.replace(manifest, files=(), retired=()),
        newest=source_of(manifest),
        locks=tuple(locks),
        versions=versions,
        current=next((each for each in versions if each.version.hash == newest), versions[-1] if versions else None),
        tally=tally(manifest.files),
        attached=attached_totals(manifest.files.with_rows()),
        samples=samples,
        trouble=trouble,
    )


def _versions(manifest: Manifest) -> tuple[VersionFacts, ...]:
    versions = versions_of(manifest)
    schemas = [manifest.schemas[version.hash] for version in versions]
    diffs = [None, *compare_each(schemas)]
    return tuple(map(VersionFacts, versions, schemas, diffs))


def signs_of(taps: Sequence[TapFacts]) -> Mapping[str, datetime]:
    """When each run was last heard of: all streams together show whether it is still alive."""
    states = (stream.state for tap in taps for stream in tap.streams)
    return last_signs(state for state in states if state is not None)


def totals(streams: Sequence[StreamFacts]) -> Totals:
    """The figures of several streams together."""
    counts = [stream.census for stream in streams]
    return Totals(
        streams=len(streams),
        versions=sum(len(count.versions) for count in counts),
        files=sum(count.files for count in counts),
        records=sum(count.records for count in counts),
        bytes=sum(count.bytes for count in counts),
        raw_bytes=sum(count.raw_bytes for count in counts),
        last_write=max((count.last_write for count in counts if count.last_write), default=None),
        troubles=sum(stream.trouble is not None for stream in streams),
    )


def tally_of(streams: Sequence[StreamFacts]) -> Histograms:
    """When the data of several streams came."""
    return together(stream.tally for stream in streams)


def outcomes(lake: LakeFacts, streams: Sequence[StreamFacts]) -> Counter[str]:
    """How the newest run of each stream stands: outcome -> streams."""
    newest = (lake.runs(stream, 1) for stream in streams)
    return Counter(runs[0].outcome for runs in newest if runs)
