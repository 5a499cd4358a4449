"""``singerlake policy``: how long the streams of a lake are kept."""

from __future__ import annotations

from typing import Any

import click

from singerlake.cli.help import Documented, examples
from singerlake.cli.options import result_options, tap_named, tap_option, with_lake
from singerlake.cli.output import say, show, shown
from singerlake.cli.retention import in_words, retention_options
from singerlake.format.metadata.retention import Rule
from singerlake.lake import Lake
from singerlake.upkeep.policy import PoliciesResult, PolicyResult


@click.group(short_help="Say how long streams are kept; gc expires what is older.")
def policy() -> None:
    """Say how long streams are kept; 'singerlake gc --delete' expires what is older."""


@examples("singerlake policy ls lake", "singerlake policy ls lake --tap my-tap --json")
@policy.command("ls", cls=Documented, short_help="Show how long streams are kept.")
@with_lake
@tap_option
@result_options
def ls(lake: Lake, tap: str | None) -> None:
    """Show how long streams are kept. A stream that no policy means is kept for ever."""
    show(lake.policies(tap), _say_all)


def _say_all(found: PoliciesResult) -> None:
    lines = [_line(name, stream, rule) for name, rules in found.rules.items() for stream, rule in rules.items()]
    say(*(lines or ["everything is kept for ever"]))


@examples(
    "singerlake policy set lake --tap my-tap --older-than 400d",
    "singerlake policy set lake --tap my-tap --stream events --keep-versions 2",
)
@policy.command("set", cls=Documented, short_help="Say how long a stream, or each stream of a tap, is kept.")
@with_lake
@tap_named("The tap. Not needed where the lake has one.")
@click.option(
    "--stream", metavar="STREAM", help="The stream. Default: all of the tap that have no policy of their own."
)
@retention_options
@result_options
def set_(lake: Lake, tap: str | None, stream: str | None, **asked: Any) -> None:
    """Say how long a stream is kept, or all streams of a tap that have no policy of their own.

    Nothing expires until the next 'singerlake gc --delete'. The policy is in the lake's singerlake.json.
    """
    if asked["older_than"] is None and asked["keep_versions"] is None:
        raise click.UsageError("give --older-than or --keep-versions or both")
    show(lake.set_policy(lake.one_tap(tap), stream, **asked), _say)


@examples("singerlake policy unset lake --tap my-tap", "singerlake policy unset lake --tap my-tap --stream events")
@policy.command("unset", cls=Documented, short_help="Take the policy of a stream or of a tap away.")
@with_lake
@tap_named("The tap, which may be gone.", metavar="TAP", required=True)
@click.option("--stream", metavar="STREAM", help="The stream. Default: the policy of all others of the tap.")
@result_options
def unset(lake: Lake, tap: str, stream: str | None) -> None:
    """Take away the policy of a stream, or that of all others of a tap."""
    show(lake.unset_policy(tap, stream), _say)


def _say(found: PolicyResult) -> None:
    for stream, rule in found.rules.items():
        say(_line(found.tap, stream, rule))
    if not found.rules:
        say(f"{shown(found.tap)}: everything is kept for ever")


def _line(tap: str, stream: str, rule: Rule) -> str:
    name = f"{shown(tap)}/{shown(stream)}" if stream else f"{shown(tap)}, all other streams"
    return f"{name}: {in_words(rule)}"
