"""``singerlake release``: the records of a quarantine, for the target once more."""

from __future__ import annotations

import shlex
import sys

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import data_options, one_stream_options, with_lake
from singerlake.cli.output import is_asked
from singerlake.errors import SettingError
from singerlake.format.exact_json import encode
from singerlake.format.quarantine import quarantine_of, released
from singerlake.format.state.selection import schema_in_force, slices
from singerlake.humanize import counted, shown
from singerlake.lake import Lake


@examples(
    "singerlake release lake --stream users -q",
    "singerlake release lake --tap my-tap --stream users",
)
@command("Print the records of a stream's quarantine for the target once more.")
@with_lake
@one_stream_options
@data_options
def release(lake: Lake, tap: str | None, stream: str | None) -> None:
    """Print the records that 'invalid_records: quarantine' kept beside a stream, as messages of that stream.

    Pipe them to target-singerlake. They come behind the newest SCHEMA of the stream, to be looked at once more; what
    does not match yet goes to the quarantine again. The quarantine itself stays as it is: the command names the
    'singerlake expire' that empties it, for when the target has taken the messages.
    """
    there = lake.one_stream(tap, stream)
    kept = lake.existing_stream(there.tap, quarantine_of(there.name))
    state, schema = kept.snapshot(), schema_in_force(there.snapshot())
    if schema is None:
        raise SettingError("the stream has no SCHEMA", hint="capture it once, then release", stream=there.name)
    first = {"type": "SCHEMA", "stream": there.name, "schema": schema.schema, "key_properties": schema.key_properties}
    _write(encode(first) + b"\n")
    count = 0
    for part in slices(state):
        for block in kept.read(part):
            for _, line in block.lines():
                _write(released(line, there.name) + b"\n")
                count += 1
    if not is_asked("quiet"):
        meant = ("--tap", kept.tap, "--stream", kept.name, "--before-offset", str(state.next_offset))
        emptied_by = shlex.join(["singerlake", "expire", lake.storage.url, *meant, "--delete"])
        click.echo(
            f"{counted(count, 'record')} released; once the target has ended with success, empty the quarantine by\n"
            f"  {shown(emptied_by)}",
            err=True,
        )


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
