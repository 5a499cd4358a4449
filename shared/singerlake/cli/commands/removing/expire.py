"""``singerlake expire``: takes the oldest messages out of a stream."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from singerlake.cli.exit_codes import exit_code
from singerlake.cli.options import context_of, json_option, quiet_option, with_lake
from singerlake.cli.output import (
    counted,
    error_json,
    files,
    finding_json,
    say,
    say_findings,
    say_json,
    shown,
)
from singerlake.cli.retention import retention_from, retention_options
from singerlake.errors import SingerlakeError, expected_errors
from singerlake.lake import Lake
from singerlake.storage.probe import storage_time
from singerlake.upkeep.expire.expire_stream import Cut, Expired, expire_messages
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.gc.apply import Collected, collect_now
from singerlake.upkeep.record_run import record_run
from singerlake.upkeep.verify.findings import Finding

_SHOWN = 20


@click.command(short_help="Expire the oldest messages of a stream; gc deletes their files after a grace time.")
@partial(with_lake, stores=True)
@click.option("--tap", metavar="TAP", required=True, help="The tap of the stream.")
@click.option("--stream", metavar="STREAM", required=True, help="The stream whose oldest messages expire.")
@retention_options
@click.option("--before-offset", type=click.IntRange(0), metavar="N", help="Expire the messages before this offset.")
@click.option("--delete", is_flag=True, help="Expire; otherwise only show what would.")
@click.option("--now", is_flag=True, help="With --delete: delete the files at once. Readers that still read them fail.")
@json_option
@quiet_option
@click.pass_context
def expire(
    ctx: click.Context,
    lake: Lake,
    tap: str,
    stream: str,
    older_than: str | None,
    keep_versions: int | None,
    before_offset: int | None,
    delete: bool,
    now: bool,
    as_json: bool,
) -> None:
    """Expire the oldest messages of a stream, once; 'singerlake policy' does it with every gc.

    Shows what would expire; does it only with --delete. Whole files expire, from the first one on; a file that also
    holds younger messages stays. Offsets and versions stay as they are, and no reader finds the expired messages. Their
    files stay until 'singerlake gc --delete' has deleted them, which takes two runs, a grace time apart; with --now
    they go at once.
    """
    if now and not delete:
        raise click.UsageError("--now needs --delete")
    retention = retention_from(older_than, keep_versions)
    if (retention is None) == (before_offset is None):
        raise click.UsageError("give --older-than or --keep-versions or both, or --before-offset alone")
    there, started = lake.existing_stream(tap, stream), lake.clock.now()
    context = context_of(there, there.store())
    findings: list[Finding] = []
    collected, failed = None, None
    with expected_errors(tap=tap, stream=stream):
        moment = storage_time(lake.storage, ids=lake.ids) if delete else lake.clock.now()
        cut = Cut(before=before_offset, retention=retention, now=moment)
        done = expire_messages(context, cut, dry_run=not delete)
    if delete and done.files.files:
        record_run(context, "expire", done.files, records=done.records, started=started)
    if now:
        try:
            collected = collect_now(context, frozenset(done.ids))
            findings += collected.findings
        except SingerlakeError as error:
            # What expired has expired.
            failed = error
    if as_json:
        say_json(_json(lake, tap, stream, done, collected, findings, failed, delete))
    else:
        for line in _told(tap, stream, done, collected, delete, now):
            say(line)
        if failed is not None:
            say(f"{shown(tap)}/{shown(stream)}: expired, and then failed: {shown(str(failed))}", problem=True)
        say_findings(findings)
    ctx.exit(exit_code([failed] if failed else []) or (1 if any(finding.problem for finding in findings) else 0))


def told(expired: Expired, *, delete: bool) -> str:
    """What expired, or would, in a few words."""
    would = "expired" if delete else "would expire"
    gone = files(expired.files + expired.attached, expired.attached)
    begins = "begins" if delete else "would begin"
    return f"{gone} {would}, {counted(expired.records, 'record')}; the stream {begins} at offset {expired.floor:,}"


def undated(path: str) -> str:
    """That a file whose times are unknown ended a search by age."""
    return f"nothing from here on expires by age, since the times of the file are unknown: {shown(path)}"


def _deleted(collected: Collected | None) -> tuple[Tally, Tally]:
    """What went at once, and the attached files among that."""
    return (NONE, NONE) if collected is None else (collected.deleted, collected.deleted_attached)


def _told(tap: str, stream: str, done: Expired, collected: Collected | None, delete: bool, now: bool) -> list[str]:
    name = f"{shown(tap)}/{shown(stream)}"
    lines = [f"{name}: {told(done, delete=delete) if done.files.files else 'nothing to expire'}"]
    if now:
        gone, attached = _deleted(collected)
        lines.append(f"  deleted: {files(gone, attached)}")
    elif delete and done.files.files:
        lines.append("  the files stay until 'singerlake gc --delete' has run twice, a grace time apart")
    if done.undated is not None:
        lines.append(f"  {undated(done.undated)}")
    if not delete:
        lines += [f"  {shown(key)}" for key in done.keys[:_SHOWN]]
        if len(done.keys) > _SHOWN:
            lines.append(f"  and {len(done.keys) - _SHOWN:,} more, which --json names")
    return lines


def _json(
    lake: Lake,
    tap: str,
    stream: str,
    done: Expired,
    collected: Collected | None,
    findings: list[Finding],
    failed: SingerlakeError | None,
    delete: bool,
) -> dict[str, Any]:
    deleted, attached = _deleted(collected)
    return {
        "lake": lake.storage.url,
        "dry_run": not delete,
        "tap": tap,
        "stream": stream,
        "expired": asdict(done.files),
        "attached": asdict(done.attached),
        "records": done.records,
        "floor": done.floor,
        "keys": done.keys,
        "undated": done.undated,
        "deleted": asdict(deleted),
        "deleted_attached": asdict(attached),
        "findings": [finding_json(finding) for finding in findings],
        "error": error_json(failed) if failed else None,
    }
