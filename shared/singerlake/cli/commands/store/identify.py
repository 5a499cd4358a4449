"""``singerlake store identify``: the id by which databases know a lake."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, with_lake
from singerlake.cli.output import is_asked, say, show, shown
from singerlake.lake import Lake
from singerlake.upkeep.root_file import IdentityResult, naming


@examples("singerlake store identify lake", "singerlake store identify lake --lake-id 0123456789abcdef")
@command("Show or write the id by which databases know the lake.")
@partial(with_lake, damaged=True)
@click.option("--lake-id", metavar="ID", help="Write this id into singerlake.json.")
@result_options
def identify(lake: Lake, lake_id: str | None) -> None:
    """Show or write the id by which databases know the lake.

    It is in singerlake.json, in the manifests, and in the data files. If singerlake.json was lost and made again with
    another id, a database finds no history of the streams: --lake-id puts the former id back. Everything else in that
    file stays. If the streams name an id, any other one is refused.
    """
    if lake_id is not None:
        written = lake.identify(lake_id)
        if not is_asked("json"):
            say(f"lake id {shown(lake_id)}: {'written' if written else 'is there already'}")
            return
    show(lake.identity(), _say)


def _say(found: IdentityResult) -> None:
    say(f"singerlake.json: {'is missing' if found.lake_id is None else shown(found.lake_id)}")
    say(f"streams: {shown(naming(found.streams)) if found.streams else 'name none'}")
