"""The batch reader: partitions planned on the driver, record batches made by the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from singerlake.adapters import open_storage
from singerlake.arrow.columns import Struct
from singerlake.arrow.decode import BatchDecoder, Origin
from singerlake.arrow.splits import Run, pack, runs
from singerlake.errors import MissingFile
from singerlake.settings import s3_settings
from singerlake.singer_file import Block, read_blocks
from singerlake.spark.options import ReadOptions
from singerlake.spark.snapshot import Pin, declared, open_stream, selected
from singerlake.spark.spark_types import arrow_schema, requested
from singerlake.storage.port import Storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class RunsPartition(InputPartition):
    """The work of one task."""

    runs: tuple[Run, ...]


def plan(options: ReadOptions, pinned: Pin, schema: StructType) -> SingerlakeReader:
    """A reader of ``pinned`` as ``schema``. Raises ``Rebuilt``, ``UnknownName`` for
    a column nobody declared, ``SettingError`` for a type no value has."""
    stream = open_stream(options)
    manifest = stream.snapshot()
    files = selected(manifest, pinned)
    columns = requested(schema, declared(manifest, files, metadata=options.metadata))
    pieces = runs(files, pinned.first, pinned.stop, options.partition_bytes)
    return SingerlakeReader(options, stream.prefix, schema, columns, pack(pieces, options.partition_bytes))


class SingerlakeReader(DataSourceReader):
    """Reads one plan. Goes to every task by pickle, without the list of the other tasks' partitions."""

    def __init__(
        self,
        options: ReadOptions,
        prefix: str,
        schema: StructType,
        columns: Struct,
        partitions: Sequence[tuple[Run, ...]],
    ) -> None:
        self._options = options
        self._prefix = prefix
        self._schema = schema
        self._columns = columns
        self._partitions = tuple(partitions)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_partitions": ()}

    def partitions(self) -> list[InputPartition]:
        """One for each task."""
        return [RunsPartition(part) for part in self._partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition. Spark makes up a partition of nothing where there are none.

        Raises ``ValueDoesNotFit``, ``BrokenFile``, ``MissingFile``, and what the storage raises.
        """
        return self._batches(partition.runs) if isinstance(partition, RunsPartition) else iter(())

    def _batches(self, parts: Sequence[Run]) -> Iterator[pa.RecordBatch]:
        storage = _storage(self._options.path, tuple(sorted(self._options.storage.items())))
        decoder = BatchDecoder(self._columns, arrow_schema(self._schema), metadata=self._options.metadata)
        for run in parts:
            origin = Origin(run.part.path, run.part.version)
            for block in _blocks(storage, self._prefix + run.part.path, run):
                yield from decoder.batches(block, origin)


@lru_cache(maxsize=8)
def _storage(path: str, settings: tuple[tuple[str, Any], ...]) -> Storage:
    """One storage for all tasks of a Python worker, which Spark uses again: a client of S3 takes a while to make."""
    return open_storage(path, s3_settings(dict(settings)))


def _blocks(storage: Storage, key: str, run: Run) -> Iterator[Block]:
    """The messages that are meant, and no others; the members are read to their end all the same, and checked."""
    try:
        with storage.open(key, run.start, run.end) as stream:
            for block in read_blocks(stream, run.part, key=key):
                if block.offset >= run.first and block.offset + block.messages <= run.stop:
                    yield block
                    continue
                first, stop = max(run.first, block.offset), min(run.stop, block.offset + block.messages)
                if first < stop:
                    yield block.first(stop - block.offset).after(first - block.offset)
    except MissingFile as error:
        raise MissingFile(
            "a data file is gone: this DataFrame was loaded before the file was removed",
            hint="load it again; if the file is still missing then, run 'singerlake verify'",
            file=key,
        ) from error
