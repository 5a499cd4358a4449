"""Which lake a command is about: LAKE, or what names it where that is left out. One function decides for all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from singerlake.cli.output import is_asked
from singerlake.format import layout
from singerlake.humanize import shown
from singerlake.settings import TABLES_FILE

if TYPE_CHECKING:
    from singerlake.tables.declaration.yaml_file import TableFile

VARIABLE = "SINGERLAKE_LAKE_ROOT"
_MELTANO, _MELTANO_ROOT = "meltano.yml", "MELTANO_PROJECT_ROOT"
NO_LAKE = f"no lake is named; give LAKE, set ${VARIABLE}, or write lake_root into {TABLES_FILE}"


@dataclass(frozen=True)
class Meant:
    """The root of a lake, and the ``names`` that a command was given behind it."""

    root: str
    names: tuple[str, ...] = ()


def find_lake(
    words: Sequence[str], file: TableFile | None = None, *, takes_names: bool = True, noted: bool = True
) -> Meant:
    """The lake and the names that the arguments of a command mean. The first of ``words`` is LAKE if it is a lake, or
    if nothing else names one: neither ``file``, which the command was given, nor the environment, nor a file of tables
    that is found. ``noted``: where it may have been meant as a name, a line says so. Raises ``UsageError`` where no
    lake is named, and what reading the file raises."""
    if not takes_names and words:
        return Meant(words[0])
    elsewhere = named_elsewhere(file)
    if words and (elsewhere is None or is_lake(words[0])):
        is_a_name = os.sep not in words[0] and elsewhere is not None and not is_same(words[0], elsewhere)
        if noted and is_a_name and not is_asked("quiet"):
            # The command is about to work on another lake than it would without the word.
            click.echo(f"note: {shown(words[0])} is a lake, and taken for that, not for a name", err=True)
        return Meant(words[0], tuple(words[1:]))
    if elsewhere is None:
        raise click.UsageError(NO_LAKE)
    return Meant(elsewhere, tuple(words))


def is_lake(word: str) -> bool:
    """Whether an argument is the root of a lake: a URL, or a folder that has a lake's files. That one has a folder
    ``raw`` does not make it one: cameras make such folders, too."""
    if "://" in word or word.startswith("file:"):
        return True
    folder = Path(word).expanduser()
    try:
        return (folder / layout.root_metadata_key()).is_file() or any(
            next((folder / layout.RAW).glob(pattern), None) is not None
            for pattern in (f"*/{layout.CATALOGUE}", f"*/*/{layout.MANIFEST}")
        )
    except (OSError, ValueError):
        # A name that is too long, or holds a null character, cannot name a folder.
        return False


def is_same(word: str, root: str) -> bool:
    """Whether two roots are one, however they are written."""
    try:
        return os.path.realpath(word) == os.path.realpath(root)
    except (OSError, ValueError):
        return False


def named_elsewhere(file: TableFile | None = None) -> str | None:
    """The root that is named where LAKE is left out; None where nothing names one."""
    if file is not None and file.lake_root:
        return file.lake_root
    if root := os.environ.get(VARIABLE):
        return root
    path = None if file is not None else find_file(Path.cwd(), os.environ)
    return None if path is None else read(path).lake_root


def find_file(folder: Path, environment: Mapping[str, str]) -> Path | None:
    """The file of tables in ``folder``, or beside the ``meltano.yml`` of the Meltano project that it is in."""
    own = environment.get(_MELTANO_ROOT)
    projects = [Path(own)] if own else [each for each in (folder, *folder.parents) if (each / _MELTANO).is_file()][:1]
    return next((path for path in (each / TABLES_FILE for each in (folder, *projects)) if path.is_file()), None)


def read(path: Path) -> TableFile:
    """The file of tables at ``path``. Raises ``SettingError``."""
    # Commands that are given LAKE do without it.
    from singerlake.tables.declaration.yaml_file import read_file

    return read_file(path, os.environ)
