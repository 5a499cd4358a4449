"""The Arrow type of a column, for reading without an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singerlake.arrow.schema.columns import Array, Boolean, Column, Date, Decimal, Double, Integer, Struct, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_schema(columns: Struct) -> pa.Schema:
    """The schema of batches with these columns: times in UTC to the microsecond, JSON text as strings."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _arrow(field.type), field.nullable) for field in columns.fields])


def _arrow(column: Column) -> pa.DataType:
    import pyarrow as pa

    if isinstance(column, Struct):
        return pa.struct([pa.field(field.name, _arrow(field.type), field.nullable) for field in column.fields])
    if isinstance(column, Array):
        return pa.list_(pa.field("element", _arrow(column.element)))
    if isinstance(column, Decimal):
        return pa.decimal128(column.precision, column.scale)
    if isinstance(column, Integer):
        return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.bits]
    if isinstance(column, Timestamp):
        return pa.timestamp("us", tz="UTC" if column.zoned else None)
    simple = {Boolean: pa.bool_(), Double: pa.float64(), Date: pa.date32()}
    return simple.get(type(column), pa.string())


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows: Polars asks a reader for one batch at least."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
