"""Which records an ACTIVATE_VERSION message sends away, and the rows of deleted keys where they stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.own import OFFSET, TABLE_VERSION
from singerlake.clock import parse_timestamp
from singerlake.tables.rows.columns import GONE, GONE_AT, TableColumns
from singerlake.tables.rows.order import is_last_of, numbered, sort_indices
from singerlake.tables.state.model import Activation

if TYPE_CHECKING:
    import pyarrow as pa


def in_force(rows: pa.Table, activations: Sequence[Activation]) -> pa.Table:
    """``rows`` with the version in force in the position of one that is missing. ``activations`` are in order of their
    offsets, the last one before the first row among them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    versions = rows.column(TABLE_VERSION)
    if not activations or not versions.null_count:
        return rows
    offsets = rows.column(OFFSET).to_numpy()
    positions = np.searchsorted([each.offset for each in activations], offsets, side="left")
    named = pa.array([None, *(each.version for each in activations)], pa.int64()).take(pa.array(positions))
    filled = pc.coalesce(versions, pa.chunked_array([named]))
    return rows.set_column(rows.schema.get_field_index(TABLE_VERSION), rows.schema.field(TABLE_VERSION), filled)


def gone_by(rows: pa.Table, activations: Sequence[Activation]) -> pa.Array:
    """Of each row the position of the first of ``activations`` that sends it away, which comes after it and names
    another version. Null where none does. Versions are those in force."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not activations:
        return pa.nulls(rows.num_rows, pa.int64())
    named = np.array([each.version for each in activations])
    # The next position after each where another version is named.
    other = np.full(len(named) + 1, len(named))
    for position in range(len(named) - 2, -1, -1):
        other[position] = position + 1 if named[position + 1] != named[position] else other[position + 1]
    positions = np.searchsorted([each.offset for each in activations], rows.column(OFFSET).to_numpy(), side="right")
    versions = rows.column(TABLE_VERSION)
    same = np.append(named, 0)[positions] == pc.fill_null(versions, 0).to_numpy()
    same &= pc.is_valid(versions).to_numpy()
    positions = np.where(same, other[positions], positions)
    return pa.array(positions, mask=positions == len(named))


def not_gone(rows: pa.Table, activations: Sequence[Activation]) -> pa.Table:
    """The rows that no activation after them sends away: of its version, or captured after it. Versions are those in
    force."""
    import pyarrow.compute as pc

    if not activations:
        return rows
    last = activations[-1]
    others = [each.offset for each in activations if each.version != last.version]
    offsets = rows.column(OFFSET)
    kept = pc.fill_null(pc.equal(rows.column(TABLE_VERSION), last.version), False)
    if others:
        kept = pc.and_(kept, pc.greater(offsets, others[-1]))
    return rows.filter(pc.or_(kept, pc.greater(offsets, last.offset)))


def with_deletions(rows: pa.Table, deletions: Any, times: Any) -> pa.Table:
    """``rows`` that say which of them are ``deletions``, each since its time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    since = pc.if_else(deletions, times, pa.scalar(None, rows.schema.field(GONE_AT).type))
    rows = rows.set_column(rows.schema.get_field_index(GONE), GONE, deletions)
    return rows.set_column(rows.schema.get_field_index(GONE_AT), GONE_AT, since)


def without_gone(
    rows: pa.Table, columns: TableColumns, activations: Sequence[Activation], key: Sequence[str] = ()
) -> tuple[pa.Table, int]:
    """``rows`` without those that ``activations`` sent away, or with them where they stay; and how many went."""
    if columns.has_soft_deletions:
        return with_gone(rows, activations, key)
    left = not_gone(rows, activations)
    return left, rows.num_rows - left.num_rows


def with_gone(rows: pa.Table, activations: Sequence[Activation], key: Sequence[str] = ()) -> tuple[pa.Table, int]:
    """``rows`` that say which of them ``activations`` sent away, and how many did not say so before. With a ``key``,
    only those rows of each key that went last, or that are still there: what went before does not come back."""
    import pyarrow as pa
    import pyarrow.compute as pc

    went = gone_by(rows, activations)
    if went.null_count == len(went):
        return rows, 0
    if key:
        stays = _went_last(rows, pc.fill_null(went, len(activations)), key)
        rows, went = rows.filter(stays), went.filter(stays)
    before = rows.column(GONE)
    newly = pc.and_not(went.is_valid(), before)
    known = (None if each.at is None else parse_timestamp(each.at) for each in activations)
    since = pa.array(known, rows.schema.field(GONE_AT).type).take(went)
    rows = rows.set_column(
        rows.schema.get_field_index(GONE_AT), GONE_AT, pc.if_else(newly, since, rows.column(GONE_AT))
    )
    rows = rows.set_column(rows.schema.get_field_index(GONE), GONE, pc.or_(before, newly))
    return rows, pc.sum(newly).as_py() or 0


def _went_last(rows: pa.Table, went: pa.Array, key: Sequence[str]) -> pa.Array:
    """Of each row whether none of its key has a greater position in ``went``."""
    import numpy as np
    import pyarrow as pa

    keys = numbered(rows, key)
    order = sort_indices(keys.append_column("went", went), [*keys.column_names, "went"], nulls_first=True).to_numpy()
    ends = is_last_of(keys.take(order), keys.column_names).to_numpy(zero_copy_only=False)
    sorted_went = went.to_numpy(zero_copy_only=False)[order]
    of_key = np.append(0, np.cumsum(ends)[:-1])
    made = np.empty(len(order), bool)
    made[order] = sorted_went == sorted_went[ends][of_key]
    return pa.array(made)
