"""Reads a lake into facts: its manifests, and of its data files nothing but samples that somebody asked for."""

from __future__ import annotations

from collections.abc import Mapping

from singerlake.errors import SingerlakeError, expected_errors
from singerlake.format.metadata.root import TapNotes
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.site.facts.facts import (
    LakeFacts,
    Samples,
    StreamFacts,
    TableFacts,
    TapFacts,
    signs_of,
    stream_facts,
    take_samples,
)
from singerlake.tables.maintain.status import standing_of
from singerlake.tables.state.commit import load
from singerlake.upkeep.lock_files import locks_of
from singerlake.upkeep.reports.census import Census, take_census
from singerlake.upkeep.result import UNSEEN, Progress
from singerlake.work.parallel import THREADS, in_parallel


def gather(
    lake: Lake,
    *,
    title: str | None = None,
    samples: int = 0,
    threads: int = THREADS,
    progress: Progress = UNSEEN,
) -> LakeFacts:
    """What is known of the lake. ``progress`` counts streams.

    An error of one stream is part of its facts, and the others are still read. Raises ``UnsupportedFormatError`` and
    ``CorruptObjectError`` for the root metadata, and what storage raises where the taps cannot be listed.
    """
    metadata = lake.root_metadata()
    listed = [(tap, *_listed(lake, tap)) for tap in lake.taps()]
    pairs = [(tap, name) for tap, names, _ in listed for name in names]
    progress.sized(len(pairs))
    streams: dict[tuple[str, str], StreamFacts] = {}
    for facts in in_parallel(lambda pair: _stream(lake, *pair, samples), pairs, threads=threads):
        streams[facts.tap, facts.stream] = facts
        progress.advance(1)
    notes = metadata.taps if metadata else {}
    taps = tuple(
        TapFacts(tap, notes.get(tap, TapNotes()), tuple(streams[tap, name] for name in names), trouble)
        for tap, names, trouble in listed
    )
    tables, tables_trouble = _tables(lake)
    url = lake.storage.url
    return LakeFacts(
        title=title or url.rstrip("/").rpartition("/")[2] or url,
        url=url,
        lake_id=metadata.lake_id if metadata else None,
        now=lake.clock.now(),
        taps=taps,
        signs=signs_of(taps),
        tables=tuple(in_parallel(lambda name: _table(lake, name, streams), tables, threads=threads)),
        tables_trouble=tables_trouble,
    )


def _listed(lake: Lake, tap: str) -> tuple[list[str], str | None]:
    try:
        return lake.streams(tap), None
    except SingerlakeError as error:
        return [], _said(error)


def _stream(lake: Lake, tap: str, name: str, samples: int) -> StreamFacts:
    try:
        stream = lake.stream(tap, name)
        # Never from the data files: nothing but a state remembers runs, and there may be a million files.
        manifest = stream.state()
        if manifest is None:
            return _troubled(tap, name, "no manifest; run 'singerlake rebuild'")
        if not manifest.schemas.keys() >= manifest.versions.keys():
            return _troubled(tap, name, "a version has no schema; run 'singerlake verify'")
        census = take_census(lake.storage, tap, name, lambda: manifest)
        taken, trouble = _samples(lake, manifest, samples)
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
                return TableFacts(name, trouble="begun, and not made yet; run 'singerlake project run'")
            state = found.state
            source = streams.get((state.sources[0].tap, state.sources[0].stream)) if state.sources else None
            standing = standing_of(state, source.state if source is not None else None)
            return TableFacts(name, standing, state.columns, state.key)
    except SingerlakeError as error:
        return TableFacts(name, trouble=_said(error))


def _samples(lake: Lake, manifest: Manifest, count: int) -> tuple[Samples | None, str | None]:
    if not count:
        return None, None
    try:
        return take_samples(lake.stream(manifest.tap, manifest.stream), manifest, count), None
    except SingerlakeError as error:
        return None, f"no sample of values: {_said(error)}"


def _troubled(tap: str, name: str, trouble: str) -> StreamFacts:
    return StreamFacts(tap, name, Census(tap, name, trouble=trouble), trouble=trouble)


def _said(error: SingerlakeError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
