"""``singerlake policy``: how long the streams of a lake are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from singerlake.cli.options import chosen_taps, json_option, tap_option, with_lake
from singerlake.cli.output import say, say_json, shown
from singerlake.cli.retention import in_words, retention_options
from singerlake.errors import UnknownNameError
from singerlake.format.metadata.retention import ALL_OTHERS, Retention, Rule
from singerlake.format.metadata.root import RootMetadata
from singerlake.lake import Lake
from singerlake.upkeep.policy import retentions, rule_of, set_retention


@click.group(short_help="Say how long streams are kept; gc expires what is older.")
def policy() -> None:
    """Say how long streams are kept; 'singerlake gc --delete' expires what is older."""


@policy.command("ls", short_help="Show how long streams are kept.")
@with_lake
@tap_option
@json_option
def ls(lake: Lake, tap: str | None, as_json: bool) -> None:
    """Show how long streams are kept. A stream that no policy means is kept for ever."""
    metadata = lake.root_metadata()
    taps = chosen_taps(lake, tap)
    if as_json:
        say_json({"lake": lake.storage.url, "taps": {name: _as_written(metadata, name) for name in taps}})
        return
    rules = {name: retentions(metadata, name) for name in taps}
    lines = [_line(name, stream, rule) for name, found in rules.items() for stream, rule in found.items()]
    for line in lines or ["everything is kept for ever"]:
        say(line)


@policy.command("set", short_help="Say how long a stream, or each stream of a tap, is kept.")
@with_lake
@click.option("--tap", metavar="TAP", required=True, help="The tap.")
@click.option(
    "--stream", metavar="STREAM", help="The stream. Default: all of the tap that have no policy of their own."
)
@retention_options
@json_option
def set_(
    lake: Lake, tap: str, stream: str | None, older_than: str | None, keep_versions: int | None, as_json: bool
) -> None:
    """Say how long a stream is kept, or all streams of a tap that have no policy of their own.

    Nothing expires until the next 'singerlake gc --delete'. The policy is in the lake's singerlake.json.
    """
    retention = rule_of(older_than, keep_versions)
    if retention is None:
        raise click.UsageError("give --older-than or --keep-versions or both")
    _set(lake, tap, stream, retention, as_json)


@policy.command("unset", short_help="Take the policy of a stream or of a tap away.")
@with_lake
@click.option("--tap", metavar="TAP", required=True, help="The tap.")
@click.option("--stream", metavar="STREAM", help="The stream. Default: the policy of all others of the tap.")
@json_option
def unset(lake: Lake, tap: str, stream: str | None, as_json: bool) -> None:
    """Take away the policy of a stream, or that of all others of a tap."""
    there = retentions(lake.root_metadata(), tap)
    # An empty name is none: a script whose variable is empty does not mean all others.
    if stream == ALL_OTHERS or (stream or ALL_OTHERS) not in there:
        raise UnknownNameError(
            "there is no such policy", hint="'singerlake policy ls' shows which there are", tap=tap, stream=stream
        )
    _set(lake, tap, stream, None, as_json)


def _set(lake: Lake, tap: str, stream: str | None, retention: Retention | None, as_json: bool) -> None:
    if retention is not None and stream is not None:
        lake.existing_stream(tap, stream)
    elif retention is not None:
        lake.existing_streams(tap)
    set_retention(lake.storage, tap, stream or ALL_OTHERS, retention)
    metadata = lake.root_metadata()
    found: Mapping[str, Rule] = retentions(metadata, tap)
    if as_json:
        say_json({"lake": lake.storage.url, "tap": tap, "retention": _as_written(metadata, tap)})
        return
    for name, rule in found.items():
        say(_line(tap, name, rule))
    if not found:
        say(f"{shown(tap)}: everything is kept for ever")


def _as_written(metadata: RootMetadata | None, tap: str) -> Any:
    notes = metadata.taps.get(tap) if metadata is not None else None
    return notes.retention if notes is not None else {}


def _line(tap: str, stream: str, rule: Rule) -> str:
    name = f"{shown(tap)}/{shown(stream)}" if stream else f"{shown(tap)}, all other streams"
    return f"{name}: {in_words(rule)}"
