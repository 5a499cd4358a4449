"""What pages tell of a lake, taken from its manifests: everything that grows with the number of files is a sum here. Of
data files nothing is read but samples that somebody asked for."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from singerlake.errors import SingerlakeError, expected_errors
from singerlake.format.lines.messages import is_record_line
from singerlake.format.metadata.root import TapNotes
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.selection import Slice, newest_version
from singerlake.humanize import cut
from singerlake.lake import Lake
from singerlake.site.totals import Histograms, tally, together
from singerlake.stream import LakeStream
from singerlake.tables.maintain.status import BEGUN, Standing, standing_of
from singerlake.tables.state.commit import load
from singerlake.tables.state.model import ColumnEntry, MadeFrom, TableSource, TableState, source_of
from singerlake.upkeep.lock_files import LockFile, locks_of
from singerlake.upkeep.reports.census import AttachedTotals, Census, attached_totals, take_census
from singerlake.upkeep.reports.history import Version, versions_of
from singerlake.upkeep.reports.schema_diff import SchemaDiff, compare_each
from singerlake.upkeep.reports.status import Tracked, last_signs, track
from singerlake.upkeep.result import UNSEEN, Progress
from singerlake.work.parallel import THREADS, in_parallel

_FILES = 5
"""Files that are looked into: the newest may hold messages and no record."""
_MESSAGES = 200
"""Messages at the end of a file that are looked at, so that a large one is not read whole."""
PROPERTIES = 60
_VALUE, _NAME = 80, 120
"""Characters that are shown of a value, of a property's name."""
HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True)
class Samples:
    """``rows``: a property's name and its value in each record, None where the record has none; the newest record comes
    first. ``left_out`` counts properties beyond ``PROPERTIES``."""

    records: int
    rows: tuple[tuple[str, tuple[str | None, ...]], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many of a stream's newest records are shown, and the names of properties, or patterns of them as ``*_email``,
    whose values are hidden, also within objects."""

    count: int = 0
    mask: Sequence[str] = ()

    def hide(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record as it is shown. Raises ``RecursionError`` for one that is nested too deeply."""

        def shown(properties: dict[str, Any]) -> dict[str, Any]:
            return {name: HIDDEN if self._hides(name) else value for name, value in properties.items()}

        found: dict[str, Any] = json.loads(json.dumps(record), object_hook=shown) if self.mask else record
        return found

    def _hides(self, name: str) -> bool:
        return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in self.mask)


NO_SAMPLES = Sampling()


def take_samples(stream: LakeStream, manifest: Manifest, sampling: Sampling) -> Samples:
    """The newest records. Raises ``MissingFileError``, ``BrokenFileError`` and what storage raises."""
    count = sampling.count
    records: list[dict[str, Any]] = []
    for file in list(reversed(manifest.files[-_FILES:])):
        if len(records) >= count:
            break
        part = Slice(file, max(0, file.messages - _MESSAGES))
        records += reversed(list(_records(_last(stream, part, count - len(records)), sampling)))
    return samples_of(records)


def samples_of(records: list[dict[str, Any]]) -> Samples:
    """Records as rows of texts. Pure."""
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = tuple(
        (cut(name, _NAME), tuple(_text(record[name]) if name in record else None for record in records))
        for name in names[:PROPERTIES]
    )
    return Samples(len(records), rows, max(0, len(names) - PROPERTIES))


def _last(stream: LakeStream, part: Slice, count: int) -> Iterable[bytes]:
    lines: deque[bytes] = deque(maxlen=count)
    for block in stream.read(part):
        lines.extend(line for line in block.data.split(b"\n") if line and is_record_line(line))
    return lines


def _records(lines: Iterable[bytes], sampling: Sampling) -> Iterator[dict[str, Any]]:
    for line in lines:
        # json takes what Python-made taps write and strict readers refuse: NaN, lone surrogates.
        try:
            record = json.loads(line).get("record")
            if isinstance(record, dict):
                yield sampling.hide(record)
        except (ValueError, RecursionError):
            continue


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
    """One stream. ``state`` is its manifest without the files, ``newest`` what a table of all of it would hold, None
    where ``trouble`` says why there is none; so may there be trouble with its samples alone. ``versions`` are in the
    order in which they came, ``current`` is the one of the newest file. ``locks`` are read only where a run has not
    said how it ended."""

    tap: str
    stream: str
    census: Census
    state: Manifest | None = None
    newest: TableSource | None = None
    locks: tuple[LockFile, ...] = ()
    versions: tuple[VersionFacts, ...] = ()
    current: VersionFacts | None = None
    tally: Histograms = field(default_factory=Histograms)
    attached: AttachedTotals = field(default_factory=AttachedTotals)
    samples: Samples | None = None
    trouble: str | None = None

    @property
    def is_dropped(self) -> bool:
        """As ``Manifest.is_dropped``, but a stream whose first run has committed nothing yet has a page."""
        state = self.state
        return state is not None and state.is_dropped and bool(state.runs or state.retired)


