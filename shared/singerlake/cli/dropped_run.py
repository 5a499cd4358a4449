"""``singerlake drop --run``: takes out of streams what one run brought."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.erasing import Erasure, erase_from, failure, told
from singerlake.cli.erasing import as_json as erasure_json
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.options import chosen_streams
from singerlake.cli.output import error_json, progress, say, say_findings, say_json, shown
from singerlake.errors import SingerlakeError, UnknownNameError
from singerlake.lake import Lake
from singerlake.upkeep.erase.of_run import OfRun
from singerlake.work.engine import Threads


def drop_run(
    ctx: click.Context,
    lake: Lake,
    tap: str,
    stream: str | None,
    run: str,
    *,
    delete: bool,
    now: bool,
    as_json: bool,
) -> None:
    """Drop the messages of a run from a tap's streams, or from one of them, and end the command. Raises
    ``UnknownNameError`` where no stream holds any."""
    done: list[Erasure] = []
    failed: dict[str, SingerlakeError] = {}
    begun: set[str] = set()
    with progress() as start:
        for _, name in chosen_streams(lake, tap, stream):
            bar = start(f"{tap}/{name}")
            engine = Threads(lake.storage)
            try:
                one = erase_from(
                    lake,
                    tap,
                    name,
                    OfRun(run),
                    delete=delete,
                    now=now,
                    engine=engine,
                    progress=bar,
                    committed=partial(begun.add, name),
                )
                done.append(one)
            except SingerlakeError as error:
                # What the run brought to the others goes even if this cannot be.
                failed[name] = error
    if not failed and not any(one.done.messages or one.left or one.findings for one in done):
        raise UnknownNameError(
            f"no file holds a message of run {run!r}", hint="'singerlake status --json' shows the ids of runs", tap=tap
        )
    findings = [finding for one in done for finding in one.findings]
    if as_json:
        say_json(
            {
                "lake": lake.storage.url,
                "dry_run": not delete,
                "run": run,
                "streams": [erasure_json(one) for one in done],
                "failed": [
                    {"tap": tap, "stream": name, "dropped": name in begun, "error": error_json(error)}
                    for name, error in failed.items()
                ],
            }
        )
    else:
        for one in done:
            if one.done.messages or one.left:
                for line in told(one):
                    say(line)
            if one.failed is not None:
                say(failure(one), problem=True)
        for name, why in failed.items():
            what = "dropped, at least in part, and then failed" if name in begun else "not dropped"
            say(f"{shown(tap)}/{shown(name)}: {what}: {shown(str(why))}", problem=True)
        say_findings(findings)
    errors = [*failed.values(), *(one.failed for one in done if one.failed is not None)]
    ctx.exit(exit_code(errors) or (1 if any(finding.problem for finding in findings) else 0))
