"""``singerlake ls``: what a lake holds, from its manifests alone, and the commits of its atomic runs."""

from __future__ import annotations

import logging
from typing import Any

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, streams_options, with_lake
from singerlake.cli.output import SEE_BELOW, counted, lake_named, minute, say_troubles, second, show, shown, size, table
from singerlake.clock import parse_timestamp
from singerlake.lake import Lake
from singerlake.stores.atomic.decisions import Commit
from singerlake.upkeep.policy import odd_rules
from singerlake.upkeep.reports.census import Census, ContentsResult

logger = logging.getLogger(__name__)

_COLUMNS = ("TAP", "STREAM", "VERSIONS", ">FILES", ">RECORDS", ">BYTES", "LAST WRITE (UTC)")
_ATTACHED = (">ATTACHED", ">ATTACHED BYTES")
"""Shown where any stream has attached files."""
_COMMITS = ("TAP", "COMMIT", "DECIDED (UTC)", "RUN", ">STREAMS", ">MESSAGES")


@examples("singerlake ls lake", "singerlake ls s3://bucket/lake --tap 'pg_*' --json")
@command("List taps and streams with their versions, files, records, bytes and last write.")
@with_lake
@streams_options
@click.option("--commits", is_flag=True, help="List the commits of atomic runs instead, the newest last.")
@click.option("--all", "every", is_flag=True, help="With --commits: also runs that were decided against.")
@result_options
def ls(lake: Lake, tap: str | None, stream: str | None, commits: bool, every: bool) -> int:
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
        listed = {name: lake.commits(name, aborted=every) for name in lake.chosen_taps(tap)}
        taps = [{"tap": tap, "commits": list(map(_commit_json, each))} for tap, each in listed.items()]
        show({"lake": lake.storage.url, "taps": taps}, lambda _: _say_commits(lake, listed))
        return 0
    contents = lake.contents(tap, stream)
    for odd in odd_rules(lake.root_metadata(), [each.tap for each in contents.taps]):
        if odd.problem:
            logger.warning("%s: %s", odd.key, shown(odd.message))
    show(contents, _say)
    return 1 if any(stream.trouble for stream in contents.streams) else 0


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
    table(columns, rows, caption=f"{lake_named(contents.lake)}: {', '.join(counts)}")
    say_troubles(streams)


def _say_commits(lake: Lake, taps: dict[str, list[Commit]]) -> None:
    every = [commit for commits in taps.values() for commit in commits]
    taken_place = [commit for commit in every if commit.committed]
    messages = sum(commit.messages for commit in taken_place)
    counts = [counted(len(taken_place), "commit"), counted(messages, "message")]
    if against := len(every) - len(taken_place):
        counts.append(f"{counted(against, 'run')} decided against")
    rows = (_commit_row(tap, commit) for tap, commits in taps.items() for commit in commits)
    table(_COMMITS, rows, caption=f"{lake_named(lake.storage.url)}: {', '.join(counts)}")


def _commit_row(tap: str, commit: Commit) -> tuple[str, ...]:
    moment = parse_timestamp(commit.at)
    at = second(moment) if moment else commit.at
    if not commit.committed:
        return tap, commit.name, at, commit.run or "", "", "decided against"
    return tap, commit.name, at, commit.run or "", f"{len(commit.streams):,}", f"{commit.messages:,}"


def _commit_json(commit: Commit) -> dict[str, Any]:
    streams = {name: _fields(each, "lineage", "offset", "end", "messages") for name, each in commit.streams.items()}
    return {**_fields(commit, "name", "at", "run", "writer", "committed", "messages"), "streams": streams}


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


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
