"""All that is known of a lake without its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from singerlake.clock import timestamp
from singerlake.errors import LakeError
from singerlake.format.metadata.root import TapNotes
from singerlake.format.state.model import Manifest
from singerlake.glance import at_a_glance
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.reports.census import Census, take_census
from singerlake.upkeep.reports.history import Version, versions_of
from singerlake.upkeep.reports.status import NO_MANIFEST, Tracked, last_signs, track
from singerlake.work.parallel import THREADS, in_parallel


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedStream:
    """What a stream holds, as ``Census`` counts it, its versions in the order in which they came, and its last runs,
    the newest first."""

    stream: str
    files: int
    messages: int
    records: int
    erased: int
    bytes: int
    raw_bytes: int
    attached: int
    attached_bytes: int
    features: tuple[str, ...]
    last_write: datetime | None
    trouble: None = None
    store: str
    lineage: str | None
    transaction: int
    floor: int
    next_offset: int
    versions: tuple[Version, ...]
    runs: tuple[Tracked, ...]


@dataclass(frozen=True, slots=True)
class UnreadStream:
    """A stream whose state is missing or cannot be read, and why."""

    stream: str
    trouble: str


@at_a_glance
@dataclass(frozen=True, slots=True)
class ExportedTap:
    """What people say of a tap, and its streams. ``retention`` is as it was written."""

    tap: str
    owner: str
    description: str
    links: Mapping[str, str]
    retention: Any
    streams: tuple[ExportedStream | UnreadStream, ...]


@at_a_glance
@dataclass(frozen=True, slots=True)
class ExportResult:
    """All metadata of a lake at the time ``exported``. Streams that are not yet born get ``manifest_store``."""

    lake: str
    exported: str
    lake_id: str | None
    manifest_store: str | None
    taps: tuple[ExportedTap, ...]

    @property
    def unread(self) -> tuple[UnreadStream, ...]:
        """The streams whose state could not be read."""
        return tuple(each for tap in self.taps for each in tap.streams if isinstance(each, UnreadStream))


_COUNTED = {each.name for each in fields(Census)} - {"tap", "stream", "versions", "trouble"}


def export_of(lake: LakeContext, tap: str | None, stream: str | None, *, runs: int) -> ExportResult:
    """What is known of the streams that the names mean. ``runs``: how many of each stream."""
    metadata = lake.root_metadata()
    pairs = lake.chosen(tap, stream)
    taps = lake.chosen_taps(tap) if stream is None else list(dict.fromkeys(name for name, _ in pairs))
    states = dict(in_parallel(lambda pair: (pair, _state(lake, *pair)), pairs, threads=THREADS))
    signs = last_signs(state for state in states.values() if isinstance(state, Manifest))
    now = lake.clock.now()

    def described(stream: str, state: Manifest | str) -> ExportedStream | UnreadStream:
        if isinstance(state, str):
            return UnreadStream(stream, state)
        census = take_census(lake.storage, state.tap, stream, lambda: state)
        return ExportedStream(
            stream=stream,
            **{name: getattr(census, name) for name in _COUNTED},
            store=state.store,
            lineage=state.lineage,
            transaction=state.transaction.number,
            floor=state.floor,
            next_offset=state.next_offset,
            versions=tuple(versions_of(state)),
            runs=tuple(track(state, (), signs, now=now, last=runs)),
        )

    def told(name: str) -> ExportedTap:
        notes = metadata.taps.get(name, TapNotes()) if metadata else TapNotes()
        streams = tuple(described(stream, state) for (each, stream), state in states.items() if each == name)
        return ExportedTap(name, notes.owner, notes.description, notes.links, notes.retention, streams)

    return ExportResult(
        lake=lake.storage.url,
        exported=timestamp(now),
        lake_id=metadata.lake_id if metadata else None,
        manifest_store=metadata.manifest_store if metadata else None,
        taps=tuple(map(told, taps)),
    )


def _state(lake: LakeContext, tap: str, stream: str) -> Manifest | str:
    try:
        return lake.stream(tap, stream).state() or NO_MANIFEST
    except LakeError as error:
        return f"{error.message}; {error.hint}"
