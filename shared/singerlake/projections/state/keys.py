"""Where tables lie on storage. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from singerlake.errors import CorruptObjectError, NameTooLongError, SettingError
from singerlake.format.layout import from_segment, to_segment
from singerlake.storage.keys import is_key

PUBLISHED, STATE, SCRATCH, SIDE, DELTA_LOG = "published", "_table.json", "_scratch", "_side", "_delta_log"
FOLDER_LIMIT = 240
"""Bytes of a partition's folder; file systems take 255."""
TABLE_LIMIT = 160
"""Bytes of a table's segment: it stands in file names, too."""


def table_segment(table: str) -> str:
    """The segment of a table's name. Raises ``SettingError`` where it is empty, ``NameTooLongError``."""
    if not table:
        raise SettingError("a table's name is empty", hint="give it a name")
    segment = to_segment(table)
    if len(segment) > TABLE_LIMIT:
        raise NameTooLongError(
            f"table name takes {len(segment)} bytes as a path segment, {TABLE_LIMIT} at most",
            hint="give the table a shorter name",
            begins=segment[:60],
        )
    return segment


def table_prefix(table: str) -> str:
    """Everything of one table; ends in ``/``. Paths in its state are relative to this."""
    return f"{PUBLISHED}/{table_segment(table)}/"


def state_key(table: str) -> str:
    return table_prefix(table) + STATE


def table_of(folder: str) -> str | None:
    """The table whose folder below ``published/`` this is; None where no table's is."""
    return from_segment(folder.rstrip("/"))


def file_path(table: str, generation: int, partition: Sequence[tuple[str, str]], file_id: str, extension: str) -> str:
    """A new data file's path relative to ``table_prefix``; ``partition`` are names and values. Raises
    ``NameTooLongError``."""
    folders = ""
    for name, value in partition:
        # Behind a name and "=" DuckDB, pandas and Spark read a value of that column from the path: text as a number,
        # null for an empty one.
        folder = f"{partition_segment(name)}-{partition_segment(value)}"
        if len(folder) > FOLDER_LIMIT:
            raise NameTooLongError(
                f"a value of partition {name!r} takes {len(folder)} bytes in a path, {FOLDER_LIMIT} at most",
                hint="partition by a column with shorter values, or use it in 'sort_by'",
                table=table,
            )
        folders += f"{folder}/"
    return f"g{generation}/{folders}{table_segment(table)}-{file_id}.{extension}"


def side_path(kind: str, file_id: str) -> str:
    """A new file that goes with the data file of that id, relative to ``table_prefix``."""
    return f"{SIDE}/{file_id}.{kind}.parquet"


def scratch_path(run: str, file_id: str) -> str:
    """A new file that tasks of one run hand to each other, relative to ``table_prefix``."""
    return f"{SCRATCH}/{run}-{file_id}.arrow"


def checked_path(path: str, key: str) -> str:
    """A path that a table's state names. Raises ``CorruptObjectError`` where it leads out of the table's folder."""
    if not is_key(path):
        raise CorruptObjectError("a table names a file that no key can be", hint="restore it", key=key)
    return path


_KEPT_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_. ")


def partition_segment(text: str) -> str:
    """A partition's name or value with percent escapes, so that none leads out of its folder."""
    escaped = "".join(
        chr(byte) if byte in _KEPT_BYTES else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass")
    )
    if escaped.startswith((".", "_")):
        # Readers that list folders leave out names that begin so, and adapters keep some of them for themselves.
        escaped = f"%{ord(escaped[0]):02X}{escaped[1:]}"
    return escaped if escaped.strip(". ") else "".join(f"%{byte:02X}" for byte in escaped.encode()) or "%00"
