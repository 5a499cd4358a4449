"""``singerlake sql``: a statement over tables and raw streams, by DuckDB."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, at_option, commit_option, data_options, size_within, with_lake
from singerlake.cli.output import counted, is_asked, say_error, table
from singerlake.errors import SettingError, SingerlakeError
from singerlake.lake import Lake
from singerlake.tables.query import MEMORY, batches, quoted, refusals

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_LEAST, _MOST = 64 << 20, 1 << 44
_INTEGERS = ("tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint")
_PLAIN = {"boolean", "double", "float", "varchar", *_INTEGERS}
"""The types of DuckDB that JSON has, too."""
_PROMPT, _MORE = "sql> ", "...> "


@examples(
    "singerlake sql lake 'SELECT id FROM raw.\"my-tap\".users' --csv",
    "singerlake sql lake 'SELECT count(*) FROM users' --at 2026-03-01T00:00Z",
)
@command("Ask tables and raw streams in SQL, by DuckDB.")
@partial(with_lake, names=Names(singles=("statement",), optional=True))
@at_option
@commit_option
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
def sql(
    lake: Lake,
    statement: str | None,
    at: str | None,
    commit: str | None,
    as_csv: bool,
    parquet: Path | None,
    memory: int,
) -> None:
    """Ask tables and raw streams in SQL, by DuckDB.

    Tables have their names, and raw streams are raw.tap.stream; quote a name that is not a plain word. Each is read as
    it is now, or as it was at a moment or after a commit. Nothing is written but what --parquet names. Without
    STATEMENT it is read from standard input; on a terminal you are asked for statements. A semicolon ends each.
    """
    if sum((as_csv, parquet is not None, is_asked("json"))) > 1:
        raise click.UsageError("--csv, --parquet and --json exclude each other")
    if at is not None and commit is not None:
        raise click.UsageError("--at and --commit exclude each other")
    ask = partial(lake.sql, as_of=commit if at is None else at, memory=memory)
    if statement is None and sys.stdin.isatty():
        _prompt(lake, ask)
        return
    rows = ask(sys.stdin.read() if statement is None else statement)
    with refusals():
        if parquet is not None:
            if parquet.exists():
                raise SettingError(f"{parquet} is there already", hint="name a new file")
            rows.write_parquet(str(parquet))
        elif as_csv:
            spelt, writer = _spelt(rows), csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(spelt.columns)
            writer.writerows(map(_texts, _rows(spelt)))
        elif is_asked("json"):
            _write_json(_spelt(rows))
        else:
            _show(rows)


def _spelt(relation: DuckDBPyRelation) -> DuckDBPyRelation:
    """The same with each column under a name of its own, and what JSON has no type for as DuckDB writes it: Python has
    no value for each of DuckDB's."""
    taken: set[str] = set()
    columns = []
    for place, (name, type) in enumerate(zip(relation.columns, relation.types, strict=True), 1):
        # As DuckDB writes them into parquet.
        free = next(each for each in chain([name], (f"{name}_{n}" for n in count(1))) if each.lower() not in taken)
        taken.add(free.lower())
        columns.append(f"CAST(#{place} AS {_type(type)}) AS {quoted(free)}")
    return relation.project(", ".join(columns))


def _type(type: Any) -> str:
    if type.id in ("list", "array"):
        return f"{_type(dict(type.children)['child'])}[]"
    if type.id == "struct":
        return f"STRUCT({', '.join(f'{quoted(name)} {_type(each)}' for name, each in type.children)})"
    if type.id == "map":
        return f"MAP({', '.join(_type(each) for _, each in type.children)})"
    return str(type) if type.id in _PLAIN else "VARCHAR"


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
    """A value as JSON has it: what JSON has no number for is null. The integers of 128 bits are decimals in Arrow."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return int(value) if isinstance(value, Decimal) else value


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
    relation = _spelt(relation)
    rows = [["NULL" if value is None else _text(value) for value in row] for row in _rows(relation)]
    table(columns, rows, caption=counted(len(rows), "row"))


def _prompt(lake: Lake, ask: Callable[[str], DuckDBPyRelation]) -> None:
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
                _show(ask(statement))
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
