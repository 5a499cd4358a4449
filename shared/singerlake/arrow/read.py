"""A stream as one Arrow reader: how pandas, Polars, DuckDB and everything else that takes Arrow read a lake."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from singerlake.arrow.decode.decode import BatchDecoder
from singerlake.arrow.plan.request import Request
from singerlake.arrow.plan.snapshot import check_lineage, declared, looked_for, pin, projected, selected
from singerlake.arrow.plan.splits import runs
from singerlake.arrow.scan import scan, warn_of_misfits
from singerlake.arrow.schema.own import FILES
from singerlake.arrow.schema.types import arrow_schema, empty_batch
from singerlake.format import layout
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage

if TYPE_CHECKING:
    import pyarrow as pa


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
    wanted = list(runs(files, pinned.first, pinned.stop, sys.maxsize, attached=attached))

    def batches() -> Iterator[pa.RecordBatch]:
        found = scan(storage, layout.stream_prefix(manifest.tap, manifest.stream), wanted, decoder)
        yield next(found, None) or empty_batch(schema)
        yield from found
        warn_of_misfits(decoder, f"{manifest.tap}/{manifest.stream}")

    return pa.RecordBatchReader.from_batches(schema, batches())
