"""The YAML file of a user's tables: the files it is made of, and what it says of each table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from singerlake.conditions import Condition, Read, condition_of, content_of, named_condition_of
from singerlake.errors import NameTooLongError, SettingError
from singerlake.settings import TABLES_FILE
from singerlake.storage.roots import FolderRoot, parse_root
from singerlake.tables.declaration.model import (
    ICEBERG,
    Action,
    Check,
    ColumnRule,
    Deletions,
    Format,
    Formulas,
    Keep,
    NullKeys,
    TableDeclaration,
    partition_of,
)
from singerlake.tables.declaration.statement import statement_of
from singerlake.tables.declaration.streams import Declared
from singerlake.tables.declaration.yaml_nodes import Value, read_nodes
from singerlake.tables.state.keys import table_segment

KEYS = (
    "from",
    "sql",
    "keep",
    "key",
    "order_by",
    "sort_by",
    "partition_by",
    "columns",
    "checks",
    "on_check_failure",
    "format",
    "also",
    "csv_formulas",
    "metadata",
    "deleted_when",
    "deletions",
    "null_keys",
)
_COLUMN_KEYS, _FROM_KEYS = ("rename", "drop", "cast"), ("tap", "stream")
_OF_KEYED = ("key", "order_by", "null_keys")
_OF_STATEMENTS = ("sql", "sort_by", "partition_by", "checks", "on_check_failure", "format", "also", "csv_formulas")
_INSTEAD = {
    "from": "name tables in the statement",
    "keep": "remove it: every run writes all rows anew",
    "key": "write GROUP BY, or a check 'unique'",
    "order_by": "write ORDER BY, or 'sort_by'",
    "columns": "rename, cast and leave out columns in the statement",
    "metadata": "select the columns in the statement",
    "deleted_when": "write WHERE",
    "deletions": "write WHERE",
    "null_keys": "write WHERE, or a check 'not_null'",
}
UNIQUE = "unique"


def declared_table(name: str, value: Value) -> Declared:
    """The table that ``value`` declares. Raises ``SettingError`` with the line of what is wrong."""
    said = value.mapping(KEYS)
    if "sql" in said:
        return _of_statement(name, value, said)
    if "from" not in said:
        raise value.error(
            f"{value.path} does not say what it is made from", "write 'from: tap.stream', or 'sql: SELECT ...'"
        )
    keep = _member(said, "keep", Keep)
    if keep is Keep.APPEND:
        for key in _OF_KEYED:
            if key in said:
                raise said[key].error(f"{value.path} keeps append, where {key!r} means nothing", f"remove {key!r}")
    if keep is Keep.HISTORY and "deletions" in said:
        raise said["deletions"].error(
            f"{value.path} keeps history, which always has the rows of deleted keys", "remove 'deletions'"
        )
    format, iceberg = _others(said)
    template = TableDeclaration(
        name=name,
        tap="",
        stream="",
        keep=keep or Keep.LATEST,
        key=said["key"].texts() if "key" in said else None,
        order_by=_names(said, "order_by"),
        sort_by=_names(said, "sort_by"),
        partition_by=_partitions(said),
        columns={column: _rule(rule) for column, rule in _columns(said).items()},
        checks=_checks(said),
        format=format,
        iceberg=iceberg,
        csv_formulas=_formulas(value, said),
        metadata="metadata" in said and said["metadata"].flag(),
        deleted_when=_deletion(said["deleted_when"]) if "deleted_when" in said else None,
        deletions=_member(said, "deletions", Deletions) or Deletions.HARD,
        null_keys=_member(said, "null_keys", NullKeys) or NullKeys.FAIL,
        written_at=_written_at(value, said),
    )
    return Declared(name=name, source=_source(said["from"]), template=template, keep_by_key=keep is None)


def _of_statement(name: str, value: Value, said: Mapping[str, Value]) -> Declared:
    for key, each in said.items():
        if key not in _OF_STATEMENTS:
            raise each.error(f"{value.path} is made by a statement, where {key!r} means nothing", _INSTEAD[key])
    if "*" in name:
        raise value.error(f"{value.path} is one table: * in its name stands for nothing", "write a name without *")
    format, iceberg = _others(said)
    template = TableDeclaration(
        name=name,
        tap="",
        stream="",
        keep=Keep.APPEND,
        sort_by=_names(said, "sort_by"),
        partition_by=_partitions(said),
        checks=_checks(said),
        format=format,
        iceberg=iceberg,
        csv_formulas=_formulas(value, said),
        sql=said["sql"].made(statement_of),
        written_at=_written_at(value, said),
    )
    return Declared(name=name, source="", template=template)


def _formulas(value: Value, said: Mapping[str, Value]) -> Formulas:
    if "csv_formulas" in said and _format(said) is not Format.CSV:
        raise said["csv_formulas"].error(f"{value.path} is not csv", "remove 'csv_formulas', or add 'format: csv'")
    return _member(said, "csv_formulas", Formulas) or Formulas.KEEP


def _source(value: Value) -> str | tuple[str, str]:
    if not value.is_mapping:
        text = value.text()
        tap, dot, stream = text.partition(".")
        if not (tap and dot and stream):
            raise value.error(f"{value.path} is {text!r}, which names no stream", "write it as tap.stream")
        return text
    said = value.mapping(_FROM_KEYS)
    for key in _FROM_KEYS:
        if key not in said:
            raise value.error(f"{value.path} names no {key}", "write {tap: ..., stream: ...}")
    return said["tap"].text(), said["stream"].text()


def _member(said: Mapping[str, Value], key: str, kind: Callable[[str], Any]) -> Any:
    if key not in said:
        return None
    return kind(said[key].one_of(str(each.value) for each in kind))  # type: ignore[attr-defined]


def _names(said: Mapping[str, Value], key: str) -> tuple[str, ...]:
    return said[key].texts() if key in said else ()


def _partitions(said: Mapping[str, Value]) -> tuple[Any, ...]:
    if "partition_by" not in said:
        return ()
    said["partition_by"].texts()
    return tuple(item.made(partition_of) for item in said["partition_by"].items())


def _columns(said: Mapping[str, Value]) -> dict[str, Value]:
    return said["columns"].mapping() if "columns" in said else {}


def _rule(value: Value) -> ColumnRule:
    said = value.mapping(_COLUMN_KEYS)
    if not said:
        raise value.error(f"{value.path} says nothing", f"write one of {', '.join(_COLUMN_KEYS)}")
    drop = "drop" in said and said["drop"].flag()
    if drop and len(said) > 1:
        raise value.error(f"{value.path} drops the column and says more of it", "remove 'drop', or all but 'drop'")
    return ColumnRule(
        rename=said["rename"].text() if "rename" in said else None,
        drop=drop,
        cast=said["cast"].text() if "cast" in said else None,
    )


def _checks(said: Mapping[str, Value]) -> tuple[Check, ...]:
    default = _member(said, "on_check_failure", Action) or Action.FAIL
    if "checks" not in said:
        if "on_check_failure" in said:
            raise said["on_check_failure"].error("on_check_failure is there without checks", "add 'checks'")
        return ()
    made: list[Check] = []
    for column, conditions in said["checks"].mapping().items():
        items = [conditions] if conditions.is_mapping else conditions.items()
        for item in items:
            made += _conditions(column, item, default)
    return tuple(made)


def _conditions(column: str, value: Value, default: Action) -> list[Check]:
    """``not_null``, or ``{"> 0": warn}``."""
    if not value.is_mapping:
        return [_check(column, value, value.text(), default)]
    made = []
    for text, action in value.mapping().items():
        made.append(_check(column, action, text, Action(action.one_of(each.value for each in Action))))
    return made


def _check(column: str, value: Value, text: str, action: Action) -> Check:
    if text.strip().lower() == UNIQUE:
        if action is Action.DROP:
            raise value.error(
                "a check 'unique' cannot drop rows", "set it to fail or warn, or name the column in 'key'"
            )
        return Check(column, UNIQUE, None, action)
    try:
        return Check(column, text, condition_of(text, _files(value)), action)
    except SettingError as error:
        raise value.error(f"{value.path}: {error.message}", error.hint) from error


def _deletion(value: Value) -> Condition:
    return value.made(partial(named_condition_of, read=_files(value)))


def _files(value: Value) -> Read:
    """Reads the files that the condition ``value`` names, from the folder of the file that has it."""
    return partial(content_of, folder=Path(value.file).parent)


def _format(said: Mapping[str, Value]) -> Format:
    if "format" not in said:
        return Format.PARQUET
    return Format(said["format"].one_of(each.value for each in Format))


def _others(said: Mapping[str, Value]) -> tuple[Format, bool]:
    """The format, which is delta where ``also`` names it, and whether ``also`` names iceberg."""
    format = _format(said)
    if "also" not in said:
        return format, False
    value = said["also"]
    value.texts()
    named = [item.one_of((Format.DELTA.value, ICEBERG)) for item in value.items()]
    if format not in (Format.PARQUET, Format.DELTA):
        raise value.error(
            f"{value.path} describes parquet files, and the format is {format.value}", "remove 'also', or 'format'"
        )
    return (Format.DELTA if Format.DELTA.value in named else format), ICEBERG in named


def _written_at(value: Value, said: Mapping[str, Value]) -> dict[str, tuple[str, int]]:
    """Where each name stands that has to be one of the stream's."""
    written_at = {"": (value.file, value.line)}
    for key, each in said.items():
        written_at[key] = (each.file, each.line)
        if key in ("columns", "checks"):
            written_at |= {f"{key}.{name}": (below.file, below.line) for name, below in each.mapping().items()}
        elif key in ("key", "order_by", "sort_by", "partition_by"):
            written_at |= {f"{key}.{item.node.value}": (item.file, item.line) for item in each.items()}
    return written_at


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
            "the file of tables is a folder", hint=f"give --file FOLDER/{TABLES_FILE}", file=str(path)
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
