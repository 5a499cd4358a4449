"""The batch writer: tasks upload data files that nothing lists, the driver commits all of them in one transaction.

In a task lines wait until they make a member, members make files, and a full file is uploaded at once.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from singerlake.adapters import MANIFEST_STORES, open_storage
from singerlake.arrow.schema.own import OF_READS
from singerlake.arrow.to_lines import PIECE_BYTES, LineEncoder, pieces
from singerlake.clock import IdSource, SystemClock, random_id, timestamp
from singerlake.errors import CommitRefusedError, SettingError, SingerlakeError, UnknownNameError, ValueDoesNotFitError
from singerlake.format.extra_fields import FileHeader
from singerlake.format.file_id import timed_id
from singerlake.format.layout import file_path, stream_prefix
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Run, StreamSchema
from singerlake.lake import Lake
from singerlake.lock_file import LockSettings
from singerlake.settings import SNAPSHOT_SETTINGS, STORE_SETTINGS, storage_settings, store_settings
from singerlake.singer_file import MEMBER_BYTES, Spool, compress_member, spool_error
from singerlake.spark.options import absolute, checked, named_as_options, names, storage, whole
from singerlake.spools import SpoolFolder, Spools
from singerlake.storage.port import Storage
from singerlake.stores.writer import StreamWriter, Upload

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as spark
    from pyspark.sql.types import StructType


logger = logging.getLogger(__name__)

_UPLOADED = Path(os.devnull, "uploaded")
"""Where a spool is that is gone: nowhere."""


@dataclass
class WrittenFiles(WriterCommitMessage):
    """What one task tells the driver: the files it uploaded, in order."""

    files: tuple[NewFile, ...]


def prepare(options: WriteOptions, schema: StructType, overwrite: bool) -> SingerlakeWriter:
    """A writer of rows of ``schema``, for which the stream is there when this returns; nothing else is changed. Raises
    ``SettingError``, ``UnknownNameError`` for what cannot be written, and what opening a stream to write raises."""
    if overwrite:
        raise SettingError(
            "mode 'overwrite' would take records out of the lake, and a raw lake only ever grows",
            hint="use .mode('append'), and read with from_version or from_offset; or write another stream",
        )
    content = StreamSchema(schema=json_schema(schema, options.key_properties), key_properties=options.key_properties)
    message = {
        "type": "SCHEMA",
        "stream": options.stream,
        "schema": content.schema,
        "key_properties": content.key_properties,
    }
    clock, run = SystemClock(), random_id()
    moment = clock.now()
    writer_id = f"{socket.gethostname()}-{os.getpid()}-{run}"
    writer = _stream_writer(options.lake(), options, writer_id)
    job = Job(
        tap=options.tap,
        stream=options.stream,
        version=writer.version_of(content.schema),
        schema_line=msgspec.json.encode(message),
        run=run,
        moment=moment,
        compression_level=options.compression_level,
        max_file_bytes=options.max_file_bytes,
        max_file_records=options.max_file_records,
        lake_id=writer.lake_id,
    )
    return SingerlakeWriter(options, content, job, writer_id)


class SingerlakeWriter(DataSourceArrowWriter):
    """Writes one DataFrame to one stream. Goes to every task, and to the process that commits, by pickle."""

    def __init__(self, options: WriteOptions, content: StreamSchema, job: Job, writer_id: str) -> None:
        self._options = options
        self._content = content
        self._job = job
        self._writer_id = writer_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Upload the rows of one partition. Every attempt has files of its own; those of one that fails are never
        listed. Raises ``ValueDoesNotFitError`` naming the column, and what the storage raises."""
        options, job = self._options, self._job
        storage = open_storage(options.path, storage_settings(options.storage))
        encoder = LineEncoder(job.stream, timestamp(job.moment), variant=_variant_text)
        with _spool_folder(options.spool_dir) as folder:
            files = TaskFiles(storage, job, folder, _task(), ids=random_id)
            for batch in iterator:
                _check_keys(batch, self._content.key_properties)
                for piece in pieces(batch, min(PIECE_BYTES, job.max_file_bytes or PIECE_BYTES)):
                    start = 0
                    while start < piece.num_rows:
                        part = piece.slice(start, files.room)
                        files.add(encoder.lines(part), part.num_rows)
                        start += part.num_rows
            return WrittenFiles(files.close())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """List the files of all tasks at once, in the order of the tasks. Raises as ``StreamWriter.submit``."""
        files: list[NewFile] = []
        for message in messages:
            if not isinstance(message, WrittenFiles):
                raise CommitRefusedError("a task did not report what it wrote", hint="nothing was committed; run again")
            files += message.files
        lake = self._options.lake()
        writer = _stream_writer(lake, self._options, self._writer_id)
        run = self._run(lake, "finished")
        if files:
            receipt = writer.submit([Upload(_UPLOADED, file, self._content) for file in files], run)
        else:
            writer.keep_schema(self._content, self._job.run)
            receipt = writer.record(run)
        manifest = writer.settled(receipt)
        try:
            writer.finish()
            lake.announce(manifest)
        except SingerlakeError as error:
            # To fail now would have the job run again, and its rows be there twice.
            logger.warning(
                "the rows are committed; the next commit brings manifest.json and the catalogue up to date: %s", error
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Have the stream's log say that the run failed, as far as the lake still answers. Nothing is deleted: a commit
        whose outcome is not known may have listed the files."""
        lake = self._options.lake()
        try:
            writer = _stream_writer(lake, self._options, self._writer_id)
            if all(run.id != self._job.run for run in writer.open().runs):
                writer.settled(writer.record(self._run(lake, "failed")))
                writer.finish()
        except SingerlakeError as error:
            logger.warning("could not record that the write failed: %s", error)

    def _run(self, lake: Lake, status: str) -> Run:
        return Run(
            id=self._job.run,
            writer=self._writer_id,
            started=timestamp(self._job.moment),
            updated=timestamp(lake.clock.now()),
            status=status,
        )


@named_as_options()
def _stream_writer(lake: Lake, options: WriteOptions, writer_id: str) -> StreamWriter:
    writer = lake.stream(options.tap, options.stream).writer(
        writer_id=writer_id, store=options.manifest_store, lock=options.lock
    )
    writer.open()
    return writer


def _spool_folder(parent: str | None) -> SpoolFolder:
    try:
        return Spools(parent).make()
    except OSError as error:
        raise spool_error(error, Path(parent or tempfile.gettempdir(), "spool")) from error


def _task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context else 0


def _check_keys(batch: pa.RecordBatch, key_properties: Sequence[str]) -> None:
    for name in key_properties:
        nulls = batch.column(batch.schema.get_field_index(name)).null_count
        if nulls:
            raise ValueDoesNotFitError(
                f"key property {name!r} is null in {nulls} rows",
                hint="filter them out, or leave it out of option 'key_properties'",
            )


def _variant_text(value: bytes, metadata: bytes) -> str:
    from pyspark.sql.types import VariantVal

    return VariantVal(value, metadata).toJson()


_TASK_FILES = 1 << 32
"""More files than one task ever writes, so that the numbers of tasks' files follow the order of the tasks."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all files of one write have in common: the stream, its schema's ``version`` (the hash) and SCHEMA line,
    the run, and the moment that counts as every record's extraction. Limits as in ``WriteOptions``."""

    tap: str
    stream: str
    version: str
    schema_line: bytes
    run: str
    moment: datetime
    compression_level: int
    max_file_bytes: int
    max_file_records: int
    lake_id: str | None = None


class TaskFiles:
    """The files of one attempt at one task, in the order of its rows. They are on storage, and listed nowhere, when
    ``close`` gives them. ``folder`` holds at most one of them at a time."""

    def __init__(self, storage: Storage, job: Job, folder: Path, task: int, *, ids: IdSource) -> None:
        self._storage = storage
        self._job = job
        self._folder = folder
        self._ids = ids
        self._sequence = task * _TASK_FILES
        self._prefix = stream_prefix(job.tap, job.stream)
        self._member_bytes = min(MEMBER_BYTES, job.max_file_bytes or MEMBER_BYTES)
        self._parts: list[bytes] = []
        self._size = 0
        self._records = 0
        self._spool: Spool | None = None
        self._uploaded: list[NewFile] = []

    @property
    def room(self) -> int | None:
        """Records that the file which grows may still take; None: no limit."""
        limit = self._job.max_file_records
        return limit - self._records - (self._spool.records if self._spool else 0) if limit else None

    def add(self, lines: bytes, records: int) -> None:
        """Whole RECORD lines, no more than ``room``. Raises what storage raises, ``StorageFullError``,
        ``AccessDeniedError`` and ``StorageUnavailableError`` of the spool."""
        self._parts.append(lines)
        self._size += len(lines)
        self._records += records
        if self._size >= self._member_bytes:
            self._close_member()
        if self.room == 0 or (self._spool and 0 < self._job.max_file_bytes <= self._spool.bytes):
            self._close_file()

    def close(self) -> tuple[NewFile, ...]:
        """All files of the task. Raises as ``add``."""
        self._close_file()
        return tuple(self._uploaded)

    def _close_member(self) -> None:
        if not self._records:
            return
        raw = b"".join(self._parts)
        member = compress_member(raw, self._job.compression_level)
        spool = self._spool or self._open_file()
        try:
            spool.append(member, raw_bytes=len(raw), messages=self._records, records=self._records)
        except OSError as error:
            raise spool_error(error, spool.path) from error
        self._parts, self._size, self._records = [], 0, 0

    def _open_file(self) -> Spool:
        self._sequence += 1
        job = self._job
        header = FileHeader(
            id=timed_id(job.moment, self._ids()),
            created=timestamp(job.moment),
            run=job.run,
            seq=self._sequence,
            lake_id=job.lake_id,
        )
        path = self._folder / header.id
        try:
            self._spool = Spool(path, job.schema_line, header, level=job.compression_level)
        except OSError as error:
            raise spool_error(error, path) from error
        return self._spool

    def _close_file(self) -> None:
        self._close_member()
        spool, job = self._spool, self._job
        if spool is None:
            return
        when = timestamp(job.moment)
        path = file_path(job.stream, job.version, job.moment, job.moment, spool.header.id)
        self._storage.upload(self._prefix + path, spool.path)
        self._uploaded.append(spool.describe(path=path, version=job.version, first=when, last=when))
        spool.path.unlink(missing_ok=True)
        self._spool = None


_RESERVED = tuple(field.name for field in OF_READS.fields)
_HINTS = {
    "binary": "write base64(...) of it",
    "map": "make its keys strings: map_from_arrays(transform(map_keys(m), k -> string(k)), map_values(m))",
}
"""What to do with a type that JSON has no counterpart of; others are best written as strings."""
_BITS = {"ByteType": 8, "ShortType": 16, "IntegerType": 32, "LongType": 64}


def json_schema(schema: spark.StructType, key_properties: Sequence[str]) -> dict[str, Any]:
    """The schema of the RECORDs of rows of ``schema``. The columns of ``key_properties`` are never null. Raises
    ``SettingError`` for a column that JSON or a reader of the lake cannot hold, ``UnknownNameError`` for a key that is
    not a column."""
    if not schema.fields:
        raise SettingError("the DataFrame has no columns", hint="select at least one")
    for name in key_properties:
        if name not in schema.names:
            raise UnknownNameError(
                f"key property {name!r} is not a column", hint=f"there are: {', '.join(schema.names)}"
            )
    reserved = [name for name in schema.names if name in _RESERVED]
    if reserved:
        raise SettingError(
            f"column {reserved[0]!r} has a name that reading a lake gives to a column of its own",
            hint=f"drop it: df.drop({', '.join(map(repr, reserved))}); or rename it",
        )
    return {"type": "object", "properties": _properties(schema, "", key_properties)}


def _properties(schema: spark.StructType, prefix: str, never_null: Sequence[str] = ()) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for each in schema.fields:
        path = prefix + each.name
        if each.name in properties:
            raise SettingError(f"two columns have the name {path!r}", hint="rename one of them")
        nullable = each.nullable and each.name not in never_null
        properties[each.name] = _property(each.dataType, nullable, path)
    return properties


def _property(kind: spark.DataType, nullable: bool, path: str) -> dict[str, Any]:
    from pyspark.sql import types as spark

    if isinstance(kind, spark.VariantType):
        return {}
    if isinstance(kind, spark.NullType):
        return {"type": "null"}
    described = _described(kind, path)
    if nullable:
        described["type"] = ["null", described["type"]]
    return described


def _described(kind: spark.DataType, path: str) -> dict[str, Any]:
    """The keywords of one type, with a single name under ``type``."""
    from pyspark.sql import types as spark

    if isinstance(kind, spark.StructType):
        return {"type": "object", "properties": _properties(kind, path + ".")}
    if isinstance(kind, spark.ArrayType):
        return {"type": "array", "items": _property(kind.elementType, kind.containsNull, path + "[]")}
    if isinstance(kind, spark.MapType) and isinstance(kind.keyType, spark.StringType):
        values = _property(kind.valueType, kind.valueContainsNull, path + "{}")
        return {"type": "object", "additionalProperties": values}
    if isinstance(kind, spark.DecimalType) and 0 <= kind.scale <= kind.precision:
        return {"type": "string", "format": "singer.decimal", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, spark.IntegralType):
        # A target that knows the bounds makes a column as wide as it has to be.
        limit = 1 << (_BITS[type(kind).__name__] - 1)
        return {"type": "integer", "minimum": -limit, "maximum": limit - 1}
    if isinstance(kind, spark.StringType | spark.CharType | spark.VarcharType):
        return {"type": "string"}
    simple: dict[type[spark.DataType], dict[str, Any]] = {
        spark.BooleanType: {"type": "boolean"},
        spark.FloatType: {"type": "number"},
        spark.DoubleType: {"type": "number"},
        spark.DateType: {"type": "string", "format": "date"},
        spark.TimestampType: {"type": "string", "format": "date-time"},
        spark.TimestampNTZType: {"type": "string", "format": "date-time"},
    }
    if type(kind) not in simple:
        raise SettingError(
            f"column {path!r} is of the type {kind.simpleString()}, for which JSON has no counterpart",
            hint=_HINTS.get(kind.typeName(), "write it as a string: cast(... as string)"),
        )
    return dict(simple[type(kind)])


OPTIONAL = (
    "key_properties",
    "manifest_store",
    "compression_level",
    "max_file_bytes",
    "max_file_records",
    "spool_dir",
    "lock_max_wait_seconds",
    "lock_stale_after_seconds",
    "lock_refresh_seconds",
)
_LOCK = LockSettings()


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Where and how to write. ``path`` is the lake root, absolute where it is local; ``storage`` and ``stores`` hold
    the options of S3 and of the manifest stores under the names of the plugins' settings, secrets among them, and are
    not shown. ``max_file_bytes`` (compressed) and ``max_file_records`` of 0 mean no limit."""

    path: str
    tap: str
    stream: str
    key_properties: tuple[str, ...] = ()
    manifest_store: str | None = None
    compression_level: int = 1
    max_file_bytes: int = 128 << 20
    max_file_records: int = 0
    spool_dir: str | None = None
    lock: LockSettings = field(default_factory=LockSettings)
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)
    stores: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @named_as_options()
    def lake(self) -> Lake:
        """The lake these options name, whether it is there or not."""
        return Lake.open(self.path, storage_settings(self.storage), store_settings(self.stores))


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options as Spark passes them, names in any case. Raises ``SettingError`` naming the option."""
    options = checked(given, (*OPTIONAL, *STORE_SETTINGS, *SNAPSHOT_SETTINGS))
    keys = names("key_properties", options) or ()
    if len(set(keys)) != len(keys):
        raise SettingError("option 'key_properties' names a column twice", hint="name it once")
    return WriteOptions(
        path=absolute(options["path"]),
        tap=options["tap"],
        stream=options["stream"],
        key_properties=keys,
        manifest_store=_manifest_store(options.get("manifest_store", "")),
        compression_level=whole("compression_level", options, default=1, least=1, most=9),
        max_file_bytes=whole("max_file_bytes", options, default=128 << 20, least=0),
        max_file_records=whole("max_file_records", options, default=0, least=0),
        spool_dir=options.get("spool_dir", "").strip() or None,
        lock=LockSettings(
            max_wait=whole("lock_max_wait_seconds", options, default=int(_LOCK.max_wait), least=0),
            stale_after=whole("lock_stale_after_seconds", options, default=int(_LOCK.stale_after), least=1),
            refresh=whole("lock_refresh_seconds", options, default=int(_LOCK.refresh), least=1),
        ),
        storage=storage(options),
        stores={name: options[name] for name in (*STORE_SETTINGS, *SNAPSHOT_SETTINGS) if name in options},
    )


def _manifest_store(text: str) -> str | None:
    kind = text.strip().lower()
    if kind and kind not in MANIFEST_STORES:
        known = ", ".join(MANIFEST_STORES)
        raise SettingError(f"option 'manifest_store' is not one of {known}", hint="leave it out for the lake's own")
    return kind or None
