"""``singerlake export``: all that is known of a lake without its data, as one JSON document."""

from __future__ import annotations

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import data_options, streams_options, with_lake
from singerlake.cli.output import say_json
from singerlake.lake import Lake


@examples("singerlake export lake", "singerlake export lake --tap my-tap --runs 1")
@command("Write all that is known of a lake without its data as one JSON document.")
@with_lake
@streams_options
@click.option("--runs", type=click.IntRange(0), default=3, show_default=True, help="How many runs of each stream.")
@data_options
def export(lake: Lake, tap: str | None, stream: str | None, runs: int) -> int:
    """Write all metadata of a lake as one JSON document on standard output.

    It has the notes of each tap, and the versions, counts and last runs of each stream, from the manifests. Exits with
    1 if a stream's manifest is missing or cannot be read; the stream's entry says so.
    """
    result = lake.export(tap, stream, runs=runs)
    say_json(result)
    return 1 if result.unread else 0
