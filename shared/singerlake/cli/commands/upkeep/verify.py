"""``singerlake verify``: holds everything on storage against what the metadata says."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from singerlake.cli.engines import engine_options, reader
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import Documented
from singerlake.cli.journals import journal_option, left_out, part
from singerlake.cli.options import json_option, quiet_option, stream_option, tap_option, undeclared_option, with_lake
from singerlake.cli.output import counted, files, progress, say, say_findings, say_json, shown, size
from singerlake.conditions import parse_where
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.upkeep.result import KINDS, Tally
from singerlake.upkeep.verify import VerifyResult


@click.command(
    short_help="Check every listed file's bytes, checksum, counts and schema.",
    cls=Documented,
    examples=("singerlake verify lake", "singerlake verify lake --journal verify.journal --quiet"),
)
@partial(with_lake, damaged=True)
@tap_option
@stream_option
@json_option
@quiet_option
@click.option(
    "--ignore",
    multiple=True,
    metavar="KIND",
    type=click.Choice(KINDS),
    help="Leave findings of this kind out, such as unlisted; may be repeated.",
)
@engine_options
@click.option(
    "--sample",
    metavar="SHARE",
    help="Read, for example, 10% or 500 of each stream's files; check only presence and size of the others.",
)
@click.option(
    "--seed", metavar="TEXT", help="The seed of --sample: the same text draws the same files. Default: random."
)
@journal_option
@click.option(
    "--erased",
    metavar="CONDITION",
    help="Also look for records that 'singerlake erase --where CONDITION' means, in every object of the streams.",
)
@undeclared_option
@click.pass_context
def verify(
    ctx: click.Context,
    lake: Lake,
    tap: str | None,
    stream: str | None,
    as_json: bool,
    ignore: tuple[str, ...],
    threads: int,
    engine: str,
    sample: str | None,
    seed: str | None,
    journal: Path | None,
    erased: str | None,
    undeclared: bool,
) -> None:
    """Check every listed file's bytes, checksum, counts and schema, reading each file whole.

    Also reports files that no manifest lists, and metadata that cannot be read. Writes one line for each finding and
    exits with 1; notes need no action and do not count. Changes nothing in the lake.
    """
    if seed is not None and sample is None:
        raise SettingError("--seed is given without --sample", hint="give both")
    condition = None if erased is None else parse_where(erased, "--erased")
    if undeclared and condition is None:
        raise SettingError("--undeclared is given without --erased", hint="give both")
    with reader(engine, lake, threads) as reads, progress() as report:
        result = lake.verify(
            tap,
            stream,
            sample=sample,
            seed=seed,
            journal=journal,
            erased=condition,
            undeclared=undeclared,
            ignore=ignore,
            engine=reads,
            progress=report,
        )
    if as_json:
        say_json(result)
    else:
        say_findings(result.findings)
        say(f"{_verdict(result)}: {_checked(result)}")
        for line in _left(result, journal):
            say(line)
    ctx.exit(exit_code((), result.findings))


def _verdict(result: VerifyResult) -> str:
    if result.sound:
        return f"sound, {counted(len(result.findings), 'note')}" if result.findings else "sound"
    return counted(sum(finding.problem for finding in result.findings), "finding")


def _checked(result: VerifyResult) -> str:
    more = f", {files(result.attached, result.attached)}" if result.attached.files else ""
    return (
        f"{counted(len(result.streams), 'stream')}, {counted(result.files, 'file')}, "
        f"{counted(result.messages, 'message')}, {size(result.bytes)}{more} checked"
    )


def _left(result: VerifyResult, journal: Path | None) -> Iterator[str]:
    """What was not read of what was checked, a line for each reason."""
    if result.seed is not None:
        drawn = part(result.read + result.noted, Tally(result.files, result.bytes))
        yield f"  drawn by --seed {shown(result.seed)}: {drawn}; of the others only presence and size"
    if journal:
        yield left_out(journal, result.noted, result.read)
