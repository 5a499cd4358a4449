"""``singerlake compare``: what differs between two captures of one source."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.commands.project.options import require_pyarrow
from singerlake.cli.commands.reading.diff import lines_of
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, result_options, stream_option, with_lake
from singerlake.cli.output import counted, say, show, shown
from singerlake.cli.row_difference import difference_text
from singerlake.lake import Lake
from singerlake.tables.compare.taps import CompareResult, StreamComparison


@examples("singerlake compare lake tap-shop tap-shop-2", "singerlake compare lake old new --stream users --key id")
@command("Compare two captures of one source: schemas, keys and values.")
@partial(with_lake, names=Names(("tap_a", "tap_b")))
@stream_option
@click.option("--key", multiple=True, metavar="NAME", help="A property of the key. Default: the key of each stream.")
@result_options
def compare(lake: Lake, tap_a: str, tap_b: str, stream: str | None, key: tuple[str, ...]) -> int:
    """Compare what two taps captured of one source, stream by stream: the schemas, and the last row of each key, made
    from raw beside the lake.

    Exits with 1 where anything differs. Nothing is written to the lake.
    """
    require_pyarrow()
    found = lake.compare(tap_a, tap_b, stream, key=key)
    show(found, _say)
    return exit_code(each.error for each in found.failed) or (0 if found.same else 1)


def _say(found: CompareResult) -> None:
    for each in found.streams:
        _say_stream(each, found.first, found.second)
    for failure in found.failed:
        say(f"{shown(failure.stream)}: not compared: {shown(str(failure.error))}", problem=True)
    for tap, streams in ((found.first, found.only_first), (found.second, found.only_second)):
        for stream in streams:
            say(f"{shown(stream)}: only {shown(tap)} has it", problem=True)
    differ = sum(not each.same for each in found.streams) + len(found.only_first) + len(found.only_second)
    parts = [f"{counted(differ, 'stream')} with differences"] if differ else []
    parts += [f"{counted(len(found.failed), 'stream')} not compared"] if found.failed else []
    said = ", ".join(parts) or "no difference"
    say(f"{shown(found.first)} and {shown(found.second)}: {said}", problem=not found.same)


def _say_stream(one: StreamComparison, first: str, second: str) -> None:
    counts = ((one.only_first, f"only in {first}"), (one.only_second, f"only in {second}"), (one.changed, "changed"))
    parts = [f"{count:,} {what}" for count, what in counts if count] or ["no row differs"]
    parts += [f"{' and '.join(map(str, one.without_key))} records without a key"] if any(one.without_key) else []
    rows = " and ".join(counted(each, "row") for each in one.rows)
    say(shown(f"{one.stream}: {rows} by {', '.join(one.key)}: {', '.join(parts)}"), problem=not one.same)
    for line in lines_of(one.schema) if one.schema is not None else ():
        say(f"  schema: {shown(line)}", problem=True)
    for name, count in one.columns.items():
        say(f"  {shown(name)}: {counted(count, 'row')}", problem=True)
    for row in one.examples:
        say(f"  {difference_text(row)}", problem=True)
