"""``singerlake ls``: what a lake holds, from its manifests alone, and the commits of its atomic runs."""

from __future__ import annotations

import logging
from typing import Any

import click

from singerlake.cli.help import Documented
from singerlake.cli.options import json_option, stream_option, tap_option, with_lake
from singerlake.cli.output import SEE_BELOW, Column, counted, minute, say_json, say_troubles, second, shown, size, table
from singerlake.clock import parse_timestamp
from singerlake.lake import Lake
from singerlake.stores.atomic.decisions import Commit
from singerlake.upkeep.policy import odd_rules
from singerlake.upkeep.reports.census import Census, ContentsResult

logger = logging.getLogger(__name__)

_COLUMNS = (
    Column("TAP"),
    Column("STREAM"),
    Column("VERSIONS"),
    Column("FILES", number=True),
    Column("RECORDS", number=True),
    Column("BYTES", number=True),
    Column("LAST WRITE (UTC)"),
)
_ATTACHED = (Column("ATTACHED", number=True), Column("ATTACHED BYTES", number=True))
"""Shown where any stream has attached files."""
_COMMITS = (
    Column("TAP"),
    Column("COMMIT"),
    Column("DECIDED (UTC)"),
    Column("RUN"),
    Column("STREAMS", number=True),
    Column("MESSAGES", number=True),
)


@click.command(
    short_help="List taps and streams with their versions, files, records, bytes and last write.",
    cls=Documented,
    examples=("singerlake ls lake", "singerlake ls s3://bucket/lake --tap 'pg_*' --json"),
)
@with_lake
@tap_option
@stream_option
@click.option("--commits", is_flag=True, help="List the commits of atomic runs instead, the newest last.")
@click.option("--all", "every", is_flag=True, help="With --commits: also runs that were decided against.")
@json_option
@click.pass_context
def ls(
    ctx: click.Context,
    lake: Lake,
    tap: str | None,
    stream: str | None,
    commits: bool,
    every: bool,
    as_json: bool,
) -> None:
    """List taps and streams with their versions, files, records, bytes and last write.

    Reads the manifests and no data file. Streams without a version are left out. ATTACHED counts the files that are
    attached to records, each content once. Exits with 1 where a stream's manifest is missing or cannot be read. Warns
    of a policy that cannot be read.
    """
    if every and not commits:
        raise click.UsageError("--all needs --commits")
    if commits and stream is not None:
        raise click.UsageError("--commits is about taps; leave --stream out")
    if commits:
        _list_commits(lake, {name: lake.commits(name, aborted=every) for name in lake.chosen_taps(tap)}, as_json)
        return
    contents = lake.contents(tap, stream)
    for odd in odd_rules(lake.root_metadata(), [each.tap for each in contents.taps]):
        if odd.problem:
            logger.warning("%s: %s", odd.key, shown(odd.message))
    if as_json:
        say_json(contents)
    else:
        _say(contents)
    ctx.exit(1 if any(stream.trouble for stream in contents.streams) else 0)


def _say(contents: ContentsResult) -> None:
    streams = contents.streams
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
    table(columns, rows, caption=f"{shown(contents.lake)}: {', '.join(counts)}")
    say_troubles((f"{each.tap}/{each.stream}", each.trouble) for each in streams if each.trouble)


def _list_commits(lake: Lake, taps: dict[str, list[Commit]], as_json: bool) -> None:
    if as_json:
        listed = [{"tap": tap, "commits": [_commit_json(each) for each in commits]} for tap, commits in taps.items()]
        say_json({"lake": lake.storage.url, "taps": listed})
        return
    every = [commit for commits in taps.values() for commit in commits]
    taken_place = [commit for commit in every if commit.committed]
    counts = [
        counted(len(taken_place), "commit"),
        counted(sum(commit.messages for commit in taken_place), "message"),
    ]
    if against := len(every) - len(taken_place):
        counts.append(f"{counted(against, 'run')} decided against")
    rows = (_commit_row(tap, commit) for tap, commits in taps.items() for commit in commits)
    table(_COMMITS, rows, caption=f"{shown(lake.storage.url)}: {', '.join(counts)}")


def _commit_row(tap: str, commit: Commit) -> tuple[str, ...]:
    moment = parse_timestamp(commit.at)
    at = second(moment) if moment else commit.at
    if not commit.committed:
        return tap, commit.name, at, commit.run or "", "", "decided against"
    return tap, commit.name, at, commit.run or "", f"{len(commit.streams):,}", f"{commit.messages:,}"


def _commit_json(commit: Commit) -> dict[str, Any]:
    streams = {
        name: {"lineage": each.lineage, "offset": each.offset, "end": each.end, "messages": each.messages}
        for name, each in commit.streams.items()
    }
    return {
        "name": commit.name,
        "at": commit.at,
        "run": commit.run,
        "writer": commit.writer,
        "committed": commit.committed,
        "messages": commit.messages,
        "streams": streams,
    }


def _attached(stream: Census) -> tuple[str, str]:
    return (f"{stream.attached:,}", size(stream.attached_bytes)) if stream.attached else ("", "")


def _row(stream: Census) -> tuple[str, ...]:
    if stream.trouble:
        return stream.tap, stream.stream, SEE_BELOW, "", "", "", ""
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
