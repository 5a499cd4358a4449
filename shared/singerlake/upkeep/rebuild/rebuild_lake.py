"""Rebuilding a lake: each stream's state, then the caches of taps and lake from the states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from singerlake.errors import CorruptObjectError, ForeignManifestError, LakeError, SettingError
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.upkeep.context import LakeContext, lake_id_for
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.progress import Report, reporting
from singerlake.upkeep.rebuild.caches import rebuild_catalogue, rebuild_root
from singerlake.upkeep.rebuild.repair import KindTotals, Repair
from singerlake.upkeep.rebuild.repair_stream import RepairOptions, repair_stream
from singerlake.upkeep.rebuild.survey_journal import open_survey_journal
from singerlake.upkeep.record_run import record_run
from singerlake.upkeep.result import FOR_PYTHON
from singerlake.upkeep.verify.findings import Finding
from singerlake.work.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRebuild:
    """What was done to one stream, or would be. It has so many ``files`` and ``messages`` then, and the ``versions``,
    hash to label. Of the files, some are ``added`` to the list or ``dropped`` from it, some are ``moved`` to another
    offset, and of those ``mended`` the state had wrong facts: these four are ids, if they were asked for. ``changes``
    has for each of the four the number, the bytes and the first paths. ``anew``: there was no state before."""

    tap: str
    stream: str
    changed: bool
    lineage: str | None
    files: int
    messages: int
    versions: Mapping[str, str]
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    anew: bool = field(metadata=FOR_PYTHON)
    new_lineage: bool = field(metadata=FOR_PYTHON)
    changes: Mapping[str, KindTotals] = field(metadata=FOR_PYTHON)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """What was done to each stream, or with ``dry_run`` would be. Of the data files, ``read`` ones were read, and
    ``noted`` ones were not, since a journal says that they are sound. ``metadata`` says which catalogues changed, and
    whether root metadata did. ``findings`` are for a person to look at; a stream whose state cannot be read is one."""

    lake: str
    dry_run: bool
    streams: tuple[StreamRebuild, ...]
    read: Tally
    noted: Tally
    metadata: tuple[str, ...]
    findings: tuple[Finding, ...]


def rebuild_lake(
    lake: LakeContext,
    tap: str | None,
    stream: str | None,
    *,
    asked: RepairOptions,
    journal: Path | None,
    file_ids: bool,
    engine: Engine | None,
    progress: Report | None,
    planned: Callable[[StreamRebuild], object],
) -> RebuildResult:
    """Rebuild the streams that are meant. One that cannot be rebuilt stops no other."""
    if asked.adopt and asked.discard:
        raise SettingError("adopt and discard_manifest exclude each other", hint="discarding lists every file")
    pairs, dry_run = lake.chosen(tap, stream), asked.dry_run
    done, findings, unread = list[StreamRebuild](), list[Finding](), list[Finding]()
    states: list[Manifest] = []
    read, noted = NONE, NONE
    with open_survey_journal(journal, lake.storage.url) if journal else nullcontext() as held:
        for name, each in pairs:
            started = lake.clock.now()
            bar = reporting(progress, f"{name}/{each}")
            try:
                context = lake.stream(name, each).context()
                repair = repair_stream(
                    context,
                    asked,
                    lake_id=None if dry_run else lake.lake_id(),
                    engine=engine,
                    journal=held,
                    progress=bar,
                    planned=lambda plan: planned(_summary(plan, file_ids=False)),
                )
                # A lake may have many streams, and one may have a million files.
                states.append(msgspec.structs.replace(repair.after, files=repair.after.files[-1:]))
                done.append(_summary(repair, file_ids=file_ids))
                findings += repair.findings
                read, noted = read + repair.read, noted + repair.noted
                needed, changed = repair.needed and not dry_run, repair.totals.files
                del repair
                if needed:
                    record_run(context, "rebuild", changed, started=started)
            except (LakeError, SettingError) as error:
                discardable = isinstance(error, CorruptObjectError | ForeignManifestError)
                way_out = f"{error.hint}, or run again with --discard-manifest" if discardable else error.hint
                unread.append(Finding("manifest", layout.stream_prefix(name, each), f"{error.message}; {way_out}"))
    return RebuildResult(
        lake=lake.storage.url,
        dry_run=dry_run,
        streams=tuple(done),
        read=read,
        noted=noted,
        metadata=_caches(lake, states, pairs, whole=stream is None, dry_run=dry_run),
        findings=(*unread, *findings),
    )


def _summary(repair: Repair, *, file_ids: bool) -> StreamRebuild:
    before, after = repair.before, repair.after
    return StreamRebuild(
        tap=after.tap,
        stream=after.stream,
        changed=repair.needed,
        lineage=after.lineage,
        files=len(after.files),
        messages=after.next_offset - after.floor,
        versions=after.versions,
        **(repair.difference.by_kind if file_ids else {}),
        anew=before is None,
        new_lineage=before is not None and after.lineage != before.lineage,
        changes=repair.totals.by_kind,
    )


def _caches(
    lake: LakeContext, states: list[Manifest], pairs: list[tuple[str, str]], *, whole: bool, dry_run: bool
) -> tuple[str, ...]:
    """The metadata of taps and lake, from the streams' states; the names of the objects that changed."""
    changed: list[str] = []
    taps = sorted({tap for tap, _ in pairs})
    for tap in taps:
        manifests = [state for state in states if state.tap == tap]
        complete = whole and len(manifests) == sum(name == tap for name, _ in pairs)
        if rebuild_catalogue(lake.storage, tap, manifests, whole=complete, dry_run=dry_run):
            changed.append(f"catalogue of {tap}")
    if states:
        lake_id = lake_id_for(lake, dry_run)
        if rebuild_root(lake.storage, taps, manifest_store=states[0].store, lake_id=lake_id, dry_run=dry_run):
            changed.append("root metadata")
    return tuple(changed)
