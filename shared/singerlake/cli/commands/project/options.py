"""What the commands of tables share: the file that declares them, the lake, and which of them are meant."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from singerlake.cli.options import settings_in, variable, with_settings
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.settings import storage_settings, store_settings
from singerlake.tables.declaration.streams import (
    Declared,
    Resolved,
    Unresolved,
    chosen,
    everything,
    resolve,
)
from singerlake.tables.declaration.yaml_file import NAME, read_file
from singerlake.tables.state.commit import sources

_MELTANO, _MELTANO_ROOT = "meltano.yml", "MELTANO_PROJECT_ROOT"


@dataclass(frozen=True)
class Project:
    """A lake, the tables that are declared of it, by ``file`` or for every stream, and the names that the command was
    given."""

    lake: Lake
    file: Path | None
    declared: tuple[Declared, ...]
    names: tuple[str, ...]

    def resolved(self) -> tuple[list[Resolved], list[Unresolved]]:
        """All tables that are declared, by the streams that there are now; and those that mean no stream."""
        streams = {tap: self.lake.streams(tap) for tap in self.lake.taps()}
        return resolve(self.declared, streams, sources(self.lake.storage))

    def tables(self) -> tuple[list[Resolved], list[Unresolved]]:
        """The same of those that are meant. Raises ``UnknownNameError``."""
        return chosen(*self.resolved(), self.names)


def with_project(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--file``, ``--all``, the arguments and the settings of S3, and call it with the ``Project`` that
    they mean."""

    @functools.wraps(command)
    def opened(*given: Any, words: Sequence[str], file: Path | None, every: bool, **arguments: Any) -> Any:
        _require_pyarrow()
        config = settings_in(arguments)
        if every and file is not None:
            raise click.UsageError("--all makes tables without a file; leave --file out")
        root, path, declared, names = _of_lake(words) if every else _of_file(file, words)
        lake = Lake.open(root, storage_settings(config), store_settings(config)).require()
        return command(*given, Project(lake, path, declared, names), **arguments)

    wrapped = with_settings(opened, stores=False)
    wrapped = click.option(
        "--all",
        "every",
        is_flag=True,
        help="Without a file: a table of every stream of LAKE. 'latest', or 'append' where the stream has no key.",
    )(wrapped)
    wrapped = click.option(
        "-f",
        "--file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"What declares the tables. Default: {NAME}, here or beside {_MELTANO}.",
    )(wrapped)
    return click.argument("words", metavar="[LAKE] [TABLE]...", nargs=-1)(wrapped)


def find_file(folder: Path, environment: Mapping[str, str]) -> Path | None:
    """The file of tables in ``folder``, or beside the ``meltano.yml`` of the Meltano project that it is in."""
    own = environment.get(_MELTANO_ROOT)
    projects = [Path(own)] if own else [each for each in (folder, *folder.parents) if (each / _MELTANO).is_file()][:1]
    return next((path for path in (each / NAME for each in (folder, *projects)) if path.is_file()), None)


def _of_lake(words: Sequence[str]) -> tuple[str, None, tuple[Declared, ...], tuple[str, ...]]:
    root = words[0] if words else os.environ.get(variable("lake_root"))
    if not root:
        raise click.UsageError(f"no lake is named; give LAKE, or set ${variable('lake_root')}")
    return root, None, (everything(),), tuple(words[1:])


def _of_file(file: Path | None, words: Sequence[str]) -> tuple[str, Path, tuple[Declared, ...], tuple[str, ...]]:
    path = file or find_file(Path.cwd(), os.environ)
    if path is None:
        raise click.UsageError(f"there is no {NAME} here or beside {_MELTANO}; give --file FILE, or LAKE --all")
    found = read_file(path, os.environ)
    root = found.lake_root or os.environ.get(variable("lake_root"))
    if not root:
        raise SettingError(
            "no lake is named", hint=f"write lake_root into the file, or set ${variable('lake_root')}", file=str(path)
        )
    return root, path, found.tables, tuple(words)


def _require_pyarrow() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise SettingError("tables need pyarrow", hint="run: pip install 'singerlake[tables]'")
