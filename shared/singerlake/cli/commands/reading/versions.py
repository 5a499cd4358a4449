"""``singerlake versions``: the schema versions of streams, in the order in which they came."""

from __future__ import annotations

from typing import Any

from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, streams_options, with_lake
from singerlake.cli.output import counted, lake_named, minute, say_findings, show, size, table
from singerlake.clock import parse_timestamp
from singerlake.lake import Lake
from singerlake.upkeep.reports.history import Version, VersionsResult

_NUMBERS = (">FILES", ">RECORDS", ">BYTES", ">PROPERTIES")
_COLUMNS = ("TAP", "STREAM", "VERSION", "HASH", ">FIRST OFFSET", "FIRST SEEN (UTC)", *_NUMBERS, "KEYS")


@examples("singerlake versions lake", "singerlake versions lake --stream users")
@command("List the schema versions of streams: since when, from which offset on, how many records.")
@with_lake
@streams_options
@result_options
def versions(lake: Lake, tap: str | None, stream: str | None) -> int:
    """List the schema versions of streams: since when, from which offset on, how many records.

    Reads the manifests and no data file. A version that comes back after others keeps the offset of its first
    appearance; reading from there gives the others too. --json also gives each stream's lineage, within which offsets
    mean the same messages, the floor, which is the oldest offset that did not expire, and the offset after the last
    message. Exits with 1 if a stream's manifest is missing or cannot be read.
    """
    result = lake.versions(tap, stream)
    show(result, _say)
    return 1 if result.findings else 0


def _say(result: VersionsResult) -> None:
    rows = [(each.tap, each.stream, *_row(version)) for each in result.streams for version in each.versions]
    counts = f"{counted(sum(not each.dropped for each in result.streams), 'stream')}, {counted(len(rows), 'version')}"
    table(_COLUMNS, rows, caption=f"{lake_named(result.lake)}: {counts}")
    say_findings(result.findings)


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
