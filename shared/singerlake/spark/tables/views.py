"""Tables as DataFrames and as SQL views."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from singerlake.arrow.schema.columns import Column

PATTERN = frozenset("*?[]{}\\")
"""What is not part of a name in the paths that Spark's own readers take. Names below the root hold none of it."""


def read_table(spark: SparkSession, path: str, table: str, **options: Any) -> DataFrame:
    """One snapshot of a table of the lake at ``path``. Spark's own reader reads the files where they are parquet on a
    disk, which skips files and columns that a query does not need. Elsewhere, and where that reader would take the
    path for a pattern or two nested fields for one, the format ``singerlake`` does, whose ``options`` these are; so it
    does for a table ``as_of`` a moment, a commit or an offset. Raises ``SettingError``, ``UnknownNameError``, and what
    reading the table's state raises."""
    from singerlake.spark.options import text_of
    from singerlake.spark.tables.reader import load_table, schema_of, table_options
    from singerlake.storage.roots import FolderRoot, parse_root

    given = {"path": path, "table": table, **{name: text_of(value) for name, value in options.items()}}
    wanted = table_options(given)
    if wanted.as_of is not None:
        return spark.read.format("singerlake").options(**given).load()
    there = load_table(wanted)
    on_disk = isinstance(parse_root(wanted.path), FolderRoot)
    is_pattern = not PATTERN.isdisjoint(there.storage.url)
    is_parquet = there.state.declaration.get("format") == "parquet"
    if not on_disk or is_pattern or not is_parquet or _has_equal_fields(there.columns):
        return spark.read.format("singerlake").options(**given).load()
    schema = schema_of(there.columns, wanted)
    files = there.files()
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)


def create_views(
    spark: SparkSession, path: str, tables: Collection[str] | None = None, **options: Any
) -> dict[str, DataFrame]:
    """Make a temporary view of each of ``tables``, None: of all that are published, named as the table is; gives their
    DataFrames. Each is one snapshot: call it again to see what was published since. Raises ``SettingError`` where
    names of two differ in case alone, which Spark does not tell apart, and as ``read_table``."""
    from singerlake.adapters import open_storage
    from singerlake.spark.options import text_of
    from singerlake.spark.tables.reader import table_options
    from singerlake.tables.state.commit import load
    from singerlake.tables.state.commit import tables as all_tables

    if tables is None:
        wanted = table_options(
            {"path": path, "table": "*", **{name: text_of(value) for name, value in options.items()}}
        )
        storage = open_storage(wanted.path, wanted.settings())
        states = ((name, load(storage, name)) for name in all_tables(storage))
        tables = [name for name, found in states if found is not None and found.state.is_published]
    _refuse_equal(tables)
    made = {name: read_table(spark, path, name, **options) for name in tables}
    for name, frame in made.items():
        frame.createOrReplaceTempView(f"`{name.replace('`', '``')}`")
    return made


def _has_equal_fields(column: Column) -> bool:
    """Whether names of two fields of one object differ in case alone."""
    from singerlake.arrow.schema.columns import Array, Struct

    if isinstance(column, Array):
        return _has_equal_fields(column.element)
    if not isinstance(column, Struct):
        return False
    names = {field.name.lower() for field in column.fields}
    return len(names) < len(column.fields) or any(_has_equal_fields(field.type) for field in column.fields)


def _refuse_equal(tables: Collection[str]) -> None:
    from singerlake.errors import SettingError

    known: dict[str, str] = {}
    for name in tables:
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise SettingError(
                f"tables {other!r} and {name!r} would be one view: Spark tells no upper case from lower case",
                hint="give 'tables' with one of them, and read the other with read_table",
            )
