"""``singerlake rebuild``: brings manifests, catalogues and root metadata in line with the data files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from singerlake.cli.engines import engine_options, reader
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.journals import journal_option, left_out
from singerlake.cli.options import result_options, shows_first, streams_options, with_lake
from singerlake.cli.output import counted, is_asked, name_of, progress, say, say_findings, show, shown
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.upkeep.rebuild.rebuild_lake import RebuildResult, StreamRebuild

_SAID = {"mended": "corrected in the manifest"}
"""How a kind of difference is called, if not by its name: a file is taken as it is."""


@examples("singerlake rebuild lake", "singerlake rebuild lake --tap my-tap --yes")
@command("Make manifests, catalogues and root metadata again from the data files.")
@partial(with_lake, stores=True)
@streams_options
@shows_first("--yes", "Write them")
@click.option("--adopt", is_flag=True, help="Add sound files that a readable manifest does not list, after the others.")
@click.option(
    "--discard-manifest",
    is_flag=True,
    help="Make the manifest again even if there is one, damaged or not. Offsets then begin a new lineage.",
)
@result_options
@engine_options
@journal_option
def rebuild(lake: Lake, engine: str, threads: int, journal: Path | None, **asked: Any) -> int:
    """Make manifests, catalogues and root metadata again from the data files.

    Shows the difference; writes only with --yes. A missing manifest is made from the data files alone. A readable one
    keeps its offsets, and only wrong entries are corrected. One that cannot be read is left alone, unless you give
    --discard-manifest. Annotations stay. Exits with 1 if something is left that a person should look at.
    """
    if asked["adopt"] and asked["discard_manifest"]:
        raise SettingError("--adopt and --discard-manifest exclude each other", hint="discarding lists every file")
    as_json = is_asked("json")
    with reader(engine, lake, threads) as reads, progress() as report:
        result = lake.rebuild(
            journal=journal,
            file_ids=as_json,
            engine=reads,
            progress=report,
            planned=_say_difference if not as_json else lambda _: None,
            **asked,
        )
    show(result, partial(_say, journal))
    return exit_code((), result.findings)


def _say(journal: Path | None, result: RebuildResult) -> None:
    for one in result.streams:
        say(f"{name_of(one)}: {_outcome(one, result.dry_run)}")
    for name in result.metadata:
        say(f"{shown(name)}: {'would be written' if result.dry_run else 'written'}")
    if journal:
        say(left_out(journal, result.noted, result.read))
    say_findings(result.findings)


def _say_difference(one: StreamRebuild) -> None:
    """How many files of each kind differ, and the first of them; then whether offsets mean other messages."""
    say(f"{name_of(one)}: difference")
    for kind, totals in one.changes.items():
        if totals.files.files:
            say(f"  {_SAID.get(kind, kind)}: {counted(totals.files.files, 'file')}")
            say(*(f"    {shown(path)}" for path in totals.paths))
            if totals.files.files > len(totals.paths):
                say(f"    and {totals.files.files - len(totals.paths):,} more")
    if one.new_lineage:
        say("  under a new lineage")


def _outcome(one: StreamRebuild, dry_run: bool) -> str:
    holds = f"{counted(one.files, 'file')}, {counted(one.messages, 'message')}, {counted(len(one.versions), 'version')}"
    if not one.changed:
        return "no data files" if one.anew else f"unchanged, {holds}"
    verb = "would be" if dry_run else "was"
    if one.anew:
        return f"{verb} made anew, {holds}"
    changes = [
        f"{totals.files.files} {_SAID.get(kind, kind)}" for kind, totals in one.changes.items() if totals.files.files
    ]
    lineage = ", under a new lineage" if one.new_lineage else ""
    return f"{verb} changed ({', '.join(changes) or 'same files'}{lineage}), {holds}"
