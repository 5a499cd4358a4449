"""``singerlake project diff``: what became of a table's rows between two moments."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.commands.project.options import require_pyarrow
from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, result_options, with_lake
from singerlake.cli.output import counted, is_asked, json_of, say, say_json, show, shown
from singerlake.cli.row_difference import difference_text
from singerlake.lake import Lake
from singerlake.tables.compare.counts import RowDifference
from singerlake.tables.compare.diff import TableDiffResult


def point(text: str) -> str | int:
    """A moment or a commit, or an offset."""
    return int(text) if text.isascii() and text.isdigit() else text


@examples(
    "singerlake project diff people --from 2026-03-01T00:00Z",
    "singerlake project diff lake people --from 1000 --to 2000 --rows",
)
@command("Show which rows of a table came, changed and went between two moments.")
@partial(with_lake, names=Names(("table",)))
@click.option("--from", "start", type=point, metavar="TIME", required=True, help="A moment, a commit or an offset.")
@click.option("--to", "end", type=point, metavar="TIME", help="The later one. Default: now.")
@click.option("--rows", is_flag=True, help="Print each row that differs, too.")
@result_options
def diff(lake: Lake, table: str, start: str | int, end: str | int | None, rows: bool) -> None:
    """Make a table as it was at two moments, beside the lake, and count the keys that came, changed and went, and the
    columns that changed.

    Both are made by the columns of the later moment. Nothing is written to the lake.
    """
    require_pyarrow()
    told: list[RowDifference] = []

    def tell(row: RowDifference) -> None:
        if is_asked("json"):
            told.append(row)
        else:
            say(difference_text(row))

    found = lake.diff_table(table, start, end, row=tell if rows else None)
    if is_asked("json") and rows:
        say_json({**json_of(found), "rows": told})
    else:
        show(found, _say)


def _say(found: TableDiffResult) -> None:
    between = (
        f"from offset {found.from_offset:,} to before {found.to_offset:,} of {shown(found.tap)}.{shown(found.stream)}"
    )
    counts = ((found.inserted, "inserted"), (found.changed, "changed"), (found.deleted, "deleted"))
    rows = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "no row differs"
    say(f"{shown(found.table)} {between}: {rows}")
    for name, count in found.columns.items():
        say(f"  {shown(name)}: {counted(count, 'row')}")
