"""``singerlake erase``: takes single records out of a stream."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.engines import engine_options, reader
from singerlake.cli.erasing import failure, told
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import Documented
from singerlake.cli.options import json_option, quiet_option, shows_first, undeclared_option, with_lake
from singerlake.cli.output import json_of, progress, say, say_findings, say_json
from singerlake.conditions import parse_where
from singerlake.lake import Lake

WHERE = (
    'Which records: "email = \'a@b.c\'", "user.id in (1, 2)", "at < \'2020-01-01T00:00:00Z\'", "id in @FILE" with a '
    "value on each line."
)


@click.command(
    short_help="Erase records that a condition means; gc deletes the files that held them.",
    cls=Documented,
    examples=(
        'singerlake erase lake --tap crm --stream people --where "id = 7"',
        "singerlake erase lake --tap crm --stream people --where 'id = 7' --delete",
    ),
)
@partial(with_lake, stores=True)
@click.option("--tap", metavar="TAP", required=True, help="The tap of the stream.")
@click.option("--stream", metavar="STREAM", required=True, help="The stream to erase from.")
@click.option("--where", metavar="CONDITION", required=True, help=WHERE)
@shows_first("--delete", "Erase")
@click.option(
    "--now",
    is_flag=True,
    help="With --delete: delete the files that held the records at once. Readers that still read them fail.",
)
@undeclared_option
@engine_options
@json_option
@quiet_option
@click.pass_context
def erase(
    ctx: click.Context,
    lake: Lake,
    tap: str,
    stream: str,
    where: str,
    dry_run: bool,
    now: bool,
    undeclared: bool,
    engine: str,
    threads: int,
    as_json: bool,
) -> None:
    """Erase the records of a stream that a condition means.

    Shows what would be erased; erases only with --delete. Every other message keeps its offset, and bookmarks and
    checkpoints stay valid. From then on no reader finds the records. The files that held them stay until 'singerlake gc
    --delete' has deleted them, which takes two runs, a grace time apart; with --now they go at once. Tables made from
    the stream are made anew by their next run. Exits with 1 if a file could not be read or written again.
    """
    if now and dry_run:
        raise click.UsageError("--now needs --delete")
    condition = parse_where(where, "--where")
    with reader(engine, lake, threads) as reads, progress() as report:
        one = lake.stream(tap, stream).erase(
            condition, now=now, dry_run=dry_run, undeclared=undeclared, engine=reads, progress=report
        )
    if as_json:
        say_json({"lake": lake.storage.url, "dry_run": one.dry_run, **json_of(one)})
    else:
        for line in told(one):
            say(line)
        if one.error is not None:
            say(failure(one), problem=True)
        say_findings(one.findings)
    ctx.exit(exit_code([one.error] if one.error else [], one.findings))
