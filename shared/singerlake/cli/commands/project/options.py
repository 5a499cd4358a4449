"""What the commands of tables share: the file that declares them, the lake, and which of them are meant."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from singerlake.cli import completion
from singerlake.cli.lakes import find_file, find_lake, read
from singerlake.cli.options import settings_in, with_settings
from singerlake.cli.output import shown
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.settings import TABLES_FILE, storage_settings, store_settings
from singerlake.tables.declaration.streams import Declared, Resolved, Unresolved, chosen, everything, resolve
from singerlake.tables.state.commit import sources


@dataclass(frozen=True)
class Project:
    """A lake, its tables as ``file`` declares them or of ``every`` stream, and the names that the command was given."""

    lake: Lake
    file: Path | None
    declared: tuple[Declared, ...]
    names: tuple[str, ...]
    every: bool = False

    def resolved(self) -> tuple[list[Resolved], list[Unresolved]]:
        """All tables that are declared, by the streams that there are now; and those that mean no stream."""
        streams = {tap: self.lake.streams(tap) for tap in self.lake.taps()}
        return resolve(self.declared, streams, sources(self.lake.storage))

    def tables(self) -> tuple[list[Resolved], list[Unresolved]]:
        """The same of those that are meant. Raises ``UnknownNameError``."""
        return chosen(*self.resolved(), self.names)


def with_project(command: Callable[..., Any], *, declared: bool = False) -> Callable[..., Any]:
    """Give a command ``--file``, ``--all``, the arguments and the settings of S3, and call it with the ``Project`` that
    they mean. ``declared``: it works on tables that are declared, and cannot do without one of the two."""

    @functools.wraps(command)
    def opened(*given: Any, words: tuple[str, ...], file: Path | None, every: bool, **arguments: Any) -> Any:
        _require_pyarrow()
        config = settings_in(arguments)
        if every and file is not None:
            raise click.UsageError("--all makes tables without a file; leave --file out")
        asked = None if file is None else read(file)
        meant = find_lake(words, asked)
        path = None if every else file or find_file(Path.cwd(), os.environ)
        if path is None and declared and not every:
            raise click.UsageError(f"there is no {TABLES_FILE} here or beside meltano.yml; give --file FILE, or --all")
        found = asked or (read(path) if path is not None else None)
        if found is not None and file is None and found.lake_root not in (None, meant.root):
            click.echo(f"note: the lake is {shown(meant.root)}, and not that of {shown(str(path))}", err=True)
        tables = (everything(),) if every else () if found is None else found.tables
        lake = Lake.open(meant.root, storage_settings(config), store_settings(config)).require()
        return command(*given, Project(lake, path, tables, meant.names, every), **arguments)

    wrapped = with_settings(opened)
    wrapped = click.option(
        "--all",
        "every",
        is_flag=True,
        help="Without a file: a table of every stream. 'latest', or 'append' where the stream has no key.",
    )(wrapped)
    wrapped = click.option(
        "-f",
        "--file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"What declares the tables, and may name the lake. Default: {TABLES_FILE}, here or beside meltano.yml.",
    )(wrapped)
    return click.argument("words", metavar="[LAKE] [TABLE]...", nargs=-1, shell_complete=completion.tables)(wrapped)


def _require_pyarrow() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise SettingError("tables need pyarrow", hint="run: pip install 'singerlake[tables]'")
