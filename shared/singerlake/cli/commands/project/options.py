"""What the commands of tables share: the file that declares them, the lake, and which of them are meant."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from singerlake.cli import completion
from singerlake.cli.lakes import find_file, find_lake, is_same, read
from singerlake.cli.options import settings_in, stream_named, tap_named, with_settings
from singerlake.cli.output import shown
from singerlake.errors import SettingError, UnknownNameError
from singerlake.lake import Lake, matching
from singerlake.settings import TABLES_FILE, storage_settings, store_settings
from singerlake.tables.declaration.streams import Declared, Resolved, Unresolved, chosen, everything, resolve
from singerlake.tables.state.commit import sources
from singerlake.tables.state.commit import tables as tables_there


@dataclass(frozen=True)
class Project:
    """A lake, its tables as ``file`` declares them or of ``every`` stream, and which of them the command was given:
    by ``names``, and by the ``tap`` and ``stream`` that they are made from, names or patterns."""

    lake: Lake
    file: Path | None
    declared: tuple[Declared, ...]
    names: tuple[str, ...]
    every: bool = False
    tap: str | None = None
    stream: str | None = None

    def resolved(self) -> tuple[list[Resolved], list[Unresolved]]:
        """All tables that are declared, by the streams that there are now; and those that mean no stream."""
        streams = {tap: self.lake.streams(tap) for tap in self.lake.taps()}
        return resolve(self.declared, streams, sources(self.lake.storage))

    def tables(self) -> tuple[list[Resolved], list[Unresolved]]:
        """The same of those that are meant. Raises ``UnknownNameError``."""
        tables, failed = chosen(*self.resolved(), self.names)
        if not self._is_of_streams:
            return tables, failed
        failed = [each for each in failed if self._may_mean(each)]
        names = self._made_from_these(_sources_of(tables), or_none=bool(failed))
        return [each for each in tables if each.declaration.name in names], failed

    def meant(self, *, declared: bool = False) -> tuple[str, ...]:
        """The names of the tables that are meant, of those that are there or, for a list, also ``declared``; none means
        all. Raises ``UnknownNameError``."""
        if not self._is_of_streams:
            return self.names
        source = sources(self.lake.storage)
        made_from = _sources_of(self.resolved()[0]) if declared else {}
        made_from |= {name: found for name in tables_there(self.lake.storage) if (found := source(name))}
        if self.names:
            made_from = {name: made_from[name] for name in self.names if name in made_from}
        # A name that no table has is an error of the method that is given it.
        unknown = [name for name in self.names if name not in made_from]
        return (*self._made_from_these(made_from), *unknown)

    @property
    def _is_of_streams(self) -> bool:
        return self.tap is not None or self.stream is not None

    def _may_mean(self, failed: Unresolved) -> bool:
        """Whether a declaration that means no stream may mean one of these: of a text it is not known which tap."""
        source = next((each.source for each in self.declared if each.name == failed.declared), "")
        known = isinstance(source, tuple) and self.tap is not None and "*" not in source[0]
        return not known or bool(matching(self.tap or "", [source[0]]))

    def _made_from_these(self, tables: Mapping[str, tuple[str, str]], *, or_none: bool = False) -> list[str]:
        """Of the tables that are made from these pairs of a tap and a stream, the names of those that are meant."""
        taps, streams = ([pair[place] for pair in tables.values()] for place in (0, 1))
        taps = taps if self.tap is None else matching(self.tap, taps)
        streams = streams if self.stream is None else matching(self.stream, streams)
        names = [name for name, (tap, stream) in tables.items() if tap in taps and stream in streams]
        if not names and not or_none:
            asked = ".".join("*" if each is None else each for each in (self.tap, self.stream))
            named = " of these names" if self.names else ""
            raise UnknownNameError(f"no table{named} is made from {asked!r}", hint="singerlake project ls has all")
        return names


def _sources_of(tables: Iterable[Resolved]) -> dict[str, tuple[str, str]]:
    """The tap and the stream of each table that is not made from tables."""
    named = ((each.declaration.name, each.declaration.tap, each.declaration.stream) for each in tables)
    return {name: (tap, stream) for name, tap, stream in named if tap}


def with_project(command: Callable[..., Any], *, declared: bool = False) -> Callable[..., Any]:
    """Give a command ``--file``, ``--all``, the arguments and the settings of S3, and call it with the ``Project`` that
    they mean. ``declared``: it works on tables that are declared, and cannot do without one of the two."""

    @functools.wraps(command)
    def opened(
        *given: Any,
        words: tuple[str, ...],
        file: Path | None,
        every: bool,
        tap: str | None,
        stream: str | None,
        **arguments: Any,
    ) -> Any:
        require_pyarrow()
        config = settings_in(arguments)
        if every and file is not None:
            raise click.UsageError("--all makes tables without a file; leave --file out")
        asked = None if file is None else read(file)
        meant = find_lake(words, asked)
        path = None if every else file or find_file(Path.cwd(), os.environ)
        if path is None and declared and not every:
            raise click.UsageError(f"there is no {TABLES_FILE} here or beside meltano.yml; give --file FILE, or --all")
        found = asked or (read(path) if path is not None else None)
        other = found.lake_root if found is not None and file is None else None
        if other is not None and not is_same(meant.root, other):
            click.echo(f"note: the lake is {shown(meant.root)}, and not that of {shown(str(path))}", err=True)
        tables = (everything(),) if every else () if found is None else found.tables
        lake = Lake.open(meant.root, storage_settings(config), store_settings(config)).require()
        return command(*given, Project(lake, path, tables, meant.names, every, tap, stream), **arguments)

    wrapped = tap_named("Only tables that are made from this tap, or those that a pattern matches.")(
        stream_named("Only tables that are made from streams of this name, or those that a pattern matches.")(
            with_settings(opened)
        )
    )
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


def require_pyarrow() -> None:
    """Raise ``SettingError`` where it is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise SettingError("tables need pyarrow", hint="run: pip install 'singerlake[tables]'")
