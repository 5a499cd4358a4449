"""``singerlake rebuild``: brings manifests, catalogues and root metadata in line with the data files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from singerlake.cli.engines import engine_options, reader
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import Documented
from singerlake.cli.journals import journal_option, left_out
from singerlake.cli.options import json_option, quiet_option, shows_first, stream_option, tap_option, with_lake
from singerlake.cli.output import counted, progress, say, say_findings, say_json, shown
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.upkeep.rebuild.rebuild_lake import StreamRebuild

_SAID = {"mended": "corrected in the manifest"}
"""How a kind of difference is called, if not by its name: a file is taken as it is."""


@click.command(
    short_help="Make manifests, catalogues and root metadata again from the data files.",
    cls=Documented,
    examples=("singerlake rebuild lake", "singerlake rebuild lake --tap my-tap --yes"),
)
@partial(with_lake, stores=True)
@tap_option
@stream_option
@shows_first("--yes", "Write them")
@click.option("--adopt", is_flag=True, help="Add sound files that a readable manifest does not list, after the others.")
@click.option(
    "--discard-manifest",
    is_flag=True,
    help="Make the manifest again even if there is one, damaged or not. Offsets then begin a new lineage.",
)
@json_option
@quiet_option
@engine_options
@journal_option
@click.pass_context
def rebuild(
    ctx: click.Context,
    lake: Lake,
    tap: str | None,
    stream: str | None,
    dry_run: bool,
    adopt: bool,
    discard_manifest: bool,
    as_json: bool,
    threads: int,
    engine: str,
    journal: Path | None,
) -> None:
    """Make manifests, catalogues and root metadata again from the data files.

    Shows the difference; writes only with --yes. A missing manifest is made from the data files alone. A readable one
    keeps its offsets, and only wrong entries are corrected. One that cannot be read is left alone, unless you give
    --discard-manifest. Annotations stay. Exits with 1 if something is left that a person should look at.
    """
    if adopt and discard_manifest:
        raise SettingError("--adopt and --discard-manifest exclude each other", hint="discarding lists every file")
    with reader(engine, lake, threads) as reads, progress() as report:
        result = lake.rebuild(
            tap,
            stream,
            adopt=adopt,
            discard_manifest=discard_manifest,
            journal=journal,
            dry_run=dry_run,
            file_ids=as_json,
            engine=reads,
            progress=report,
            planned=_say_difference if not as_json else lambda _: None,
        )
    if as_json:
        say_json(result)
    else:
        for one in result.streams:
            say(f"{shown(one.tap)}/{shown(one.stream)}: {_outcome(one, dry_run)}")
        for name in result.metadata:
            say(f"{shown(name)}: {'would be written' if dry_run else 'written'}")
        if journal:
            say(left_out(journal, result.noted, result.read))
        say_findings(result.findings)
    ctx.exit(exit_code((), result.findings))


def _say_difference(one: StreamRebuild) -> None:
    """How many files of each kind differ, and the first of them; then whether offsets mean other messages."""
    say(f"{shown(one.tap)}/{shown(one.stream)}: difference")
    for kind, totals in one.changes.items():
        if totals.files.files:
            say(f"  {_SAID.get(kind, kind)}: {counted(totals.files.files, 'file')}")
            for path in totals.paths:
                say(f"    {shown(path)}")
            if totals.files.files > len(totals.paths):
                say(f"    and {totals.files.files - len(totals.paths):,} more")
    if one.new_lineage:
        say("  under a new lineage")


def _outcome(one: StreamRebuild, dry_run: bool) -> str:
    holds = ", ".join(
        (counted(one.files, "file"), counted(one.messages, "message"), counted(len(one.versions), "version"))
    )
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
