"""``singerlake docs``: a static site about a lake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from singerlake.cli.help import Documented, examples
from singerlake.cli.options import result_options, streams_options, threads_option, with_lake
from singerlake.cli.output import counted, progress, say, show, shown
from singerlake.lake import Lake
from singerlake.site.build import SiteResult, build_site

_SAMPLES = 5


def samples_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--samples and --mask."""
    mask = click.option(
        "--mask",
        multiple=True,
        metavar="NAME",
        help="Hide the values of this property in samples, or of those that match a pattern, as '*email*'. Repeatable.",
    )
    samples = click.option(
        "--samples",
        type=click.IntRange(0, _SAMPLES),
        default=0,
        show_default=True,
        metavar="N",
        help=f"Show the values of the newest N records of each stream, {_SAMPLES} at most. They may be secret.",
    )
    return samples(mask(function))


@click.group()
def docs() -> None:
    """Make a site that shows a lake to people."""


@examples("singerlake docs build lake", "singerlake docs build lake -o site --samples 3")
@docs.command(
    "build", cls=Documented, short_help="Write a static site: taps, streams, schemas and their changes, growth, tables."
)
@with_lake
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("site"),
    show_default=True,
    metavar="FOLDER",
    help="Where the site goes: a new or empty folder, or that of an earlier build.",
)
@streams_options
@click.option("--title", metavar="TEXT", help="What the lake is called on the pages. Default: the end of its root.")
@samples_options
@click.option("--beside", is_flag=True, help="The folder may hold other files; they are never overwritten.")
@result_options
@threads_option("Streams read at once.")
def build_command(lake: Lake, output: Path, **asked: Any) -> int:
    """Write a static site about a lake, which a browser reads from a disk or from any web server.

    Reads the manifests and the states of tables. Of the data files it reads only the samples that --samples asks for.
    Exits with 1 if a stream or a table cannot be read: its page says why, and the others are there.
    """
    with progress("") as report:
        built = build_site(lake, output, progress=report, **asked)

    def tell(built: SiteResult) -> None:
        for each in built.troubles:
            say(f"{shown(each.what)}: {shown(each.trouble)}", problem=True)
        gone = f", {counted(len(built.removed), 'file')} of an earlier build deleted" if built.removed else ""
        say(f"{counted(len(built.pages), 'page')}{gone}; open {shown(str(output / 'index.html'))}")

    show(built, tell)
    return 1 if built.troubles else 0
