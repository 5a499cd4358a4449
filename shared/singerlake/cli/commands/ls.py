"""``singerlake ls``: what a lake holds, from its manifests alone."""

from __future__ import annotations

import logging
from typing import Any

import click

from singerlake.cli.options import chosen_streams, chosen_taps, json_option, tap_option, with_lake
from singerlake.cli.output import Column, counted, minute, say_json, shown, size, table
from singerlake.lake import Lake
from singerlake.maintenance.engines.parallel import THREADS, in_parallel
from singerlake.maintenance.expire.policy import odd_rules
from singerlake.maintenance.reports.census import Census, take_census

logger = logging.getLogger(__name__)

_COLUMNS = (
    Column("TAP", folds=True),
    Column("STREAM", folds=True),
    Column("VERSIONS", folds=True),
    Column("FILES", number=True),
    Column("RECORDS", number=True),
    Column("BYTES", number=True),
    Column("LAST WRITE (UTC)"),
)
_ATTACHED = (Column("ATTACHED", number=True), Column("ATTACHED BYTES", number=True))
"""Shown where any stream has attached files."""


@click.command(short_help="List taps and streams with their versions, files, records, bytes and last write.")
@with_lake
@tap_option
@json_option
@click.pass_context
def ls(ctx: click.Context, lake: Lake, tap: str | None, as_json: bool) -> None:
    """List taps and streams with their versions, files, records, bytes and last write.

    Reads the manifests and no data file. Streams without a version are left out. ATTACHED counts the files that are
    attached to records, each content once. Exits with 1 where a stream's manifest is missing or cannot be read. Warns
    of a policy that cannot be read.
    """
    pairs = chosen_streams(lake, tap, None)
    for odd in odd_rules(lake.root_metadata(), dict.fromkeys(name for name, _ in pairs)):
        if odd.problem:
            logger.warning("%s: %s", odd.key, shown(odd.message))
    streams = list(
        in_parallel(lambda pair: take_census(lake.storage, *pair, lake.stream(*pair).state), pairs, threads=THREADS)
    )
    # A stream that was dropped keeps its manifest, and one that is just being born has nothing yet.
    streams = [each for each in streams if each.trouble or each.versions]
    if as_json:
        say_json(_json(lake, chosen_taps(lake, tap), streams))
    else:
        _table(lake, streams)
    ctx.exit(1 if any(stream.trouble for stream in streams) else 0)


def _table(lake: Lake, streams: list[Census]) -> None:
    counts = [
        counted(len({stream.tap for stream in streams}), "tap"),
        counted(len(streams), "stream"),
        counted(sum(stream.files for stream in streams), "file"),
        counted(sum(stream.records for stream in streams), "record"),
        size(sum(stream.bytes for stream in streams)),
    ]
    attached = sum(stream.attached for stream in streams)
    if attached:
        counts += [counted(attached, "attached file"), size(sum(stream.attached_bytes for stream in streams))]
    columns = (*_COLUMNS, *_ATTACHED) if attached else _COLUMNS
    rows = ((*_row(stream), *(_attached(stream) if attached else ())) for stream in streams)
    table(columns, rows, caption=f"{shown(lake.storage.url)}: {', '.join(counts)}")


def _attached(stream: Census) -> tuple[str, str]:
    return (f"{stream.attached:,}", size(stream.attached_bytes)) if stream.attached else ("", "")


def _row(stream: Census) -> tuple[str, ...]:
    if stream.trouble:
        return stream.tap, stream.stream, f"! {stream.trouble}", "", "", "", ""
    labels = list(stream.versions.values())
    return (
        stream.tap,
        stream.stream,
        labels[0] if len(labels) == 1 else f"{labels[0]}..{labels[-1]}" if labels else "",
        f"{stream.files:,}",
        f"{stream.records:,}",
        size(stream.bytes),
        minute(stream.last_write) if stream.last_write else "",
    )


def _json(lake: Lake, taps: list[str], streams: list[Census]) -> dict[str, Any]:
    return {
        "lake": lake.storage.url,
        "taps": [{"tap": tap, "streams": [each for each in streams if each.tap == tap]} for tap in taps],
    }
