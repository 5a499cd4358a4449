"""``singerlake erase``: takes single records out of a stream."""

from __future__ import annotations

import getpass
import socket
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from singerlake.cli.conditions import parse_where
from singerlake.cli.engines import engine_options, reader
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.options import context_of, json_option, quiet_option, with_lake
from singerlake.cli.output import (
    counted,
    error_json,
    finding_json,
    progress,
    say,
    say_findings,
    say_json,
    shown,
    size,
)
from singerlake.errors import SingerlakeError, expected_errors
from singerlake.lake import Lake
from singerlake.maintenance.erase.condition import Condition
from singerlake.maintenance.erase.erase_stream import Erased, Trace, erase_records
from singerlake.maintenance.file_count import NONE, Tally
from singerlake.maintenance.gc.apply import collect_now
from singerlake.maintenance.record_run import record_run
from singerlake.maintenance.verify.findings import Finding
from singerlake.projections.state.commit import tables_from

_SHOWN = 20
WHERE = 'Which records: "email = \'a@b.c\'", "user.id in (1, 2)", "id in @FILE" with a value on each line.'


@click.command(short_help="Erase records that a condition means; gc deletes the files that held them.")
@partial(with_lake, stores=True)
@click.option("--tap", metavar="TAP", required=True, help="The tap of the stream.")
@click.option("--stream", metavar="STREAM", required=True, help="The stream to erase from.")
@click.option("--where", metavar="CONDITION", required=True, help=WHERE)
@click.option("--delete", is_flag=True, help="Erase; otherwise only show what would be erased.")
@click.option(
    "--now",
    is_flag=True,
    help="With --delete: delete the files that held the records at once. Readers that still read them fail.",
)
@engine_options
@json_option
@quiet_option
@click.pass_context
def erase(
    ctx: click.Context,
    lake: Lake,
    tap: str,
    stream: str,
    where: str,
    delete: bool,
    now: bool,
    engine: str,
    threads: int,
    as_json: bool,
) -> None:
    """Erase the records of a stream that a condition means.

    Shows what would be erased; erases only with --delete. Every other message keeps its offset, and bookmarks and
    checkpoints stay valid. From then on no reader finds the records. The files that held them stay until 'singerlake gc
    --delete' has deleted them, which takes two runs, a grace time apart; with --now they go at once. Tables made from
    the stream are made anew by their next run. Exits with 1 if a file could not be looked into or written again.
    """
    if now and not delete:
        raise click.UsageError("--now needs --delete")
    condition = parse_where(where, "--where")
    there, started = lake.existing_stream(tap, stream), lake.clock.now()
    findings: list[Finding] = []
    deleted, failed = NONE, None
    context = context_of(there, there.store())
    with reader(engine, lake, threads) as reads, progress() as start:
        with expected_errors(tap=tap, stream=stream):
            done = erase_records(
                context,
                condition,
                who=_who(),
                dry_run=not delete,
                engine=reads,
                progress=start(f"{tap}/{stream}"),
            )
        findings += done.findings
        if delete and done.records:
            record_run(context, "erase", done.replaced, records=done.records, started=started)
        if now:
            try:
                collected = collect_now(context, frozenset(trace.id for trace in done.left if trace.id is not None))
                deleted = collected.deleted
                findings += collected.findings
            except SingerlakeError as error:
                # What was erased is erased.
                failed = error
    left = tuple(trace for trace in done.left if not now or lake.storage.head(trace.key) is not None)
    tables = tables_from(lake.storage, tap).get(stream, ())
    if as_json:
        say_json(_json(lake, tap, stream, done, left, deleted, findings, failed, tables, delete))
    else:
        for line in _told(tap, stream, condition, done, left, deleted, tables, delete, now):
            say(line)
        if failed is not None:
            say(f"{shown(tap)}/{shown(stream)}: erased, and then failed: {shown(str(failed))}", problem=True)
        say_findings(findings)
    ctx.exit(exit_code([failed] if failed else []) or (1 if any(finding.problem for finding in findings) else 0))


def _who() -> str:
    """Who erases, as the new files say it for as long as they are there."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"[:200]


def _told(
    tap: str,
    stream: str,
    condition: Condition,
    done: Erased,
    left: tuple[Trace, ...],
    deleted: Tally,
    tables: tuple[str, ...],
    delete: bool,
    now: bool,
) -> list[str]:
    what = "erased" if delete else "would be erased"
    files = f"{len(done.traces):,} of {counted(done.looked.files, 'file')}"
    lines = [f"{shown(tap)}/{shown(stream)}: {counted(done.records, 'record')} {what} in {files}"]
    if not delete:
        lines += _traces(done.traces)
    unmet = condition.entries - len(done.entries)
    if unmet and condition.entries > 1:
        lines.append(f"  no record holds {unmet:,} of {counted(condition.entries, 'value')}")
    if now:
        lines.append(f"  deleted: {counted(deleted.files, 'file')} ({size(deleted.bytes)})")
    retired = [trace for trace in left if trace.id is not None]
    if retired:
        lines.append(f"  {_still(retired)} until 'singerlake gc --delete' has run twice, a grace time apart")
        lines += [] if delete else _traces(retired)
    unlisted = [trace for trace in left if trace.id is None]
    if unlisted:
        lines.append(f"  {_still(unlisted)}, which nothing lists: a run at work may; see 'singerlake gc --orphans'")
        lines += _traces(unlisted)
    if done.records and tables:
        again = "are made anew by" if delete else "would be made anew by"
        lines.append(f"  tables made from it {again} their next run: {', '.join(map(shown, tables))}")
    return lines


def _still(traces: list[Trace]) -> str:
    records = sum(trace.records for trace in traces)
    return f"{counted(records, 'record')} {'is' if records == 1 else 'are'} still in {counted(len(traces), 'file')}"


def _traces(traces: tuple[Trace, ...] | list[Trace]) -> list[str]:
    lines = [f"    {shown(trace.key)}: {counted(trace.records, 'record')}" for trace in traces[:_SHOWN]]
    if len(traces) > _SHOWN:
        lines.append(f"    and {len(traces) - _SHOWN:,} more, which --json names")
    return lines


def _json(
    lake: Lake,
    tap: str,
    stream: str,
    done: Erased,
    left: tuple[Trace, ...],
    deleted: Tally,
    findings: list[Finding],
    failed: SingerlakeError | None,
    tables: tuple[str, ...],
    delete: bool,
) -> dict[str, Any]:
    return {
        "lake": lake.storage.url,
        "dry_run": not delete,
        "tap": tap,
        "stream": stream,
        "records": done.records,
        "files": [{"key": trace.key, "records": trace.records} for trace in done.traces],
        "looked": asdict(done.looked),
        "left": [{"key": trace.key, "records": trace.records, "retired": trace.id is not None} for trace in left],
        "values_held": sorted(done.entries),
        "deleted": asdict(deleted),
        "tables": tables,
        "findings": [finding_json(finding) for finding in findings],
        "error": error_json(failed) if failed else None,
    }
