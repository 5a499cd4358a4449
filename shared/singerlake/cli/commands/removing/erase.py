"""``singerlake erase``: takes single records out of streams."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import click

from singerlake.cli.engines import engine_options, reader
from singerlake.cli.erasing import say_erased, say_tables
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, shows_first, streams_options, undeclared_option, with_lake
from singerlake.cli.output import counted, json_of, progress, say, say_failure, say_findings, show, shown
from singerlake.conditions import parse_where
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.upkeep.erase.streams import EraseStreamsResult

WHERE = (
    'Which records: "email = \'a@b.c\'", "user.id in (1, 2)", "at < \'2020-01-01T00:00:00Z\'", "id in @FILE" with a '
    "value on each line."
)
_OTHERS = 8
"""Properties that are like those of the condition, which a line names."""
_NOW = "With --delete: delete the files that held the records at once. Readers that still read them fail."


@examples(
    "singerlake erase lake --where 'user_id = 7'",
    "singerlake erase lake --where 'user_id = 7' --delete --report erased.json",
)
@command("Erase records that a condition means; gc deletes the files that held them.")
@partial(with_lake, stores=True)
@streams_options
@click.option("--where", metavar="CONDITION", required=True, help=WHERE)
@shows_first("--delete", "Erase", now=_NOW)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --delete: write into a new FILE, as JSON, who erased, when, how much from each stream, and how long the "
    "rest is kept.",
)
@undeclared_option
@engine_options
@result_options
def erase(lake: Lake, where: str, report: Path | None, engine: str, threads: int, **asked: Any) -> int:
    """Erase the records that a condition means, from all streams whose versions declare what it names.

    Shows what would be erased; erases only with --delete. Every other message keeps its offset, and bookmarks and
    checkpoints stay valid. From then on no reader finds the records. The files that held them stay until 'singerlake gc
    --delete' has deleted them, which takes two runs, a grace time apart; with --now they go at once. Tables made from
    the stream are made anew by their next run, and 'singerlake project gc --delete' deletes their files of before;
    'singerlake verify --erased' says when nothing holds such a record any more.
    Exits with 1 if a file could not be read or written again.
    """
    condition = parse_where(where, "--where")
    if report is not None and asked["dry_run"]:
        click.echo("note: --report is written with --delete", err=True)
        report = None
    with _Written(report) as written, reader(engine, lake, threads) as reads, progress() as bar:
        result = lake.erase(condition, engine=reads, progress=bar, erased=written.keep, **asked)
    show(result, _say)
    errors = [each.error for each in result.failed] + [one.error for one in result.streams if one.error is not None]
    return exit_code(errors, [finding for one in result.streams for finding in one.findings])


def _say(result: EraseStreamsResult) -> None:
    several = len(result.streams) + len(result.skipped) + len(result.failed) > 1
    for one in result.streams:
        say_erased(one, always=bool(one.unowned or one.deleted.files or not several))
        say_findings(one.findings)
    say_tables(result.streams)
    for each in result.failed:
        say_failure(each, "not erased")
    if several:
        held = sum(1 for one in result.streams if one.messages)
        records = counted(sum(one.records for one in result.streams), "record")
        erased = "would be erased" if result.dry_run else "erased"
        without = f"; {counted(len(result.skipped), 'stream')} without such a property" if result.skipped else ""
        say(f"{records} {erased} in {counted(held, 'stream')}{without}")
    others = Counter(name for each in result.skipped for name in each.similar)
    if others:
        listed = ", ".join(
            f"{shown(name)} in {counted(count, 'stream')}" for name, count in others.most_common(_OTHERS)
        )
        say(f"  other streams have {listed}: erase by these, too, if they may hold the same")


class _Written:
    """The file of ``--report``, made before anything is erased. It has what was done also after an error."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._done: EraseStreamsResult | None = None

    def keep(self, done: EraseStreamsResult) -> None:
        """Take the place of what was done before."""
        self._done = done

    def __enter__(self) -> _Written:
        if self._path is not None:
            try:
                self._path.open("x").close()
            except OSError as error:
                reason = (error.strerror or "").lower()
                raise SettingError(f"--report cannot be written: {reason}", hint="name a new file") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is None:
            return
        if self._done is None:
            self._path.unlink()
        else:
            self._path.write_text(json.dumps(json_of(self._done), indent=2) + "\n")
