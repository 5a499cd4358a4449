"""``singerlake vacuum``: joins small files."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from singerlake.cli.options import (
    chosen_streams,
    context_of,
    json_option,
    quiet_option,
    stream_option,
    tap_option,
    with_lake,
)
from singerlake.cli.output import counted, finding_json, progress, say, say_findings, say_json, shown, size
from singerlake.errors import LakeError, SettingError
from singerlake.lake import Lake
from singerlake.upkeep.file_count import Tally
from singerlake.upkeep.record_run import record_run
from singerlake.upkeep.vacuum.apply import Vacuumed, vacuum_stream
from singerlake.upkeep.vacuum.plan import MOST_WAITING, TARGET_BYTES
from singerlake.upkeep.verify.findings import Finding
from singerlake.work.parallel import THREADS

Streams = dict[tuple[str, str], Vacuumed]


@click.command(short_help="Join small files of a stream into larger ones; offsets and bookmarks stay.")
@partial(with_lake, stores=True)
@tap_option
@stream_option
@click.option(
    "--target-bytes",
    type=click.IntRange(1, 5 << 30),
    default=TARGET_BYTES,
    show_default=True,
    metavar="N",
    help="The most stored bytes of a joined file. Files of half that size are left alone.",
)
@click.option(
    "--most-waiting",
    type=click.IntRange(0),
    default=MOST_WAITING,
    show_default=True,
    metavar="N",
    help="The most replaced files of a stream that wait for gc. All others are joined by a later run.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be joined and change nothing.")
@json_option
@quiet_option
@click.option("--threads", type=click.IntRange(1, 64), default=THREADS, show_default=True, help="Files made at once.")
@click.pass_context
def vacuum(
    ctx: click.Context,
    lake: Lake,
    tap: str | None,
    stream: str | None,
    target_bytes: int,
    most_waiting: int,
    dry_run: bool,
    as_json: bool,
    threads: int,
) -> None:
    """Join small neighbouring files into larger ones: the same messages at the same offsets.

    Writers and readers may run meanwhile, and bookmarks and checkpoints stay valid. No message is decompressed, and
    nothing is deleted: the replaced files stay until gc collects them. Run it again if it was interrupted. Exits with 1
    if files differ from the manifest; those stay as they are.
    """
    done: Streams = {}
    findings: list[Finding] = []
    with progress() as start:
        for name, each in chosen_streams(lake, tap, stream):
            there, started = lake.stream(name, each), lake.clock.now()
            bar = start(f"{name}/{each}")
            try:
                context = context_of(there, there.store())
                done[name, each] = vacuum_stream(
                    context,
                    target_bytes=target_bytes,
                    most_waiting=most_waiting,
                    dry_run=dry_run,
                    threads=threads,
                    progress=bar,
                )
                if (joined := done[name, each].joined).files:
                    record_run(context, "vacuum", joined, started=started)
            except (LakeError, SettingError) as error:
                findings.append(Finding("manifest", there.prefix, f"{error.message}; {error.hint}"))
    findings += [finding for vacuumed in done.values() for finding in vacuumed.findings]
    if as_json:
        say_json(_json(lake, done, findings, dry_run))
    else:
        for (name, each), vacuumed in done.items():
            for line in _told(f"{shown(name)}/{shown(each)}", vacuumed, dry_run):
                say(line)
        say_findings(findings)
    ctx.exit(1 if any(finding.problem for finding in findings) else 0)


def _told(name: str, vacuumed: Vacuumed, dry_run: bool) -> list[str]:
    """One line for what is joined, and one for the small files that stay."""
    plan = vacuumed.plan
    if dry_run and plan.runs:
        lines = [f"{name}: would join {_files(plan.joined)}, into {len(plan.runs):,}"]
    elif vacuumed.into.files:
        lines = [f"{name}: joined {_files(vacuumed.joined)}, into {vacuumed.into.files:,}"]
    else:
        lines = [f"{name}: nothing to join"]
    reasons = {
        "large enough": plan.large,
        "alone beside files of other versions": plan.between,
        "beside other SCHEMA messages": vacuumed.apart,
        "with too little beside": plan.others,
        "replaced by others meanwhile": vacuumed.overtaken,
    }
    left = [f"{_files(tally)} {why}" for why, tally in reasons.items() if tally.files]
    if left:
        lines.append(f"  left as they are: {'; '.join(left)}")
    if plan.later.files:
        lines.append(f"  left for a later run, when 'singerlake gc --delete' has made room: {_files(plan.later)}")
    return lines


def _files(tally: Tally) -> str:
    return f"{counted(tally.files, 'file')} ({size(tally.bytes)})"


def _json(lake: Lake, done: Streams, findings: list[Finding], dry_run: bool) -> dict[str, Any]:
    return {
        "lake": lake.storage.url,
        "dry_run": dry_run,
        "streams": [
            {
                "tap": tap,
                "stream": stream,
                "plan": {
                    "runs": [
                        {
                            "offset": run.offset,
                            "version": run.version,
                            "files": len(run),
                            "bytes": run.bytes,
                        }
                        for run in vacuumed.plan.runs
                    ],
                    "large": asdict(vacuumed.plan.large),
                    "between": asdict(vacuumed.plan.between),
                    "others": asdict(vacuumed.plan.others),
                    "later": asdict(vacuumed.plan.later),
                },
                "joined": asdict(vacuumed.joined),
                "into": asdict(vacuumed.into),
                "apart": asdict(vacuumed.apart),
                "overtaken": asdict(vacuumed.overtaken),
            }
            for (tap, stream), vacuumed in done.items()
        ],
        "findings": [finding_json(finding) for finding in findings],
    }
