"""``singerlake expire``: takes the oldest messages out of a stream."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import Documented
from singerlake.cli.options import json_option, one_stream_option, one_tap_option, quiet_option, shows_first, with_lake
from singerlake.cli.output import UNTIL_COLLECTED, counted, files, first_of, json_of, say, say_findings, say_json, shown
from singerlake.cli.retention import retention_options
from singerlake.lake import Lake
from singerlake.upkeep.gc.expire import ExpireResult
from singerlake.upkeep.result import Tally


@click.command(
    short_help="Expire the oldest messages of a stream; gc deletes their files after a grace time.",
    cls=Documented,
    examples=(
        "singerlake expire lake --stream events --older-than 400d",
        "singerlake expire lake --stream events --older-than 400d --delete",
    ),
)
@partial(with_lake, stores=True)
@one_tap_option
@one_stream_option
@retention_options
@click.option("--before-offset", type=click.IntRange(0), metavar="N", help="Expire the messages before this offset.")
@shows_first("--delete", "Expire")
@click.option("--now", is_flag=True, help="With --delete: delete the files at once. Readers that still read them fail.")
@json_option
@quiet_option
@click.pass_context
def expire(
    ctx: click.Context,
    lake: Lake,
    tap: str | None,
    stream: str | None,
    older_than: str | None,
    keep_versions: int | None,
    before_offset: int | None,
    dry_run: bool,
    now: bool,
    as_json: bool,
) -> None:
    """Expire the oldest messages of a stream, once; 'singerlake policy' does it with every gc.

    Shows what would expire; does it only with --delete. Whole files expire, from the first one on; a file that also
    holds younger messages stays. Offsets and versions stay as they are, and no reader finds the expired messages. Their
    files stay until 'singerlake gc --delete' has deleted them, which takes two runs, a grace time apart; with --now
    they go at once.
    """
    if now and dry_run:
        raise click.UsageError("--now needs --delete")
    if (older_than is None and keep_versions is None) == (before_offset is None):
        raise click.UsageError("give --older-than or --keep-versions or both, or --before-offset alone")
    done = lake.one_stream(tap, stream).expire(
        older_than=older_than, keep_versions=keep_versions, before_offset=before_offset, now=now, dry_run=dry_run
    )
    if as_json:
        say_json({"lake": lake.storage.url, "dry_run": done.dry_run, **json_of(done)})
    else:
        for line in _told(done):
            say(line)
        if done.error is not None:
            say(
                f"{shown(done.tap)}/{shown(done.stream)}: expired, and then failed: {shown(str(done.error))}",
                problem=True,
            )
        say_findings(done.findings)
    ctx.exit(exit_code([done.error] if done.error else [], done.findings))


def told(expired: Tally, attached: Tally, records: int, floor: int, *, delete: bool) -> str:
    """What expired, or would, in a few words."""
    would = "expired" if delete else "would expire"
    begins = "begins" if delete else "would begin"
    gone = files(expired + attached, attached)
    return f"{gone} {would}, {counted(records, 'record')}; the stream {begins} at offset {floor:,}"


def undated(path: str) -> str:
    """That a file whose times are unknown ended a search by age."""
    return f"nothing from here on expires by age, since the times of the file are unknown: {shown(path)}"


def _told(done: ExpireResult) -> list[str]:
    what = "nothing to expire"
    if done.expired.files:
        what = told(done.expired, done.attached, done.records, done.floor, delete=not done.dry_run)
    lines = [f"{shown(done.tap)}/{shown(done.stream)}: {what}"]
    if done.now:
        lines.append(f"  deleted: {files(done.deleted, done.deleted_attached)}")
    elif not done.dry_run and done.expired.files:
        lines.append(f"  the files stay {UNTIL_COLLECTED}")
    if done.undated is not None:
        lines.append(f"  {undated(done.undated)}")
    return [*lines, *first_of(done.keys)] if done.dry_run else lines
