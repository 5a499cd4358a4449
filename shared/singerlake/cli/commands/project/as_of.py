"""``singerlake project as-of``: a table as it was."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from singerlake.cli.commands.project.options import require_pyarrow
from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, at_option, commit_option, result_options, with_lake
from singerlake.cli.output import counted, say, show, shown
from singerlake.lake import Lake


@examples(
    "singerlake project as-of people --at 2026-03-01T00:00Z",
    "singerlake project as-of lake people --offset 1000 -o people.parquet",
)
@command("Make a table as it was at a moment, beside the lake.")
@partial(with_lake, names=Names(("table",)))
@at_option
@commit_option
@click.option("--offset", type=int, metavar="N", help="Instead: of the messages of its stream before this offset.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the rows to FILE, parquet."
)
@result_options
def as_of(lake: Lake, table: str, at: str | None, commit: str | None, offset: int | None, output: Path | None) -> None:
    """Make a table from raw as a run would have made it then, as it is declared now, and say how many rows it had.

    Nothing is written to the lake. Erased records are in no row, whenever they were erased.
    """
    points: list[str | int] = [each for each in (at, commit, offset) if each is not None]
    if len(points) != 1:
        raise click.UsageError("give one of --at, --commit and --offset")
    require_pyarrow()
    made = lake.table(table, as_of=points[0])
    if output is not None:
        made.write_parquet(output)
    source = made.state.sources[0]
    found = {
        "lake": lake.storage.url,
        "table": table,
        "tap": source.tap,
        "stream": source.stream,
        "offset": source.offset,
        "rows": made.rows,
        "file": None if output is None else str(output),
    }
    show(found, _say)


def _say(found: dict[str, Any]) -> None:
    before = f"before offset {found['offset']:,} of {shown(found['tap'])}.{shown(found['stream'])}"
    written = f"; written to {shown(found['file'])}" if found["file"] else ""
    say(f"{shown(found['table'])}: {counted(found['rows'], 'row')}, {before}{written}")
