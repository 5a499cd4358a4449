"""``singerlake verify``: holds everything on storage against what the metadata says."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from singerlake.cli.engines import engine_options, reader
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.journals import journal_option, left_out, part
from singerlake.cli.options import result_options, streams_options, undeclared_option, with_lake
from singerlake.cli.output import counted, files, progress, say, say_findings, show, shown, size
from singerlake.conditions import parse_where
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.upkeep.result import KINDS, Tally
from singerlake.upkeep.verify import VerifyResult


@examples("singerlake verify lake", "singerlake verify lake --journal verify.journal --quiet")
@command("Check every file's bytes, checksum, counts and schema; --erased proves an erasure.")
@partial(with_lake, damaged=True)
@streams_options
@result_options
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
def verify(
    lake: Lake, engine: str, threads: int, journal: Path | None, erased: str | None, undeclared: bool, **asked: Any
) -> int:
    """Check every listed file's bytes, checksum, counts and schema, reading each file whole.

    Also reports files that no manifest lists, and metadata that cannot be read. Writes one line for each finding and
    exits with 1; notes need no action and do not count. Changes nothing in the lake.
    """
    if asked["seed"] is not None and asked["sample"] is None:
        raise SettingError("--seed is given without --sample", hint="give both")
    condition = None if erased is None else parse_where(erased, "--erased")
    if undeclared and condition is None:
        raise SettingError("--undeclared is given without --erased", hint="give both")
    with reader(engine, lake, threads) as reads, progress() as report:
        result = lake.verify(
            journal=journal, erased=condition, undeclared=undeclared, engine=reads, progress=report, **asked
        )
    show(result, partial(_say, journal, erased))
    return exit_code((), result.findings)


def _say(journal: Path | None, erased: str | None, result: VerifyResult) -> None:
    say_findings(result.findings)
    say(f"{_verdict(result)}: {_checked(result)}")
    if result.traces is not None:
        # As it was written: a file of values is not listed.
        objects = counted(result.traces.objects, "object")
        say(f"  {shown(erased or '')}: {counted(result.traces.records, 'record')} found, {objects} looked into")
    say(*_left(result, journal))


def _verdict(result: VerifyResult) -> str:
    if result.sound:
        return f"sound, {counted(len(result.findings), 'note')}" if result.findings else "sound"
    return counted(sum(finding.problem for finding in result.findings), "finding")


def _checked(result: VerifyResult) -> str:
    more = f", {files(result.attached, result.attached)}" if result.attached.files else ""
    return (
        f"{counted(sum(not each.dropped for each in result.streams), 'stream')}, {counted(result.files, 'file')}, "
        f"{counted(result.messages, 'message')}, {size(result.bytes)}{more} checked"
    )


def _left(result: VerifyResult, journal: Path | None) -> Iterator[str]:
    """What was not read of what was checked, a line for each reason."""
    if result.seed is not None:
        drawn = part(result.read + result.noted, Tally(result.files, result.bytes))
        yield f"  drawn by --seed {shown(result.seed)}: {drawn}; of the others only presence and size"
    if journal:
        yield left_out(journal, result.noted, result.read)
