"""``singerlake rebuild``: brings manifests, catalogues and root metadata in line with the data files."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from singerlake.cli.engines import engine_options, reader
from singerlake.cli.journals import journal_option, left_out
from singerlake.cli.options import (
    json_option,
    quiet_option,
    stream_option,
    tap_option,
    with_lake,
)
from singerlake.cli.output import counted, progress, say, say_findings, say_json, shown
from singerlake.errors import CorruptObjectError, ForeignManifestError, LakeError, SettingError
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.progress import reporting
from singerlake.upkeep.rebuild.caches import rebuild_catalogue, rebuild_root
from singerlake.upkeep.rebuild.repair import Repair
from singerlake.upkeep.rebuild.repair_stream import RepairOptions, repair_stream
from singerlake.upkeep.rebuild.survey_journal import SurveyJournal, open_survey_journal
from singerlake.upkeep.record_run import record_run
from singerlake.upkeep.verify.findings import Finding
from singerlake.work.engine import Engine


@dataclass(frozen=True, slots=True)
class RepairSummary:
    """What is kept of a stream's repair: a lake may have many, and one may have a million files. ``state`` has
    but its newest file; ``ids`` are those of the difference, where they are asked for."""

    needed: bool
    outcome: str
    state: Manifest
    files: int
    messages: int
    read: Tally
    noted: Tally
    findings: tuple[Finding, ...]
    ids: dict[str, tuple[str, ...]]


_SAID = {"mended": "corrected in the manifest"}
"""How a kind of difference is called, if not by its name: a file is taken as it is."""
Streams = dict[tuple[str, str], RepairSummary]


@click.command(short_help="Make manifests, catalogues and root metadata again from the data files.")
@partial(with_lake, stores=True)
@tap_option
@stream_option
@click.option("--dry-run", is_flag=True, help="Show the difference and change nothing.")
@click.option("--adopt", is_flag=True, help="Add sound files that a readable manifest does not list, after the others.")
@click.option(
    "--discard-manifest",
    is_flag=True,
    help="Make the manifest again even if there is one, damaged or not. Offsets then begin a new lineage.",
)
@json_option
@quiet_option
@engine_options
@journal_option
@click.pass_context
def rebuild(
    ctx: click.Context,
    lake: Lake,
    tap: str | None,
    stream: str | None,
    dry_run: bool,
    adopt: bool,
    discard_manifest: bool,
    as_json: bool,
    threads: int,
    engine: str,
    journal: Path | None,
) -> None:
    """Make manifests, catalogues and root metadata again from the data files.

    A missing manifest is made from the data files alone. A readable one keeps its offsets, and only wrong entries are
    corrected. One that cannot be read is left alone, unless you give --discard-manifest. Annotations stay. Exits with 1
    if something is left that a person should look at.
    """
    if adopt and discard_manifest:
        raise SettingError("--adopt and --discard-manifest exclude each other", hint="discarding lists every file")
    pairs = lake.chosen(tap, stream)
    asked = RepairOptions(discard=discard_manifest, adopt=adopt, dry_run=dry_run)
    with ExitStack() as held:
        noted = held.enter_context(open_survey_journal(journal, lake.storage.url)) if journal else None
        reads = held.enter_context(reader(engine, lake, threads))
        done, findings = _streams(lake, pairs, asked, reads, noted, as_json)
    caches = _caches(lake, done, pairs, whole=stream is None, dry_run=dry_run)
    findings += [finding for stream in done.values() for finding in stream.findings]
    if as_json:
        say_json(_json(lake, done, findings, caches, dry_run))
    else:
        _report(done, findings, caches, dry_run, journal)
    ctx.exit(1 if any(finding.problem for finding in findings) else 0)


def _streams(
    lake: Lake,
    pairs: list[tuple[str, str]],
    asked: RepairOptions,
    engine: Engine,
    journal: SurveyJournal | None,
    as_json: bool,
) -> tuple[Streams, list[Finding]]:
    """Each stream repaired; one that cannot be is a finding, and the others are repaired."""
    done: Streams = {}
    findings: list[Finding] = []
    with progress() as report:
        for tap, stream in pairs:
            there, started = lake.stream(tap, stream), lake.clock.now()
            bar = reporting(report, f"{tap}/{stream}")
            try:
                context = there.context()
                repair = repair_stream(
                    context,
                    asked,
                    lake_id=None if asked.dry_run else lake.lake_id(),
                    engine=engine,
                    journal=journal,
                    progress=bar,
                    planned=_show if not as_json else lambda _: None,
                )
                done[tap, stream] = _kept(repair, asked.dry_run, as_json)
                needed, changed = repair.needed and not asked.dry_run, repair.totals.files
                del repair
                if needed:
                    record_run(context, "rebuild", changed, started=started)
            except (LakeError, SettingError) as error:
                discardable = isinstance(error, CorruptObjectError | ForeignManifestError)
                way_out = f"{error.hint}, or run again with --discard-manifest" if discardable else error.hint
                findings.append(Finding("manifest", there.prefix, f"{error.message}; {way_out}"))
    return done, findings


def _kept(repair: Repair, dry_run: bool, as_json: bool) -> RepairSummary:
    return RepairSummary(
        needed=repair.needed,
        outcome=_outcome(repair, dry_run),
        state=msgspec.structs.replace(repair.after, files=repair.after.files[-1:]),
        files=len(repair.after.files),
        messages=repair.after.next_offset - repair.after.floor,
        read=repair.read,
        noted=repair.noted,
        findings=repair.findings,
        ids=repair.difference.by_kind if as_json else {},
    )


def _caches(lake: Lake, done: Streams, pairs: list[tuple[str, str]], *, whole: bool, dry_run: bool) -> list[str]:
    """The metadata of taps and lake, from the streams' state; the names of the objects that changed."""
    changed: list[str] = []
    taps = sorted({tap for tap, _ in pairs})
    for tap in taps:
        manifests = [kept.state for (name, _), kept in done.items() if name == tap]
        complete = whole and len(manifests) == sum(name == tap for name, _ in pairs)
        if rebuild_catalogue(lake.storage, tap, manifests, whole=complete, dry_run=dry_run):
            changed.append(f"catalogue of {tap}")
    kinds = [kept.state.store for kept in done.values()]
    lake_id = _id_of(lake, dry_run) if kinds else ""
    if kinds and rebuild_root(lake.storage, taps, manifest_store=kinds[0], lake_id=lake_id, dry_run=dry_run):
        changed.append("root metadata")
    return changed


