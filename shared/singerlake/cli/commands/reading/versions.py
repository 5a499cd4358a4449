"""``singerlake versions``: the schema versions of streams, in the order in which they came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from singerlake.cli.options import json_option, stream_option, tap_option, with_lake
from singerlake.cli.output import Column, counted, minute, say_findings, say_json, shown, size, table
from singerlake.clock import parse_timestamp
from singerlake.errors import LakeError
from singerlake.lake import Lake
from singerlake.upkeep.reports.history import Version, versions_of
from singerlake.upkeep.verify.findings import Finding
from singerlake.work.parallel import THREADS, in_parallel

_COLUMNS = (
    Column("TAP", folds=True),
    Column("STREAM", folds=True),
    Column("VERSION"),
    Column("HASH"),
    Column("FIRST OFFSET", number=True),
    Column("FIRST SEEN (UTC)"),
    Column("FILES", number=True),
    Column("RECORDS", number=True),
    Column("BYTES", number=True),
    Column("PROPERTIES", number=True),
    Column("KEYS", folds=True),
)


@dataclass(frozen=True, slots=True)
class _StreamVersions:
    """What is said of a stream. ``lineage`` is None where its manifest is missing."""

    lineage: str | None
    floor: int
    next_offset: int
    versions: list[Version]


@click.command(short_help="List the schema versions of streams: since when, from which offset on, how many records.")
@with_lake
@tap_option
@stream_option
@json_option
@click.pass_context
def versions(ctx: click.Context, lake: Lake, tap: str | None, stream: str | None, as_json: bool) -> None:
    """List the schema versions of streams: since when, from which offset on, how many records.

    Reads the manifests and no data file. A version that comes back after others keeps the offset of its first
    appearance; reading from there gives the others too. --json also gives each stream's lineage, within which offsets
    mean the same messages, the floor, which is the oldest offset that did not expire, and the offset after the last
    message. Exits with 1 if a stream's manifest is missing or cannot be read.
    """
    pairs = lake.chosen(tap, stream)
    read = list(in_parallel(lambda pair: (pair, *_looked_at(lake, *pair)), pairs, threads=THREADS))
    findings = [finding for *_, finding in read if finding is not None]
    if as_json:
        streams = [
            {
                "tap": tap,
                "stream": name,
                "lineage": state.lineage if state else None,
                "floor": state.floor if state else None,
                "next_offset": state.next_offset if state else None,
                "versions": state.versions if state else [],
            }
            for (tap, name), state, _ in read
        ]
        said = findings
        say_json({"lake": lake.storage.url, "streams": streams, "findings": said})
    else:
        rows = [(*pair, *_row(version)) for pair, state, _ in read if state for version in state.versions]
        counts = f"{counted(len(pairs), 'stream')}, {counted(len(rows), 'version')}"
        table(_COLUMNS, rows, caption=f"{shown(lake.storage.url)}: {counts}")
        say_findings(findings)
    ctx.exit(1 if findings else 0)


def _looked_at(lake: Lake, tap: str, stream: str) -> tuple[_StreamVersions | None, Finding | None]:
    """The others are read even if one cannot be."""
    there = lake.stream(tap, stream)
    try:
        manifest = there.snapshot()
        return _StreamVersions(manifest.lineage, manifest.floor, manifest.next_offset, versions_of(manifest)), None
    except LakeError as error:
        return None, Finding("manifest", there.prefix, f"{error.message}; {error.hint}")


def _row(version: Version) -> tuple[Any, ...]:
    seen = parse_timestamp(version.first_seen)
    return (
        version.label,
        version.hash,
        f"{version.first_offset:,}",
        minute(seen) if seen else version.first_seen,
        f"{version.files:,}",
        f"{version.records:,}",
        size(version.bytes),
        f"{version.properties:,}",
        ", ".join(version.key_properties),
    )
