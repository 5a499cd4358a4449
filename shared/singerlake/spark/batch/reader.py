"""The batch reader: partitions planned on the driver, record batches made by the tasks."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition

from singerlake.arrow.decode.decode import BatchDecoder
from singerlake.arrow.plan.splits import Split
from singerlake.arrow.scan import scan, warn_of_misfits
from singerlake.arrow.schema.columns import Struct
from singerlake.arrow.values.known import KnownObject
from singerlake.errors import MissingFileError
from singerlake.spark.options import ReadOptions
from singerlake.spark.spark_types import arrow_schema
from singerlake.spark.worker_storage import require_lake, task_storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


_RUNS = msgspec.msgpack.Decoder(tuple[Split, ...])


@dataclass
class SplitsPartition(InputPartition):
    """The work of one task. Of many small files there are many runs: they travel as one string of bytes."""

    runs: tuple[Split, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return _partition, (msgspec.msgpack.encode(self.runs),)


def _partition(runs: bytes) -> SplitsPartition:
    return SplitsPartition(_RUNS.decode(runs))


@dataclass(eq=False)
class SingerlakeReader(DataSourceReader):
    """Reads one plan. Goes to every task by pickle, without the list of the other tasks' partitions."""

    options: ReadOptions
    prefix: str
    schema: StructType
    columns: Struct
    known: KnownObject | None
    parts: Sequence[tuple[Split, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "parts": ()}

    def partitions(self) -> list[InputPartition]:
        return [SplitsPartition(part) for part in self.parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition. Spark makes up a partition of nothing where there are none. Raises
        ``ValueDoesNotFitError``, ``BrokenFileError``, ``MissingFileError``, and what the storage raises."""
        return self._batches(partition.runs) if isinstance(partition, SplitsPartition) else iter(())

    def _batches(self, parts: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        storage = task_storage(self.options.path, tuple(sorted(self.options.storage.items())))
        decoder = BatchDecoder(self.columns, arrow_schema(self.schema), self.options.request, self.known)
        try:
            yield from scan(storage, self.prefix, parts, decoder)
        except MissingFileError:
            require_lake(storage, self.options.path)
            raise
        warn_of_misfits(decoder, f"{self.options.tap}/{self.options.stream}")
        if TaskContext.get() is not None:
            _spare_the_collector()


@lru_cache(maxsize=1)
def _spare_the_collector() -> None:
    """Once in a Python worker: leave out what was imported when looking for garbage. Spark's ``pyspark/daemon.py``
    collects after every task, which goes through all objects of all modules each time: 30 to 50 ms where Arrow has
    imported pandas, as long as decoding 15 MB."""
    gc.freeze()
