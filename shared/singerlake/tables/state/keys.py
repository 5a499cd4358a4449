"""Where tables lie on storage. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from singerlake.errors import NameTooLongError, SettingError
from singerlake.format.layout import from_segment, to_segment

PUBLISHED, STATE, SCRATCH, SIDE, DELTA_LOG = "published", "_table.json", "_scratch", "_side", "_delta_log"
ICEBERG_METADATA = "metadata"
STATES = "_states"
FOLDER_LIMIT = 240
"""Bytes of a partition's folder; file systems take 255."""
TABLE_LIMIT = 180
"""Bytes of a table's segment: it stands in file names, too. Every name of a stream may be one."""


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


def table_of_state(key: str) -> str | None:
    """The table whose state ``state_key`` puts there; None where it puts none there."""
    first, _, rest = key.partition("/")
    folder, _, name = rest.partition("/")
    return table_of(folder) if (first, name) == (PUBLISHED, STATE) else None


def kept_state_key(table: str, id: str) -> str:
    """Where the state of that id is kept while a database says which state is the newest."""
    return f"{table_prefix(table)}{STATES}/{id}.json"


def table_of(folder: str) -> str | None:
    """The table whose folder below ``published/`` this is; None where no table's is."""
    return from_segment(folder.rstrip("/"))


def file_path(table: str, generation: int, partition: Sequence[tuple[str, str]], file_id: str, extension: str) -> str:
    """A new data file's path relative to ``table_prefix``; ``partition`` are names and values. Raises
    ``NameTooLongError``."""
    folders = ""
    for name, value in partition:
        folder = partition_folder(name, value)
        if len(folder) > FOLDER_LIMIT:
            raise NameTooLongError(
                f"a value of partition {name!r} takes {len(folder)} bytes in a path, {FOLDER_LIMIT} at most",
                hint="partition by a column with shorter values, or use it in 'sort_by'",
                table=table,
            )
        folders += f"{folder}/"
    return f"g{generation}/{folders}{table_segment(table)}-{file_id}.{extension}"


def partition_folder(name: str, value: str) -> str:
    """The folder of the files with that value."""
    # Behind a name and "=" DuckDB, pandas and Spark read a value of that column from the path: text as a number, null
    # for an empty one.
    return f"{partition_segment(name)}-{partition_segment(value)}"


def side_path(kind: str, file_id: str) -> str:
    """A new file that goes with the data file of that id, relative to ``table_prefix``."""
    return f"{SIDE}/{file_id}.{kind}.parquet"


def scratch_path(run: str, file_id: str) -> str:
    """A new file that tasks of one run hand to each other, relative to ``table_prefix``."""
    return f"{SCRATCH}/{run}-{file_id}.arrow"


def is_data_path(path: str, table: str) -> bool:
    """Whether ``file_path`` may have made it for this table."""
    folder, _, name = path.rpartition("/")
    first, *folders = folder.split("/")
    segment, dash, rest = name.rpartition("-")
    return (
        bool(_GENERATION.fullmatch(first))
        and all(_PARTITION.fullmatch(folder) for folder in folders)
        and bool(dash and segment == table_segment(table) and _ID_AND_EXTENSION.fullmatch(rest))
    )


def is_side_path(path: str) -> bool:
    """Whether ``side_path`` may have made it."""
    return bool(_SIDE_PATH.fullmatch(path))


_GENERATION = re.compile("g[1-9][0-9]{0,17}")
_SEGMENT = "(?![_.])(?:[A-Za-z0-9_. -]|%[0-9A-F]{2})+"
_PARTITION = re.compile(f"{_SEGMENT}-{_SEGMENT}")
_ID_AND_EXTENSION = re.compile(r"[0-9a-v]{16}\.(?:parquet|csv|jsonl|avro)")
_SIDE_PATH = re.compile(rf"{SIDE}/[0-9a-v]{{16}}\.(?:hidden|typed)\.parquet")
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
