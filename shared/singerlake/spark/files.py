"""The bytes of attached files as a column, read by tasks. Cheap to import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column


def file_bytes(column: Column | str, path: str, **options: Any) -> Column:
    """A column of the bytes (binary) of attached files of the lake at ``path``. ``column`` holds the ``path`` of a file
    as ``_singerlake_files`` has it; null gives null. ``options`` are those of the format that say how to reach the
    lake; tasks use them, and read and check each file whole. Needs pyspark 4.1 or newer.

    Raises ``SettingError``. A task raises ``MissingFileError``, ``BrokenFileError``, ``ValueDoesNotFitError`` for a
    file of 2 GiB or more, ``SettingError`` for what is not an attached file of this lake, and what the storage raises.

    Example:
        >>> files = frame.selectExpr("id", "explode(_singerlake_files) AS file")
        >>> files.withColumn("content", file_bytes("file.path", "s3://bucket/lake"))
    """
    import pyarrow as pa
    from pyspark.sql import functions
    from pyspark.sql.types import BinaryType

    from singerlake.errors import SettingError
    from singerlake.settings import STORAGE_SETTINGS
    from singerlake.spark.file_reader import FileReader
    from singerlake.spark.options import absolute, storage, text_of

    if not hasattr(functions, "arrow_udf"):
        raise SettingError(
            "file_bytes needs pyspark 4.1 or newer", hint="upgrade pyspark, or open files by LakeStream.open_file"
        )
    given = {name.lower(): text_of(value) for name, value in options.items()}
    unknown = next((name for name in given if name not in STORAGE_SETTINGS), None)
    if unknown is not None:
        raise SettingError(f"option {unknown!r} is not known", hint=f"use one of: {', '.join(STORAGE_SETTINGS)}")
    reader = FileReader(absolute(path), tuple(sorted(storage(given).items())))

    def file_bytes(paths: Any) -> Any:
        return reader(paths)

    # By these Spark knows what kind of function it is; those above would be texts.
    file_bytes.__annotations__ = {"paths": Iterator[pa.Array], "return": Iterator[pa.Array]}
    made: Column = functions.arrow_udf(file_bytes, BinaryType())(column)
    return made