def _id_of(lake: Lake, dry_run: bool) -> str:
    """The lake's id; what a dry run shows where there is none yet is no lake's."""
    return lake.known_lake_id() or lake.ids() if dry_run else lake.lake_id()


def _report(done: Streams, findings: list[Finding], caches: list[str], dry_run: bool, journal: Path | None) -> None:
    for (tap, stream), kept in done.items():
        say(f"{shown(tap)}/{shown(stream)}: {kept.outcome}")
    for name in caches:
        say(f"{shown(name)}: {'would be written' if dry_run else 'written'}")
    if journal:
        say(left_out(journal, *_left(done)))
    say_findings(findings)


def _left(done: Streams) -> tuple[Tally, Tally]:
    """What a journal noted of all streams, and what was read."""
    noted = sum((kept.noted for kept in done.values()), NONE)
    return noted, sum((kept.read for kept in done.values()), NONE)


def _show(repair: Repair) -> None:
    """The difference of a stream: how many files of each kind, and the first of them; then whether offsets mean other
    messages."""
    say(f"{shown(repair.after.tap)}/{shown(repair.after.stream)}: difference")
    for kind, totals in repair.totals.by_kind.items():
        if totals.files.files:
            say(f"  {_SAID.get(kind, kind)}: {counted(totals.files.files, 'file')}")
            for path in totals.paths:
                say(f"    {shown(path)}")
            if totals.files.files > len(totals.paths):
                say(f"    and {totals.files.files - len(totals.paths):,} more")
    if _new_lineage(repair):
        say("  under a new lineage")


def _outcome(repair: Repair, dry_run: bool) -> str:
    if not repair.needed:
        return f"unchanged, {_holds(repair.after)}" if repair.before else "no data files"
    verb = "would be" if dry_run else "was"
    if repair.before is None:
        return f"{verb} made anew, {_holds(repair.after)}"
    totals = repair.totals.by_kind.items()
    changes = [
        f"{kind_totals.files.files} {_SAID.get(kind, kind)}" for kind, kind_totals in totals if kind_totals.files.files
    ]
    lineage = ", under a new lineage" if _new_lineage(repair) else ""
    return f"{verb} changed ({', '.join(changes) or 'same files'}{lineage}), {_holds(repair.after)}"


def _new_lineage(repair: Repair) -> bool:
    return repair.before is not None and repair.after.lineage != repair.before.lineage


def _holds(manifest: Manifest) -> str:
    return ", ".join(
        (
            counted(len(manifest.files), "file"),
            counted(manifest.next_offset - manifest.floor, "message"),
            counted(len(manifest.versions), "version"),
        )
    )


def _json(lake: Lake, done: Streams, findings: list[Finding], caches: list[str], dry_run: bool) -> dict[str, Any]:
    noted, read = _left(done)
    return {
        "lake": lake.storage.url,
        "dry_run": dry_run,
        "streams": [
            {
                "tap": tap,
                "stream": stream,
                "changed": kept.needed,
                "lineage": kept.state.lineage,
                "files": kept.files,
                "messages": kept.messages,
                "versions": kept.state.versions,
                **kept.ids,
            }
            for (tap, stream), kept in done.items()
        ],
        "read": asdict(read),
        "noted": asdict(noted),
        "metadata": caches,
        "findings": findings,
    }
