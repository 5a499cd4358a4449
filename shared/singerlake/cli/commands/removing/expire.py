"""``singerlake expire``: takes the oldest messages out of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import click

from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import DELETE_NOW, one_stream_options, result_options, shows_first, with_lake
from singerlake.cli.output import (
    UNTIL_COLLECTED,
    files,
    first_of,
    json_of,
    name_of,
    say,
    say_failure,
    say_findings,
    show,
)
from singerlake.cli.retention import retention_options
from singerlake.humanize import counted, shown
from singerlake.lake import Lake
from singerlake.upkeep.gc.expire import ExpireResult
from singerlake.upkeep.result import Tally


@examples(
    "singerlake expire lake --stream events --older-than 400d",
    "singerlake expire lake --stream events --older-than 400d --delete",
)
@command("Expire the oldest messages of a stream; gc deletes their files after a grace time.")
@partial(with_lake, stores=True)
@one_stream_options
@retention_options
@click.option("--before-offset", type=click.IntRange(0), metavar="N", help="Expire the messages before this offset.")
@shows_first("--delete", "Expire", now=DELETE_NOW)
@result_options
def expire(lake: Lake, tap: str | None, stream: str | None, **asked: Any) -> int:
    """Expire the oldest messages of a stream, once; 'singerlake policy' does it with every gc.

    Shows what would expire; does it only with --delete. Whole files expire, from the first one on; a file that also
    holds younger messages stays. Offsets and versions stay as they are, and no reader finds the expired messages. Their
    files stay until 'singerlake gc --delete' has deleted them, which takes two runs, a grace time apart; with --now
    they go at once.
    """
    if (asked["older_than"] is None and asked["keep_versions"] is None) == (asked["before_offset"] is None):
        raise click.UsageError("give --older-than or --keep-versions or both, or --before-offset alone")
    done = lake.one_stream(tap, stream).expire(**asked)
    show({"lake": lake.storage.url, "dry_run": done.dry_run, **json_of(done)}, lambda _: _say(done))
    return exit_code([done.error] if done.error else [], done.findings)


def _say(done: ExpireResult) -> None:
    say(*_told(done))
    if done.error is not None:
        say_failure(done, "expired, and then failed")
    say_findings(done.findings)


def told(expired: Tally, attached: Tally, records: int, floor: int, *, delete: bool) -> str:
    """What expired, or would, in a few words."""
    would = "expired" if delete else "would expire"
    begins = "begins" if delete else "would begin"
    gone = files(expired + attached, attached)
    return f"{gone} {would}, {counted(records, 'record')}; the stream {begins} at offset {floor:,}"


def undated(path: str) -> str:
    """That a file whose times are unknown ended a search by age."""
    return f"nothing from here on expires by age, since the times of the file are unknown: {shown(path)}"


def _told(done: ExpireResult) -> Iterator[str]:
    what = "nothing to expire"
    if done.expired.files:
        what = told(done.expired, done.attached, done.records, done.floor, delete=not done.dry_run)
    yield f"{name_of(done)}: {what}"
    if done.now:
        yield f"  deleted: {files(done.deleted, done.deleted_attached)}"
    elif not done.dry_run and done.expired.files:
        yield f"  the files stay {UNTIL_COLLECTED}"
    if done.undated is not None:
        yield f"  {undated(done.undated)}"
    if done.dry_run:
        yield from first_of(done.keys)
