"""``singerlake vacuum``: joins small files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import click

from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import (
    result_options,
    shows_first,
    size_within,
    streams_options,
    threads_option,
    with_lake,
)
from singerlake.cli.output import files, name_of, progress, say, say_findings, show
from singerlake.lake import Lake
from singerlake.upkeep.defaults import MOST_WAITING, TARGET_BYTES
from singerlake.upkeep.vacuum.vacuum import StreamVacuum, VacuumResult


@examples("singerlake vacuum lake", "singerlake vacuum lake --stream 'log_*' --yes")
@command("Join small files of a stream into larger ones; offsets and bookmarks stay.")
@partial(with_lake, stores=True)
@streams_options
@click.option(
    "--target-bytes",
    type=size_within(1, 5 << 30),
    default=str(TARGET_BYTES),
    show_default=True,
    metavar="SIZE",
    help="The most stored bytes of a joined file, as 64MB. Files of half that size are left alone.",
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
@result_options
@threads_option("Files made at once.")
def vacuum(lake: Lake, **asked: Any) -> int:
    """Join small neighbouring files into larger ones: the same messages at the same offsets.

    Shows what would be joined; joins it only with --yes. Writers and readers may run meanwhile, and bookmarks and
    checkpoints stay valid. No message is decompressed, and nothing is deleted: the replaced files stay until gc
    collects them. Run it again if it was interrupted. Exits with 1 if files differ from the manifest; those stay as
    they are.
    """
    with progress() as report:
        result = lake.vacuum(progress=report, **asked)
    show(result, _say)
    return exit_code((), result.findings)


def _say(result: VacuumResult) -> None:
    for one in result.streams:
        say(*_told(one, result.dry_run))
    say_findings(result.findings)


def _told(one: StreamVacuum, dry_run: bool) -> Iterator[str]:
    """One line for what is joined, and one for the small files that stay."""
    name, plan = name_of(one), one.plan
    if dry_run and plan.runs:
        yield f"{name}: would join {files(plan.joined)}, into {len(plan.runs):,}"
    elif one.into.files:
        yield f"{name}: joined {files(one.joined)}, into {one.into.files:,}"
    else:
        yield f"{name}: nothing to join"
    reasons = {
        "large enough": plan.large,
        "alone beside files of other versions": plan.between,
        "beside other SCHEMA messages": one.apart,
        "with too little beside": plan.others,
        "replaced by others meanwhile": one.overtaken,
    }
    left = [f"{files(tally)} {why}" for why, tally in reasons.items() if tally.files]
    if left:
        yield f"  left as they are: {'; '.join(left)}"
    if plan.later.files:
        yield f"  left for a later run, when 'singerlake gc --delete' has made room: {files(plan.later)}"
