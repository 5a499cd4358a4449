"""``singerlake sql``: a statement over tables and raw streams, by DuckDB."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, data_options, size_within, with_lake
from singerlake.cli.output import counted, is_asked, say_error, table
from singerlake.errors import SettingError, SingerlakeError
from singerlake.lake import Lake
from singerlake.tables.query import MEMORY, batches, refusals

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_LEAST, _MOST = 64 << 20, 1 << 44
_PROMPT, _MORE = "sql> ", "...> "


@examples(
    "singerlake sql lake 'SELECT count(*) FROM users'",
    "singerlake sql lake 'SELECT id FROM raw.\"my-tap\".users' --csv",
)
@command("Ask tables and raw streams in SQL, by DuckDB.")
@partial(with_lake, names=Names(singles=("statement",), optional=True))
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV to standard output.")
@click.option("--parquet", type=click.Path(path_type=Path), metavar="FILE", help="Write the rows into a new file.")
@click.option(
    "--memory",
    type=size_within(_LEAST, _MOST),
    default=str(MEMORY),
    show_default=True,
    metavar="SIZE",
    help="What DuckDB may hold, as 4GB; what does not fit is in $TMPDIR.",
)
@data_options
def sql(lake: Lake, statement: str | None, as_csv: bool, parquet: Path | None, memory: int) -> None:
    """Ask tables and raw streams in SQL, by DuckDB.

    Tables have their names, and raw streams are raw.tap.stream; quote a name that is not a plain word. Each is read as
    it is now, and nothing is written but what --parquet names. Without STATEMENT it is read from standard input; on a
    terminal you are asked for statements. A semicolon ends each.
    """
    if sum((as_csv, parquet is not None, is_asked("json"))) > 1:
        raise click.UsageError("--csv, --parquet and --json exclude each other")
    if statement is None and sys.stdin.isatty():
        _ask(lake, memory)
        return
    rows = lake.sql(sys.stdin.read() if statement is None else statement, memory=memory)
    with refusals():
        if parquet is not None:
            if parquet.exists():
                raise SettingError(f"{parquet} is there already", hint="name a new file")
            rows.write_parquet(str(parquet))
        elif as_csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(rows.columns)
            writer.writerows(map(_texts, _rows(rows)))
        elif is_asked("json"):
            _write_json(rows)
        else:
            _show(rows)


def _rows(relation: DuckDBPyRelation) -> Iterator[tuple[Any, ...]]:
    """The rows, as many at once as DuckDB has in a batch."""
    for batch in batches(relation):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _texts(row: Iterable[Any]) -> list[str]:
    """Values as text; null is empty."""
    return ["" if value is None else _text(value) for value in row]


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(_plain(value), ensure_ascii=False)
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    """A value as JSON has it: what JSON has no number for is null, and what it has no type for a text."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _write_json(relation: DuckDBPyRelation) -> None:
    """A list of rows, as they come."""
    before = "["
    for row in _rows(relation):
        click.echo(f"{before}\n  {json.dumps(dict(zip(relation.columns, map(_plain, row), strict=True)))}", nl=False)
        before = ","
    click.echo("[]" if before == "[" else "\n]")


def _show(relation: DuckDBPyRelation) -> None:
    numbers = ("INT", "DOUBLE", "FLOAT", "DECIMAL")
    columns = [
        f">{name}" if any(each in str(type).upper() for each in numbers) and "[" not in str(type) else name
        for name, type in zip(relation.columns, relation.types, strict=True)
    ]
    rows = [["NULL" if value is None else _text(value) for value in row] for row in _rows(relation)]
    table(columns, rows, caption=counted(len(rows), "row"))


def _ask(lake: Lake, memory: int) -> None:
    """Statements that a person types, until the end of input. An interruption ends the one that runs."""
    with suppress(ImportError):
        import readline

        names = [*lake.tables(), *(f'raw."{tap}"."{stream}"' for tap, stream in lake.chosen())]
        readline.set_completer_delims(" ,()\n\t")
        readline.set_completer(partial(_nth, names))
        readline.parse_and_bind("tab: complete")
    held = ""
    while True:
        try:
            held += input(_MORE if held else _PROMPT) + "\n"
            if not held.strip().endswith(";"):
                continue
            statement, held = held, ""
            with refusals():
                _show(lake.sql(statement, memory=memory))
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:
            held = ""
            click.echo()
        except SingerlakeError as error:
            say_error(error)


def _nth(names: Iterable[str], begins: str, place: int) -> str | None:
    found = [name for name in names if name.lower().startswith(begins.lower())]
    return found[place] if place < len(found) else None
