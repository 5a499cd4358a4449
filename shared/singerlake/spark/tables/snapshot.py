"""One snapshot of a table as a DataFrame of a session: the files that its state lists, whatever is published since."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from singerlake.spark.spark_types import arrow_schema, to_spark
from singerlake.spark.tables.reader import PARTITION_BYTES, PARTITION_FILES, ROWS
from singerlake.spark.tables.views import PATTERN
from singerlake.spark.worker_storage import worker_storage
from singerlake.storage.roots import FolderRoot, parse_root
from singerlake.tables.declaration.model import Format
from singerlake.tables.read import LakeTable
from singerlake.tables.rows.types import conformed
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile
from singerlake.tables.tasks.files import read_rows
from singerlake.work.batches import batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from singerlake.storage.settings import StorageSettings

_PARQUET = (Format.PARQUET, Format.DELTA)


def snapshot_frame(session: SparkSession, url: str, settings: StorageSettings | None, table: LakeTable) -> DataFrame:
    """The rows of ``table``; workers reach its lake by ``url`` and ``settings``. Spark's own reader reads parquet on a
    disk; else tasks read files through the lake's storage, so that Spark needs to know nothing of it. A task raises as
    ``read_rows``."""
    schema = to_spark(table.columns)
    files = table.files()
    if not files:
        return session.createDataFrame([], schema)
    on_disk = isinstance(parse_root(url), FolderRoot)
    if on_disk and PATTERN.isdisjoint(table.storage.url) and table.state.declaration.get("format") in _PARQUET:
        return session.read.schema(schema).parquet(*files)
    parts = batches(table.state.files, lambda file: file.bytes, size=PARTITION_BYTES, most=PARTITION_FILES)
    sent = [pickle.dumps(tuple(part)) for part in parts]
    read = partial(_rows, url, settings, table_prefix(table.name), arrow_schema(schema))

    # Spark itself sends Python's objects between driver and workers as pickles.
    def rows(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        for batch in places:
            for place in batch.column(0).to_pylist():
                yield from read(pickle.loads(sent[place]))  # noqa: S301

    return session.range(0, len(sent), 1, len(sent)).mapInArrow(rows, schema)


def _rows(
    url: str, settings: StorageSettings | None, prefix: str, schema: pa.Schema, files: Sequence[TableFile]
) -> Iterator[pa.RecordBatch]:
    storage = worker_storage(url, settings)
    for file in files:
        rows = read_rows(storage, prefix, file, schema.names)
        if rows is not None:
            yield from conformed(rows, schema).to_batches(ROWS)
