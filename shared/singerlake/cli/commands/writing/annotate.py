"""``singerlake annotate``: what people say of a tap."""

from __future__ import annotations

from typing import Any

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, tap_named, with_lake
from singerlake.cli.output import say, show, shown
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.upkeep.annotate import NotesResult


@examples(
    "singerlake annotate lake --tap my-tap",
    "singerlake annotate lake --tap my-tap --owner Ada --link wiki=https://example.com",
)
@command("Say who owns a tap, what it is and where to read on, or show what is said.")
@with_lake
@tap_named("The tap to annotate. Not needed where the lake has one.")
@click.option("--owner", metavar="TEXT", help="Who owns it; '' removes the owner.")
@click.option("--description", metavar="TEXT", help="What it is; '' removes the description.")
@click.option("--link", "links", metavar="NAME=URL", multiple=True, help="A page about it; may be repeated.")
@click.option("--unlink", metavar="NAME", multiple=True, help="Remove a link; may be repeated.")
@result_options
def annotate(lake: Lake, tap: str | None, links: tuple[str, ...], **asked: Any) -> None:
    """Note who owns a tap, what it is and where to read on; without such an option, show the notes.

    The notes are in the lake's singerlake.json. Every run and every rebuild keeps them.
    """
    named = dict(map(_link, links))
    show(lake.annotate(lake.one_tap(tap), links=named, **asked), _say)


def _say(notes: NotesResult) -> None:
    for name, text in {"tap": notes.tap, "owner": notes.owner, "description": notes.description, **notes.links}.items():
        if text:
            say(f"{shown(name)}: {shown(text)}")


def _link(text: str) -> tuple[str, str]:
    name, equals, url = text.partition("=")
    if not equals:
        raise SettingError(f"--link {text!r} has no '='", hint="write --link NAME=URL")
    return name.strip(), url.strip()