@dataclass(frozen=True, slots=True)
class TapFacts:
    """One tap: what people say of it, and its streams by name. ``trouble`` says why they cannot be listed."""

    tap: str
    notes: TapNotes
    streams: tuple[StreamFacts, ...]
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table. ``standing`` is None where ``trouble`` says why there is none, which ``is_begun`` says is the wait for
    its first run. ``reads`` are the tables that its statement read, ``rows_id`` says which rows it has itself."""

    table: str
    standing: Standing | None = None
    columns: tuple[ColumnEntry, ...] = ()
    key: tuple[str, ...] = ()
    reads: tuple[MadeFrom, ...] = ()
    rows_id: str = ""
    trouble: str | None = None
    is_begun: bool = False


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
    )


def tally_of(streams: Sequence[StreamFacts]) -> Histograms:
    """When the data of several streams came."""
    return together(stream.tally for stream in streams)


def gather(
    lake: Lake,
    tap: str | None = None,
    stream: str | None = None,
    *,
    title: str | None = None,
    sampling: Sampling = NO_SAMPLES,
    threads: int = THREADS,
    progress: Progress = UNSEEN,
) -> LakeFacts:
    """What is known of the lake, or of the streams that ``tap`` and ``stream`` mean and the tables that are made from
    them. ``progress`` counts streams.

    An error of one stream is part of its facts, and the others are still read. Raises ``UnknownNameError``,
    ``UnsupportedFormatError`` and
    ``CorruptObjectError`` for the root metadata, and what storage raises where the taps cannot be listed.
    """
    metadata = lake.root_metadata()
    listed = [(name, *_listed(lake, name)) for name in lake.taps()]
    chosen = None if tap is None and stream is None else set(lake.chosen(tap, stream))
    if chosen is not None:
        some = [(name, [each for each in names if (name, each) in chosen], trouble) for name, names, trouble in listed]
        listed = [each for each in some if each[1]]
    pairs = [(tap, name) for tap, names, _ in listed for name in names]
    progress.sized(len(pairs))
    streams: dict[tuple[str, str], StreamFacts] = {}
    for facts in in_parallel(lambda pair: _stream(lake, *pair, sampling), pairs, threads=threads):
        streams[facts.tap, facts.stream] = facts
        progress.advance(1)
    notes = metadata.taps if metadata else {}
    taps = tuple(
        TapFacts(tap, notes.get(tap, TapNotes()), _of(streams, tap, names), trouble) for tap, names, trouble in listed
    )
    tables, tables_trouble = _tables(lake)
    found = tuple(in_parallel(lambda name: _table(lake, name, streams), tables, threads=threads))
    url = lake.storage.url
    return LakeFacts(
        title=title or url.rstrip("/").rpartition("/")[2] or url,
        url=url,
        lake_id=metadata.lake_id if metadata else None,
        now=lake.clock.now(),
        taps=taps,
        signs=signs_of(taps),
        tables=found if chosen is None else tuple(each for each in found if _source_of(each) in chosen),
        tables_trouble=tables_trouble,
    )


def _of(streams: Mapping[tuple[str, str], StreamFacts], tap: str, names: Iterable[str]) -> tuple[StreamFacts, ...]:
    """The streams of a tap as lists have them."""
    found = (streams[tap, name] for name in names)
    return tuple(each for each in found if not each.is_dropped)


def _listed(lake: Lake, tap: str) -> tuple[list[str], str | None]:
    try:
        return lake.streams(tap), None
    except SingerlakeError as error:
        return [], _said(error)


def _stream(lake: Lake, tap: str, name: str, sampling: Sampling) -> StreamFacts:
    try:
        stream = lake.stream(tap, name)
        # Never from the data files: nothing but a state remembers runs, and there may be a million files.
        manifest = stream.state()
        if manifest is None:
            return _troubled(tap, name, "no manifest; run 'singerlake rebuild'")
        if not manifest.schemas.keys() >= manifest.versions.keys():
            return _troubled(tap, name, "a version has no schema; run 'singerlake verify'")
        census = take_census(lake.storage, tap, name, lambda: manifest)
        taken, trouble = _samples(lake, manifest, sampling)
        # A lock tells whether such a run is lost; a page of runs that ended takes no request more.
        unsaid = any(run.status == "running" for run in manifest.runs)
        locks = tuple(locks_of(lake.storage, tap, name)) if unsaid else ()
        return stream_facts(manifest, census, locks, taken, trouble)
    except SingerlakeError as error:
        return _troubled(tap, name, _said(error))
    except RecursionError:
        return _troubled(tap, name, "a schema is nested too deeply to read; look at its manifest.json")


def _tables(lake: Lake) -> tuple[list[str], str | None]:
    try:
        return lake.tables(), None
    except SingerlakeError as error:
        return [], _said(error)


def _table(lake: Lake, name: str, streams: Mapping[tuple[str, str], StreamFacts]) -> TableFacts:
    try:
        with expected_errors(table=name):
            found = load(lake.storage, name)
            if found is None or not found.state.is_published:
                return TableFacts(name, trouble=BEGUN, is_begun=True)
            state = found.state
            source = streams.get((state.sources[0].tap, state.sources[0].stream)) if state.sources else None
            standing = standing_of(state, source.newest if source is not None else None)
            return TableFacts(name, standing, state.columns, state.key, state.made_from, _rows_id(state))
    except SingerlakeError as error:
        return TableFacts(name, trouble=_said(error))


def _source_of(table: TableFacts) -> tuple[str, str] | None:
    source = table.standing.source if table.standing is not None else None
    return None if source is None else (source.tap, source.stream)


def _rows_id(state: TableState) -> str:
    try:
        return state.rows_id
    except UnicodeEncodeError:
        return ""  # The name of a column has half a character, so that no statement read it.


def _samples(lake: Lake, manifest: Manifest, sampling: Sampling) -> tuple[Samples | None, str | None]:
    if not sampling.count:
        return None, None
    try:
        return take_samples(lake.stream(manifest.tap, manifest.stream), manifest, sampling), None
    except SingerlakeError as error:
        return None, f"no sample of values: {_said(error)}"


def _troubled(tap: str, name: str, trouble: str) -> StreamFacts:
    return StreamFacts(tap, name, Census(tap, name, trouble=trouble), trouble=trouble)


def _said(error: SingerlakeError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
