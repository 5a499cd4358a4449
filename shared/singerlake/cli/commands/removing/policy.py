"""``singerlake policy``: how long the streams of a lake are kept."""

from __future__ import annotations

import click

from singerlake.cli import completion
from singerlake.cli.help import Documented
from singerlake.cli.options import json_option, tap_option, with_lake
from singerlake.cli.output import say, say_json, shown
from singerlake.cli.retention import in_words, retention_options
from singerlake.format.metadata.retention import Rule
from singerlake.lake import Lake
from singerlake.upkeep.policy import PolicyResult


@click.group(short_help="Say how long streams are kept; gc expires what is older.")
def policy() -> None:
    """Say how long streams are kept; 'singerlake gc --delete' expires what is older."""


@policy.command(
    "ls",
    short_help="Show how long streams are kept.",
    cls=Documented,
    examples=("singerlake policy ls lake", "singerlake policy ls lake --tap my-tap --json"),
)
@with_lake
@tap_option
@json_option
def ls(lake: Lake, tap: str | None, as_json: bool) -> None:
    """Show how long streams are kept. A stream that no policy means is kept for ever."""
    found = lake.policies(tap)
    if as_json:
        say_json(found)
        return
    lines = [_line(name, stream, rule) for name, rules in found.rules.items() for stream, rule in rules.items()]
    for line in lines or ["everything is kept for ever"]:
        say(line)


@policy.command(
    "set",
    short_help="Say how long a stream, or each stream of a tap, is kept.",
    cls=Documented,
    examples=(
        "singerlake policy set lake --tap my-tap --older-than 400d",
        "singerlake policy set lake --tap my-tap --stream events --keep-versions 2",
    ),
)
@with_lake
@click.option(
    "--tap", metavar="GLOB", shell_complete=completion.taps, help="The tap. Not needed where the lake has one."
)
@click.option(
    "--stream", metavar="STREAM", help="The stream. Default: all of the tap that have no policy of their own."
)
@retention_options
@json_option
def set_(
    lake: Lake, tap: str | None, stream: str | None, older_than: str | None, keep_versions: int | None, as_json: bool
) -> None:
    """Say how long a stream is kept, or all streams of a tap that have no policy of their own.

    Nothing expires until the next 'singerlake gc --delete'. The policy is in the lake's singerlake.json.
    """
    if older_than is None and keep_versions is None:
        raise click.UsageError("give --older-than or --keep-versions or both")
    _say(lake.set_policy(lake.one_tap(tap), stream, older_than=older_than, keep_versions=keep_versions), as_json)


@policy.command(
    "unset",
    short_help="Take the policy of a stream or of a tap away.",
    cls=Documented,
    examples=("singerlake policy unset lake --tap my-tap", "singerlake policy unset lake --tap my-tap --stream events"),
)
@with_lake
@click.option("--tap", metavar="TAP", required=True, shell_complete=completion.taps, help="The tap, which may be gone.")
@click.option("--stream", metavar="STREAM", help="The stream. Default: the policy of all others of the tap.")
@json_option
def unset(lake: Lake, tap: str, stream: str | None, as_json: bool) -> None:
    """Take away the policy of a stream, or that of all others of a tap."""
    _say(lake.unset_policy(tap, stream), as_json)


def _say(found: PolicyResult, as_json: bool) -> None:
    if as_json:
        say_json(found)
        return
    for stream, rule in found.rules.items():
        say(_line(found.tap, stream, rule))
    if not found.rules:
        say(f"{shown(found.tap)}: everything is kept for ever")


def _line(tap: str, stream: str, rule: Rule) -> str:
    name = f"{shown(tap)}/{shown(stream)}" if stream else f"{shown(tap)}, all other streams"
    return f"{name}: {in_words(rule)}"
