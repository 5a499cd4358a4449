"""``projections.yml``: which lake, and which tables. ``docs/reference/tables.md`` is its reference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from singerlake.errors import NameTooLongError, SettingError
from singerlake.storage.roots import FolderRoot, parse_root
from singerlake.tables.declaration.streams import Declared
from singerlake.tables.declaration.yaml_nodes import Value, read_nodes
from singerlake.tables.declaration.yaml_table import declared_table
from singerlake.tables.state.keys import table_segment

NAME = "projections.yml"
_KEYS = ("lake_root", "tables")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


@dataclass(frozen=True)
class TableFile:
    """What a file declares; ``lake_root`` None: it names none."""

    path: Path
    lake_root: str | None
    tables: tuple[Declared, ...]


def read_file(path: Path, environment: Mapping[str, str] | None) -> TableFile:
    """The file at ``path``. ``$NAME`` and ``${NAME}`` in ``lake_root`` are taken from ``environment``; a relative path
    in it begins at the file's folder. ``environment`` None: ``lake_root`` is not looked at.
    Raises ``SettingError`` with the file, the line and what was probably meant."""
    try:
        body = path.read_bytes()
    except FileNotFoundError:
        raise SettingError("the file of tables is not there", hint="give --file", file=str(path)) from None
    except IsADirectoryError:
        raise SettingError(
            "the file of tables is a folder", hint=f"give --file FOLDER/{NAME}", file=str(path)
        ) from None
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SettingError(f"the file of tables cannot be read: {reason}", hint="mend it", file=str(path)) from error
    said = read_nodes(body, str(path)).mapping(_KEYS)
    lake_root = None
    if environment is not None and "lake_root" in said:
        lake_root = _lake_root(said["lake_root"], path.parent, environment)
    tables = said["tables"].mapping() if "tables" in said else {}
    return TableFile(path, lake_root, tuple(_table(name, value) for name, value in tables.items()))


def _table(name: str, value: Value) -> Declared:
    try:
        table_segment(name)
    except (NameTooLongError, SettingError) as error:
        raise value.error(f"{value.path}: {error.message}", error.hint) from error
    return declared_table(name, value)


def _lake_root(value: Value, folder: Path, environment: Mapping[str, str]) -> str:
    text = value.text()
    for found in _VARIABLE.finditer(text):
        name = found[1] or found[2]
        if not environment.get(name):
            raise value.error(f"lake_root names ${name}, which is not set", f"set ${name}, or write the root itself")
    expanded = _VARIABLE.sub(lambda found: environment[found[1] or found[2]], text)
    try:
        root = parse_root(expanded)
    except SettingError as error:
        raise value.error(error.message, error.hint) from error
    if isinstance(root, FolderRoot) and not root.path.is_absolute():
        return str(folder.absolute() / root.path)
    return expanded
