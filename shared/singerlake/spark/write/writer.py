"""The batch writer: tasks upload data files that nothing lists, the driver commits all of them in one transaction."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from singerlake.adapters import open_storage
from singerlake.arrow.to_lines import PIECE_BYTES, LineEncoder, pieces
from singerlake.clock import SystemClock, random_id, timestamp
from singerlake.errors import CommitRefusedError, SettingError, SingerlakeError, ValueDoesNotFitError
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Run, StreamSchema
from singerlake.lake import Lake
from singerlake.settings import storage_settings
from singerlake.singer_file import spool_error
from singerlake.spark.option_values import named_as_options
from singerlake.spark.write.files import Job, TaskFiles
from singerlake.spark.write.options import WriteOptions
from singerlake.spark.write.schema import json_schema
from singerlake.spools import SpoolFolder, Spools
from singerlake.stores.writer import StreamWriter, Upload

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

logger = logging.getLogger(__name__)

_UPLOADED = Path(os.devnull, "uploaded")
"""Where a spool is that is gone: nowhere."""


@dataclass
class WrittenFiles(WriterCommitMessage):
    """What one task tells the driver: the files it uploaded, in order."""

    files: tuple[NewFile, ...]


def prepare(options: WriteOptions, schema: StructType, overwrite: bool) -> SingerlakeWriter:
    """A writer of rows of ``schema``, for which the stream is there when this returns; nothing else is changed.

    Raises ``SettingError``, ``UnknownNameError`` for what cannot be written, and what opening a stream to write raises.
    """
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
                "the rows are committed; the next commit brings manifest.json and the catalogue up to date: %s",
                error,
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
    """A writer to the stream, which is there when this returns."""
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
    """The number of the partition that this process works on."""
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
