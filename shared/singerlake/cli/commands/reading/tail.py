"""``singerlake tail``: the last messages of a stream, and those that come."""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Iterator

import click

from singerlake.cli.exit_codes import ends_by_signal
from singerlake.cli.help import command, examples
from singerlake.cli.options import data_options, follow_options, one_stream_options, with_lake
from singerlake.cli.output import is_asked
from singerlake.format.state.selection import offset_left, slices
from singerlake.humanize import shown
from singerlake.lake import Lake
from singerlake.singer_file import Block
from singerlake.stream import LakeStream

_LAST = 10


@examples("singerlake tail lake --stream users", "singerlake tail lake --stream users -f --json")
@command("Print the last messages of a stream, and with -f those that come.")
@with_lake
@one_stream_options
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(0),
    metavar="N",
    help=f"How many of the last messages to begin with. Default: {_LAST}.",
)
@click.option("--from-offset", type=click.IntRange(0), metavar="N", help="Begin at this offset instead.")
@follow_options("--follow", "-f", does="Go on with the messages that come, until a signal ends it.", every="1s")
@data_options
def tail(
    lake: Lake, tap: str | None, stream: str | None, lines: int | None, from_offset: int | None, follow: float | None
) -> None:
    """Print the last messages of a stream, and with -f those that come.

    The messages are the lines that the tap wrote, in offset order. On a terminal, characters that are not printable are
    shown as escapes. With --json each line is {"offset": N, "message": {...}}. A message that was erased is left out.
    """
    if lines is not None and from_offset is not None:
        raise click.UsageError("give --lines or --from-offset, not both")
    there, terminal, as_json = lake.one_stream(tap, stream), sys.stdout.isatty(), is_asked("json")
    if follow is not None:
        ends_by_signal()
    for block in _blocks(there, _LAST if lines is None else lines, from_offset, follow):
        _write(block, as_json=as_json, terminal=terminal)


def _blocks(stream: LakeStream, lines: int, from_offset: int | None, every: float | None) -> Iterator[Block]:
    """What is to be printed. ``every``: the seconds between two looks for what is new; None: it ends."""
    state = stream.snapshot()
    first = max(state.floor, state.next_offset - lines) if from_offset is None else from_offset
    if every is not None:
        gone = threading.Event()
        threading.Thread(target=_wait_for_the_reader_to_go, args=(gone,), daemon=True).start()
        yield from stream.follow(first, lineage=state.lineage, every=every, until=gone)
        return
    for part in slices(state, offset=offset_left(state, first, skip_expired=False)):
        yield from stream.read(part)


def _wait_for_the_reader_to_go(gone: threading.Event) -> None:
    """Without this, ``tail -f | head`` would end with the first message that comes after ``head`` did."""
    if hasattr(select, "poll"):  # Windows has none.
        pipe = select.poll()
        pipe.register(sys.stdout.fileno(), select.POLLERR)
        pipe.poll()
        gone.set()


def _write(block: Block, *, as_json: bool, terminal: bool) -> None:
    data = block.data
    if as_json:
        data = b"".join(b'{"offset": %d, "message": %s}\n' % pair for pair in block.lines())
    if terminal:
        # A message can hold what moves the cursor or reorders the line.
        data = b"".join(shown(line.decode("utf-8", "replace")).encode() + b"\n" for line in data.split(b"\n")[:-1])
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
