"""Rows of an older file in the columns of today: what was added since is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singerlake.arrow.schema.columns import Array, Column, Struct

if TYPE_CHECKING:
    import pyarrow as pa


def only_adds(old: Column, new: Column) -> bool:
    """Whether ``new`` is ``old`` with nothing but more fields, so that what holds ``old`` may stay as it is."""
    if isinstance(old, Struct) and isinstance(new, Struct):
        fields = {field.name: field.type for field in new.fields}
        return all(field.name in fields and only_adds(field.type, fields[field.name]) for field in old.fields)
    if isinstance(old, Array) and isinstance(new, Array):
        return only_adds(old.element, new.element)
    return old == new


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """``rows`` with the fields of ``schema``, in its order."""
    import pyarrow as pa

    if rows.schema.equals(schema):
        return rows
    names = set(rows.column_names)
    columns = [
        _as(rows.column(field.name).combine_chunks(), field.type)
        if field.name in names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _as(array: pa.Array, target: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if array.type.equals(target):
        return array
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        there = {field.name: index for index, field in enumerate(array.type)}
        fields = [
            _as(array.field(there[field.name]), field.type) if field.name in there else pa.nulls(len(array), field.type)
            for field in target
        ]
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=array.is_null())
    if pa.types.is_list(target) and pa.types.is_list(array.type):
        if array.offset:
            # Arrow takes no mask for a part of an array.
            array = array.take(pa.array(range(len(array))))
        values = _as(array.values, target.value_type)
        return pa.ListArray.from_arrays(
            array.offsets, values, target, mask=array.is_null() if not array.offset else None
        )
    return array.cast(target)
