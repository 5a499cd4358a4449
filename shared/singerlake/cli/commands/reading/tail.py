"""``singerlake tail``: the last messages of a stream, and those that come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta

import click

from singerlake.cli.help import Documented
from singerlake.cli.options import duration, json_option, one_stream_option, one_tap_option, with_lake
from singerlake.format.state.selection import offset_left, slices
from singerlake.humanize import shown
from singerlake.lake import Lake
from singerlake.singer_file import Block
from singerlake.stream import LakeStream

_EVERY = "1s"
_LEAST = timedelta(seconds=1)
_LAST = 10


@click.command(
    short_help="Print the last messages of a stream, and with -f those that come.",
    cls=Documented,
    examples=("singerlake tail lake --stream users", "singerlake tail lake --stream users -f --json"),
)
@with_lake
@one_tap_option
@one_stream_option
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(0),
    metavar="N",
    help=f"How many of the last messages to begin with. Default: {_LAST}.",
)
@click.option("--from-offset", type=click.IntRange(0), metavar="N", help="Begin at this offset instead.")
@click.option("--follow", "-f", is_flag=True, help="Go on with the messages that come, until a signal ends it.")
@click.option(
    "--every",
    "interval",
    type=duration,
    metavar="TIME",
    help=f"How often --follow looks for what is new. Default: {_EVERY}.",
)
@json_option
def tail(
    lake: Lake,
    tap: str | None,
    stream: str | None,
    lines: int | None,
    from_offset: int | None,
    follow: bool,
    interval: timedelta | None,
    as_json: bool,
) -> None:
    """Print the last messages of a stream, and with -f those that come.

    The messages are the lines that the tap wrote, in offset order. On a terminal, characters that are not printable are
    shown as escapes. With --json each line is {"offset": N, "message": {...}}. A message that was erased is left out.
    """
    if lines is not None and from_offset is not None:
        raise click.UsageError("give --lines or --from-offset, not both")
    if interval is not None and not follow:
        raise click.UsageError("--every is for --follow")
    if interval is not None and interval < _LEAST:
        raise click.UsageError("--every is 1s at least")
    there = lake.one_stream(tap, stream)
    every = (interval or duration(_EVERY)).total_seconds() if follow else None
    terminal = sys.stdout.isatty()
    for block in _blocks(there, _LAST if lines is None else lines, from_offset, every):
        _write(block, as_json=as_json, terminal=terminal)


def _blocks(stream: LakeStream, lines: int, from_offset: int | None, every: float | None) -> Iterator[Block]:
    """What is to be printed. ``every``: the seconds between two looks for what is new; None: it ends."""
    state = stream.snapshot()
    first = max(state.floor, state.next_offset - lines) if from_offset is None else from_offset
    if every is not None:
        yield from stream.follow(first, lineage=state.lineage, every=every)
        return
    for part in slices(state, offset=offset_left(state, first, skip_expired=False)):
        yield from stream.read(part)


def _write(block: Block, *, as_json: bool, terminal: bool) -> None:
    data = block.data
    if as_json:
        data = b"".join(b'{"offset": %d, "message": %s}\n' % pair for pair in block.lines())
    if terminal:
        # A message can hold what moves the cursor or reorders the line.
        data = b"".join(shown(line.decode("utf-8", "replace")).encode() + b"\n" for line in data.split(b"\n")[:-1])
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
