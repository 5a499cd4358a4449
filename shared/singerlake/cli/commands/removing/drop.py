"""``singerlake drop``: takes whole streams, or a tap with all of its streams, out of the lake."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import click

from singerlake.cli.dropped_run import drop_run
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.options import chosen_streams, context_of, json_option, quiet_option, stream_option, with_lake
from singerlake.cli.output import (
    counted,
    error_json,
    files,
    finding_json,
    progress,
    say,
    say_findings,
    say_json,
    shown,
)
from singerlake.errors import SingerlakeError, expected_errors
from singerlake.lake import Lake
from singerlake.tables.state.commit import tables_from
from singerlake.upkeep.catalogue_file import CatalogueFile
from singerlake.upkeep.drop_stream import Drop, delete_now, drop_stream
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.verify.findings import Finding

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class _DroppedStream:
    """What was done to one stream, or would be. ``deleted`` are objects that ``--now`` deleted, with the attached files
    among them; ``tables`` were made from the stream, and stay."""

    tap: str
    stream: str
    drop: Drop
    deleted: Tally
    deleted_attached: Tally
    tables: tuple[str, ...]


@click.command(short_help="Drop a tap or one of its streams; gc deletes the files after a grace time.")
@partial(with_lake, stores=True)
@click.option("--tap", metavar="TAP", required=True, help="The tap to drop, or whose stream to drop.")
@stream_option
@click.option("--run", metavar="ID", help="Drop only the messages that this run of a target brought.")
@click.option("--delete", is_flag=True, help="Drop; otherwise only show what would be dropped.")
@click.option("--now", is_flag=True, help="With --delete: delete the files at once. Readers that still read them fail.")
@json_option
@quiet_option
@click.pass_context
def drop(
    ctx: click.Context,
    lake: Lake,
    tap: str,
    stream: str | None,
    run: str | None,
    delete: bool,
    now: bool,
    as_json: bool,
) -> None:
    """Drop a tap with all of its streams, or one stream of it; with --run only what one run brought to them.

    Shows what would be dropped; drops only with --delete. From then on no reader finds the streams. Their files stay
    until 'singerlake gc --delete' has deleted them, which takes two runs, a grace time apart; with --now they go at
    once. A tap that runs again starts the stream anew. Tables made from a stream stay. Exits with 1 if a stream could
    not be dropped, or a file could not be deleted, and with 2 if access was denied.
    """
    if now and not delete:
        raise click.UsageError("--now needs --delete")
    if run is not None:
        drop_run(ctx, lake, tap, stream, run, delete=delete, now=now, as_json=as_json)
        return
    done: list[_DroppedStream] = []
    findings: list[Finding] = []
    failed: dict[str, SingerlakeError] = {}
    emptied: set[str] = set()
    tables_of = tables_from(lake.storage, tap)
    with progress() as start:
        for _, name in chosen_streams(lake, tap, stream):
            start(f"{tap}/{name}", unit="files")
            try:
                with expected_errors(tap=tap, stream=name):
                    there = lake.stream(tap, name)
                    context = context_of(there, there.store())
                    dropped = drop_stream(context, dry_run=not delete)
                    deleted, attached = NONE, NONE
                    if delete:
                        emptied.add(name)
                        CatalogueFile(lake.storage, tap).remove(name)
                    if now:
                        collected = delete_now(context)
                        findings += collected.findings
                        deleted, attached = collected.deleted, collected.deleted_attached
                    done.append(_DroppedStream(tap, name, dropped, deleted, attached, tables_of.get(name, ())))
            except SingerlakeError as error:
                # The others are dropped even if one cannot be.
                failed[name] = error
    if as_json:
        say_json(_json(lake, done, findings, failed, emptied, tap, delete))
    else:
        for one in done:
            for line in _told(one, delete, now):
                say(line)
        for name, why in failed.items():
            what = "dropped, and then failed" if name in emptied else "not dropped"
            say(f"{shown(tap)}/{shown(name)}: {what}: {shown(str(why))}", problem=True)
        say_findings(findings)
    ctx.exit(exit_code(failed.values()) or (1 if any(finding.problem for finding in findings) else 0))


def _told(one: _DroppedStream, delete: bool, now: bool) -> list[str]:
    """One line for what goes, one for each kind of what stays."""
    name, drop = f"{shown(one.tap)}/{shown(one.stream)}", one.drop
    if drop.after is None:
        what = "nothing to drop"
    else:
        parts = [files(drop.files), counted(drop.records, "record")]
        if drop.attached.files:
            parts.append(files(drop.attached, drop.attached))
        if drop.unlisted.files:
            parts.append(f"{files(drop.unlisted)} listed nowhere")
        what = f"{'dropped' if delete else 'would be dropped'}: {', '.join(parts)}"
    lines = [f"{name}: {what}"]
    if now:
        lines.append(f"  deleted: {files(one.deleted, one.deleted_attached)}")
    elif delete and (drop.files + drop.unlisted + drop.attached).files:
        lines.append("  the files stay until 'singerlake gc --delete' has run twice, a grace time apart")
    if one.tables:
        lines.append(f"  tables made from it stay: {', '.join(map(shown, one.tables))}; see 'singerlake project drop'")
    if drop.left:
        more = f" and {len(drop.left) - 1:,} more" if len(drop.left) > 1 else ""
        lines.append(f"  left, since the format does not put such a file there: {shown(drop.left[0])}{more}")
    if not delete:
        lines += [f"  {shown(key)}" for key in drop.keys[:_SHOWN]]
        if len(drop.keys) > _SHOWN:
            lines.append(f"  and {len(drop.keys) - _SHOWN:,} more, which --json names")
    return lines


def _json(
    lake: Lake,
    done: list[_DroppedStream],
    findings: list[Finding],
    failed: dict[str, SingerlakeError],
    emptied: set[str],
    tap: str,
    delete: bool,
) -> dict[str, Any]:
    return {
        "lake": lake.storage.url,
        "dry_run": not delete,
        "streams": [
            {
                "tap": one.tap,
                "stream": one.stream,
                "files": asdict(one.drop.files),
                "records": one.drop.records,
                "unlisted": asdict(one.drop.unlisted),
                "attached": asdict(one.drop.attached),
                "keys": one.drop.keys,
                "left": one.drop.left,
                "deleted": asdict(one.deleted),
                "deleted_attached": asdict(one.deleted_attached),
                "tables": one.tables,
            }
            for one in done
        ],
        "findings": [finding_json(finding) for finding in findings],
        "failed": [
            {"tap": tap, "stream": name, "dropped": name in emptied, "error": error_json(error)}
            for name, error in failed.items()
        ],
    }
