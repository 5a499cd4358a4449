"""Checkpoints of a Delta log: classic ones of version 1, a parquet file of one action a row."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from singerlake.tables.formats.memory import in_arrow_memory

if TYPE_CHECKING:
    import pyarrow as pa


def checkpoint_of(actions: Sequence[Mapping[str, Any]]) -> bytes:
    """The checkpoint that holds these actions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = io.BytesIO()
    schema = _schema()
    rows = [{kind: _stored(what, schema.field(kind).type) for kind, what in action.items()} for action in actions]
    pq.write_table(pa.Table.from_pylist(rows, schema), written, compression="zstd")
    return written.getvalue()


def actions_in(body: bytes) -> Iterator[dict[str, Any]]:
    """The actions that a checkpoint holds, as commits have them: without what is null. Raises ``ValueError`` or
    ``OSError``, as pyarrow does, where it is none."""
    import pyarrow.parquet as pq

    # Not read_table, which reads with threads beside this one.
    rows = pq.ParquetFile(in_arrow_memory(io.BytesIO(body), len(body))).read(use_threads=False)
    names = [field.name for field in _schema() if field.name in rows.column_names]
    for row in rows.select(names).to_pylist():
        yield {kind: _plain(what, rows.schema.field(kind).type) for kind, what in row.items() if what is not None}


def _stored(value: Any, own: pa.DataType) -> Any:
    """A JSON value as Arrow takes one of that type: a map as its pairs."""
    import pyarrow as pa

    if pa.types.is_map(own):
        return None if value is None else list(value.items())
    if pa.types.is_struct(own) and value is not None:
        return {field.name: _stored(value.get(field.name), field.type) for field in own}
    return value


def _plain(value: Any, own: pa.DataType) -> Any:
    """The JSON value that ``_stored`` was given, without fields that are null."""
    import pyarrow as pa

    if pa.types.is_map(own):
        return dict(value)
    if pa.types.is_struct(own):
        return {field.name: _plain(value[field.name], field.type) for field in own if value[field.name] is not None}
    return value


@cache
def _schema() -> pa.Schema:
    import pyarrow as pa

    texts = pa.map_(pa.string(), pa.string())
    strings = pa.list_(pa.string())
    add = {"path": pa.string(), "partitionValues": texts, "size": pa.int64(), "modificationTime": pa.int64()}
    return pa.schema(
        {
            "txn": _struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
            "add": _struct({**add, "dataChange": pa.bool_(), "stats": pa.string(), "tags": texts}),
            "remove": _struct(
                {
                    "path": pa.string(),
                    "deletionTimestamp": pa.int64(),
                    "dataChange": pa.bool_(),
                    "extendedFileMetadata": pa.bool_(),
                    "partitionValues": texts,
                    "size": pa.int64(),
                }
            ),
            "metaData": _struct(
                {
                    "id": pa.string(),
                    "name": pa.string(),
                    "description": pa.string(),
                    "format": _struct({"provider": pa.string(), "options": texts}),
                    "schemaString": pa.string(),
                    "partitionColumns": strings,
                    "createdTime": pa.int64(),
                    "configuration": texts,
                }
            ),
            "protocol": _struct(
                {
                    "minReaderVersion": pa.int32(),
                    "minWriterVersion": pa.int32(),
                    "readerFeatures": strings,
                    "writerFeatures": strings,
                }
            ),
        }
    )


def _struct(fields: Mapping[str, pa.DataType]) -> pa.DataType:
    import pyarrow as pa

    return pa.struct(list(fields.items()))
