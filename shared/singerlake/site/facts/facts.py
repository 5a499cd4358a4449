"""What pages tell of a lake, taken from its manifests: everything that grows with the number of files is a sum here."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from singerlake.format.lines.messages import is_record_line
from singerlake.format.metadata.root import TapNotes
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.selection import Slice, newest_version
from singerlake.humanize import cut
from singerlake.site.facts.totals import Histograms, tally, together
from singerlake.stream import LakeStream
from singerlake.tables.maintain.status import Standing
from singerlake.tables.state.model import ColumnEntry
from singerlake.upkeep.lock_files import LockFile
from singerlake.upkeep.reports.census import AttachedTotals, Census, attached_totals
from singerlake.upkeep.reports.history import Version, versions_of
from singerlake.upkeep.reports.schema_diff import SchemaDiff, compare_each
from singerlake.upkeep.reports.status import Tracked, last_signs, track

_FILES = 5
"""Files that are looked into: the newest may hold messages and no record."""
_MESSAGES = 200
"""Messages at the end of a file that are looked at, so that a large one is not read whole."""
PROPERTIES = 60
_VALUE, _NAME = 80, 120
"""Characters that are shown of a value, of a property's name."""


@dataclass(frozen=True, slots=True)
class Samples:
    """``rows``: a property's name and its value in each record, None where the record has none; the newest record comes
    first. ``left_out`` counts properties beyond ``PROPERTIES``."""

    records: int
    rows: tuple[tuple[str, tuple[str | None, ...]], ...]
    left_out: int = 0


def take_samples(stream: LakeStream, manifest: Manifest, count: int) -> Samples:
    """The newest ``count`` records. Raises ``MissingFileError``, ``BrokenFileError`` and what storage raises."""
    records: list[dict[str, Any]] = []
    for file in list(reversed(manifest.files[-_FILES:])):
        if len(records) >= count:
            break
        records += reversed(_last(stream, Slice(file, max(0, file.messages - _MESSAGES)), count - len(records)))
    return samples_of(records)


def samples_of(records: list[dict[str, Any]]) -> Samples:
    """Records as rows of texts. Pure."""
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = tuple(
        (cut(name, _NAME), tuple(_text(record[name]) if name in record else None for record in records))
        for name in names[:PROPERTIES]
    )
    return Samples(len(records), rows, max(0, len(names) - PROPERTIES))


def _last(stream: LakeStream, part: Slice, count: int) -> list[dict[str, Any]]:
    lines: deque[bytes] = deque(maxlen=count)
    for block in stream.read(part):
        lines.extend(line for line in block.data.split(b"\n") if line and is_record_line(line))
    return list(_records(lines))


def _records(lines: deque[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        # json takes what Python-made taps write and strict readers refuse: NaN, lone surrogates.
        try:
            record = json.loads(line).get("record")
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _text(value: Any) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _VALUE)


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """One version with its schema, and how it differs from the one that came before it; None for the first."""

    version: Version
    schema: StreamSchema
    diff: SchemaDiff | None


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """One stream. ``state`` is its manifest without the files, None where ``trouble`` says why there is none; so may
    there be trouble with its samples alone. ``versions`` are in the order in which they came, ``current`` is the one of
    the newest file. ``locks`` are read only where a run has not said how it ended."""

    tap: str
    stream: str
    census: Census
    state: Manifest | None = None
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
