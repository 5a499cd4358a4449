"""``singerlake vacuum``: joins small files."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import Documented
from singerlake.cli.options import json_option, quiet_option, shows_first, stream_option, tap_option, with_lake
from singerlake.cli.output import files, progress, say, say_findings, say_json, shown
from singerlake.lake import Lake
from singerlake.upkeep.defaults import MOST_WAITING, TARGET_BYTES
from singerlake.upkeep.vacuum.vacuum import StreamVacuum
from singerlake.work.parallel import THREADS


@click.command(
    short_help="Join small files of a stream into larger ones; offsets and bookmarks stay.",
    cls=Documented,
    examples=("singerlake vacuum lake", "singerlake vacuum lake --stream 'log_*' --yes"),
)
@partial(with_lake, stores=True)
@tap_option
@stream_option
@click.option(
    "--target-bytes",
    type=click.IntRange(1, 5 << 30),
    default=TARGET_BYTES,
    show_default=True,
    metavar="N",
    help="The most stored bytes of a joined file. Files of half that size are left alone.",
)
@click.option(
    "--most-waiting",
    type=click.IntRange(0),
    default=MOST_WAITING,
    show_default=True,
    metavar="N",
    help="The most replaced files of a stream that wait for gc. All others are joined by a later run.",
)
@shows_first("--yes", "Join them")
@json_option
@quiet_option
@click.option("--threads", type=click.IntRange(1, 64), default=THREADS, show_default=True, help="Files made at once.")
@click.pass_context
def vacuum(
    ctx: click.Context,
    lake: Lake,
    tap: str | None,
    stream: str | None,
    target_bytes: int,
    most_waiting: int,
    dry_run: bool,
    as_json: bool,
    threads: int,
) -> None:
    """Join small neighbouring files into larger ones: the same messages at the same offsets.

    Shows what would be joined; joins it only with --yes. Writers and readers may run meanwhile, and bookmarks and
    checkpoints stay valid. No message is decompressed, and nothing is deleted: the replaced files stay until gc
    collects them. Run it again if it was interrupted. Exits with 1 if files differ from the manifest; those stay as
    they are.
    """
    with progress() as report:
        result = lake.vacuum(
            tap,
            stream,
            target_bytes=target_bytes,
            most_waiting=most_waiting,
            dry_run=dry_run,
            threads=threads,
            progress=report,
        )
    if as_json:
        say_json(result)
    else:
        for one in result.streams:
            for line in _told(one, dry_run):
                say(line)
        say_findings(result.findings)
    ctx.exit(exit_code((), result.findings))


def _told(one: StreamVacuum, dry_run: bool) -> list[str]:
    """One line for what is joined, and one for the small files that stay."""
    name, plan = f"{shown(one.tap)}/{shown(one.stream)}", one.plan
    if dry_run and plan.runs:
        lines = [f"{name}: would join {files(plan.joined)}, into {len(plan.runs):,}"]
    elif one.into.files:
        lines = [f"{name}: joined {files(one.joined)}, into {one.into.files:,}"]
    else:
        lines = [f"{name}: nothing to join"]
    reasons = {
        "large enough": plan.large,
        "alone beside files of other versions": plan.between,
        "beside other SCHEMA messages": one.apart,
        "with too little beside": plan.others,
        "replaced by others meanwhile": one.overtaken,
    }
    left = [f"{files(tally)} {why}" for why, tally in reasons.items() if tally.files]
    if left:
        lines.append(f"  left as they are: {'; '.join(left)}")
    if plan.later.files:
        lines.append(f"  left for a later run, when 'singerlake gc --delete' has made room: {files(plan.later)}")
    return lines
