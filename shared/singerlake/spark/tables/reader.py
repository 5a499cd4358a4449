"""Tables through the Python Data Source: one snapshot, a task for some files each; or a table as of a moment, which one
task makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs
from pyspark.sql.datasource import DataSourceReader, InputPartition

from singerlake.adapters import open_storage
from singerlake.arrow.schema.columns import Struct
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.settings import STORAGE_SETTINGS, storage_settings
from singerlake.spark.options import absolute, named_as_options, names, storage
from singerlake.spark.spark_types import arrow_schema, to_spark
from singerlake.spark.worker_storage import require_lake, task_storage
from singerlake.storage.port import Storage
from singerlake.tables.compare.as_of import Past, Point
from singerlake.tables.read import LakeTable, require_columns
from singerlake.tables.rows.conform import conformed
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile, TableState
from singerlake.tables.tasks.files import read_rows
from singerlake.work.batches import batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


_KNOWN = ("path", "table", "columns", "as_of")
_MOST_DIGITS = 18
"""Of an offset."""


@dataclass(frozen=True)
class TableOptions:
    """Where and what to read; ``storage`` as in ``ReadOptions``, with secrets among it. ``columns`` None: all;
    ``as_of`` None: as the table is now."""

    path: str
    table: str
    columns: tuple[str, ...] | None = None
    as_of: Point | None = None
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @named_as_options()
    def settings(self) -> Any:
        return storage_settings(self.storage)


def table_options(given: Mapping[str, str]) -> TableOptions:
    """The options as Spark passes them, names in any case. Raises ``SettingError`` naming the option."""
    options = {name.lower(): value for name, value in given.items()}
    known = (*_KNOWN, *STORAGE_SETTINGS)
    for name in options:
        if name in ("tap", "stream"):
            raise SettingError(f"options 'table' and {name!r} exclude each other", hint="read a table or a stream")
        if name not in known:
            raise SettingError(f"option {name!r} is not known for a table", hint=f"use one of: {', '.join(known)}")
    for name in ("path", "table"):
        if not options.get(name, "").strip():
            raise SettingError(f"option {name!r} is missing", hint=f"set .option({name!r}, ...)")
    return TableOptions(
        path=absolute(options["path"]),
        table=options["table"],
        columns=names("columns", options),
        as_of=_point(options.get("as_of")),
        storage=storage(options),
    )


def _point(text: str | None) -> Point | None:
    if text is None:
        return None
    text = text.strip()
    if not text:
        raise SettingError("option 'as_of' names nothing", hint="name a moment, a commit or an offset")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else text


PARTITION_BYTES, PARTITION_FILES = 16 << 20, 64
"""Stored bytes, and files, of a partition: about as much work as one of a stream."""
_ROWS = 10_000
"""Of a batch, as Spark has them."""


@named_as_options()
def load_table(options: TableOptions) -> LakeTable:
    """The table that the options name, as it is now. Raises as ``LakeTable.load``."""
    return LakeTable.load(open_storage(options.path, options.settings()), options.table)


def schema_of(columns: Struct, options: TableOptions) -> StructType:
    """These columns of a table as Spark has them, or those that the options name. Raises ``UnknownNameError``."""
    whole = to_spark(columns)
    if options.columns is None:
        return whole
    require_columns(options.table, whole.names, options.columns)
    return type(whole)([whole[name] for name in options.columns])


class Snapshot(Protocol):
    """What a DataFrame reads for as long as it lives."""

    def reader(self, options: TableOptions, schema: StructType) -> DataSourceReader:
        """Reads it as ``schema``."""
        ...


def snapshot_of(options: TableOptions) -> tuple[Struct, Snapshot]:
    """The columns of the table that the options mean, and what is to be read of it. Raises as ``LakeTable.load``, with
    ``as_of`` as ``Lake.table``."""
    table = load_table(options)
    if options.as_of is None:
        return table.columns, FilesOf(table.state.files)
    state = structs.replace(table.state, files=(), retired=(), runs=())
    with named_as_options():
        past = _past(table.storage, options, state)
        stop = past.stop(options.as_of)
        return past.columns(stop), Then(state, stop)


def _past(storage: Storage, options: TableOptions, state: TableState) -> Past:
    return Past.of(Lake(storage, settings=options.settings()).table_maker(), state)


@dataclass(frozen=True)
class FilesOf:
    """A table as it is now."""

    files: tuple[TableFile, ...]

    def reader(self, options: TableOptions, schema: StructType) -> TableReader:
        return TableReader(options, self.files, schema)


@dataclass(frozen=True)
class Then:
    """A table of the messages before ``stop``, declared as ``state`` says, which names no files."""

    state: TableState
    stop: int

    def reader(self, options: TableOptions, schema: StructType) -> PastReader:
        return PastReader(options, self, schema)


@dataclass
class FilesPartition(InputPartition):
    files: tuple[TableFile, ...]


@dataclass(eq=False)
class TableReader(DataSourceReader):
    """Reads the files of one snapshot as ``schema``. Goes to every task by pickle, without the files of the others."""

    options: TableOptions
    files: Sequence[TableFile]
    schema: StructType

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "files": ()}

    def partitions(self) -> list[InputPartition]:
        parts = batches(self.files, lambda file: file.bytes, size=PARTITION_BYTES, most=PARTITION_FILES)
        return [FilesPartition(tuple(part)) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition. Raises ``MissingFileError``, ``BrokenFileError``, and what storage raises."""
        if isinstance(partition, FilesPartition):
            storage = task_storage(self.options.path, tuple(sorted(self.options.storage.items())))
            prefix = table_prefix(self.options.table)
            yield from read_files(storage, prefix, arrow_schema(self.schema), partition.files)


def read_files(
    storage: Storage, prefix: str, schema: pa.Schema, files: Iterable[TableFile]
) -> Iterator[pa.RecordBatch]:
    """The rows of ``files`` below ``prefix``. Raises as ``read_rows``."""
    for file in files:
        rows = read_rows(storage, prefix, file, schema.names)
        if rows is not None:
            yield from conformed(rows, schema).to_batches(_ROWS)


@dataclass(eq=False)
class PastReader(DataSourceReader):
    """Makes a table as it was and reads it as ``schema``, in one task. Nobody can say when a DataFrame is not needed
    any more, and tasks share no folder. So each action makes the table anew, in ``$TMPDIR`` of its task."""

    options: TableOptions
    then: Then
    schema: StructType

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """All rows. Raises as ``Lake.table``."""
        storage = task_storage(self.options.path, tuple(sorted(self.options.storage.items())))
        require_lake(storage, self.options.path)
        with named_as_options():
            made = _past(storage, self.options, self.then.state).made(self.then.stop)
        yield from read_files(made.storage, table_prefix(made.name), arrow_schema(self.schema), made.state.files)
