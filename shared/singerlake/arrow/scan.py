"""A stream as one Arrow reader, and the batches of one task: what all that reads a lake through Arrow goes through."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from singerlake.arrow.decode.decode import BatchDecoder
from singerlake.arrow.decode.rows import files_by_offset
from singerlake.arrow.decode.slow_path import Origin
from singerlake.arrow.plan.request import Request
from singerlake.arrow.plan.snapshot import check_lineage, declared, looked_for, pin, projected, selected
from singerlake.arrow.plan.splits import Split, splits
from singerlake.arrow.schema.columns import arrow_schema, empty_batch
from singerlake.arrow.schema.own import FILES
from singerlake.errors import BrokenFileError, MissingFileError
from singerlake.format import layout
from singerlake.format.lines.holes import numbered
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest
from singerlake.humanize import shown
from singerlake.singer_file import check_count, inflate, kept_lines
from singerlake.storage.port import Storage

if TYPE_CHECKING:
    import pyarrow as pa


logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 19
"""Bytes decompressed and decoded in one go: measured best, since text and parsed values still lie in the cache."""
BATCH_ROWS, BATCH_BYTES = 10_000, 4 << 20
"""What chunks are put together to: rows enough for an engine to take at once (Spark's own number,
``spark.sql.execution.arrow.maxRecordsPerBatch``), or as many as that many bytes hold."""


def scan(storage: Storage, prefix: str, runs: Sequence[Split], decoder: BatchDecoder) -> Iterator[pa.RecordBatch]:
    """The records that ``runs`` mean, in order, and no others; their members are read to the end all the same, and
    checked. ``prefix`` is the key prefix of the stream. Raises ``ValueDoesNotFitError``, ``BrokenFileError``,
    ``MissingFileError``, and what the storage raises."""
    folder = f"{storage.url.rstrip('/')}/{prefix}"
    for run in runs:
        files = files_by_offset(run.attached, run.file_offset, folder)
        origin = Origin(run.path, run.version, run.file_offset, files)
        yield from _together(_scan(storage, prefix + run.path, run, origin, decoder))


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _one(held)
            held, rows, size = [], 0, 0
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def _scan(storage: Storage, key: str, run: Split, origin: Origin, decoder: BatchDecoder) -> Iterator[pa.RecordBatch]:
    where = {"file": key, "id": run.id}
    offset, expected = run.offset, run.messages
    try:
        with storage.open(key, run.start, run.end) as stored:
            stream = _Weighed(stored)
            for data in inflate(stream, where=where, size=CHUNK_BYTES):
                if run.holes:
                    lines, offsets, offset = numbered(kept_lines(data)[0], offset)
                    if not lines:
                        continue
                    batch, _ = decoder.batch(lines, offsets, origin, first=run.first, stop=run.stop)
                else:
                    batch, messages = decoder.batch(data, offset, origin, first=run.first, stop=run.stop)
                    offset += messages
                if offset > run.next_offset:
                    break
                if batch.num_rows:
                    yield batch
    except MissingFileError as error:
        raise MissingFileError(
            "a data file is gone: this DataFrame or table was loaded before gc",
            hint="load it again; if the file is still missing then, run 'singerlake verify'",
            file=key,
        ) from error
    check_count(offset - run.offset, expected, where)
    if stream.bytes != run.end - run.start or (run.sha256 and stream.digest() != run.sha256):
        raise BrokenFileError(
            "its bytes are not those that were committed",
            hint="run 'singerlake verify'; restore the file from a backup",
            **where,
        )


class _Weighed:
    """A stream that knows how many bytes passed, and their SHA-256."""

    def __init__(self, stream: BinaryIO) -> None:
        self.bytes = 0
        self._stream = stream
        self._hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.bytes += len(data)
        self._hash.update(data)
        return data

    def digest(self) -> bytes:
        return self._hash.digest()


def warn_of_misfits(decoder: BatchDecoder, stream: str) -> None:
    """Say how many rows lost a value or a property, or were left out, so that none of it is silent."""
    if decoder.dropped:
        what = "%s: left out %d rows with a value that does not fit its column"
        logger.warning(what, shown(stream), decoder.dropped)
    elif decoder.rescued:
        what = "%s: %d rows have null in place of a value that does not fit its column"
        logger.warning(what, shown(stream), decoder.rescued)
    if decoder.undeclared:
        what = "%s: %d rows have properties that no schema declares and no column holds"
        logger.warning(what, shown(stream), decoder.undeclared)


def open_reader(storage: Storage, manifest: Manifest, request: Request) -> pa.RecordBatchReader:
    """The messages that ``request`` wants of a stream in that state, in offset order. Nothing but the manifest was read
    before the first batch is asked for; at most a few batches are held at a time.

    Raises ``UnknownNameError``, ``SettingError``, ``LineageChangedError``; while reading ``ValueDoesNotFitError``,
    ``BrokenFileError``, ``MissingFileError`` and what the storage raises.
    """
    import pyarrow as pa

    check_lineage(manifest, request)
    pinned = pin(manifest, request)
    files = selected(manifest, pinned)
    there = declared(manifest, totals_of(files).versions, request)
    columns = projected(there, manifest, request)
    schema = arrow_schema(columns)
    known = looked_for(columns, there, request, chosen=request.columns is not None)
    decoder = BatchDecoder(columns, schema, request, known)
    attached = request.files and columns.get(FILES) is not None
    wanted = list(splits(files, pinned.first, pinned.stop, sys.maxsize, attached=attached))

    def batches() -> Iterator[pa.RecordBatch]:
        found = scan(storage, layout.stream_prefix(manifest.tap, manifest.stream), wanted, decoder)
        yield next(found, None) or empty_batch(schema)
        yield from found
        warn_of_misfits(decoder, f"{manifest.tap}/{manifest.stream}")

    return pa.RecordBatchReader.from_batches(schema, batches())
