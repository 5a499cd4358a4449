"""The order of rows: sorting, finding a position in sorted rows, telling equal neighbours and equal keys.

Null is last and NaN before it, as ``sort_key`` has it for single values: driver and tasks agree on every range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from singerlake.tables.state.types import sort_key

if TYPE_CHECKING:
    import pyarrow as pa


def sort_indices(rows: pa.Table, order: Sequence[str], *, nulls_first: bool) -> pa.Array:
    """The positions of ``rows`` in ascending order, equal ones as they come; NaN is beside null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    at = "at_start" if nulls_first else "at_end"
    by = numbered(rows, order)
    if int(pa.__version__.partition(".")[0]) < 25:
        return pc.sort_indices(by, sort_keys=[(name, "ascending") for name in by.column_names], null_placement=at)
    return pc.sort_indices(by, sort_keys=[(name, "ascending", at) for name in by.column_names])


def numbered(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """These columns, called by their positions in ``names``: Arrow takes a name that begins with a dot for a path, and
    names columns of groups after others."""
    return rows.select(list(names)).rename_columns([str(position) for position in range(len(names))])


def distinct(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The different values of these columns; two NaN are equal."""
    by = numbered(rows, names)
    return by.group_by(by.column_names).aggregate([]).select(by.column_names).rename_columns(list(names))


def are_among(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Array:
    """Of each of the ``rows`` whether ``others`` has its ``key``; two NaN are equal."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    own = numbered(rows, key)
    by, position = own.column_names, "position"
    wanted = numbered(others, key).cast(own.schema).append_column(position, pa.nulls(others.num_rows, pa.int64()))
    own = own.append_column(position, pa.array(np.arange(rows.num_rows), pa.int64()))
    groups = pa.concat_tables([own, wanted]).group_by(by)
    counted = groups.aggregate([(position, "list"), (position, "count"), ([], "count_all")])
    shared = counted.filter(pc.greater(counted.column("count_all"), counted.column(f"{position}_count")))
    found = np.zeros(rows.num_rows, bool)
    found[pc.list_flatten(shared.column(f"{position}_list")).drop_null().to_numpy()] = True
    return pa.array(found)


def sorted_rows(rows: pa.Table, order: Sequence[str]) -> pa.Table:
    """``rows`` by ``order``, ascending, null last."""
    if rows.num_rows < 2 or not order:
        return rows
    return rows.take(sort_indices(rows, order, nulls_first=False))


def by_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """``rows`` by ``key`` as ``sorted_rows`` has them, of rows by a key without null that have NaN first."""
    import pyarrow as pa

    has_nan = any(pa.types.is_floating(rows.schema.field(name).type) for name in key)
    return sorted_rows(rows, key) if has_nan else rows


def values_at(rows: pa.Table, order: Sequence[str], row: int) -> tuple[Any, ...]:
    """The values of ``order`` in one row."""
    return tuple(rows.column(name)[row].as_py() for name in order)


def rows_up_to(rows: pa.Table, order: Sequence[str], bound: tuple[Any, ...]) -> int:
    """How many of the sorted ``rows`` are not after ``bound``, values of ``order``."""
    wanted = sort_key(bound)
    low, high = 0, rows.num_rows
    columns = [rows.column(name) for name in order]
    while low < high:
        middle = (low + high) // 2
        if sort_key(tuple(column[middle].as_py() for column in columns)) <= wanted:
            low = middle + 1
        else:
            high = middle
    return low


def between(
    rows: pa.Table, order: Sequence[str], after: tuple[Any, ...] | None, up_to: tuple[Any, ...] | None
) -> pa.Table:
    """Those of the sorted ``rows`` that are after one bound and not after another; None: no bound."""
    begin = 0 if after is None else rows_up_to(rows, order, after)
    end = rows.num_rows if up_to is None else rows_up_to(rows, order, up_to)
    return rows.slice(begin, max(0, end - begin))


def is_last_of(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Of each row whether the next one differs from it in any of these columns; rows with equal values are
    neighbours. Two nulls are equal here, and two NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count = rows.num_rows
    if count == 0:
        return pa.array([], pa.bool_())
    differs = pa.array([False] * (count - 1)) if not names else None
    for name in names:
        column = rows.column(name).combine_chunks()
        one = differing(column.slice(0, count - 1), column.slice(1))
        differs = one if differs is None else pc.or_(differs, one)
    return pa.concat_arrays([differs, pa.array([True])])


def differing(left: pa.Array, right: pa.Array) -> pa.Array:
    """Of each position whether two arrays differ there; null equals null, NaN equals NaN, and 0.0 equals -0.0, within
    nested values too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(left, pa.ChunkedArray):
        left, right = left.combine_chunks(), right.combine_chunks()
    if pa.types.is_nested(left.type):
        return _nested_differing(left, right)
    unequal = pc.fill_null(pc.not_equal(left, right), False)
    one_null = pc.xor(left.is_null(), right.is_null())
    if pa.types.is_floating(left.type):
        both_nan = pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False)
        unequal = pc.and_not(unequal, both_nan)
    return pc.or_(unequal, one_null)


def _nested_differing(left: pa.Array, right: pa.Array) -> pa.Array:
    import pyarrow as pa

    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([a != b and _comparable(a) != _comparable(b) for a, b in pairs], pa.bool_())


def _comparable(value: Any) -> Any:
    """The same with a NaN that equals itself."""
    if isinstance(value, dict):
        return {name: _comparable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
