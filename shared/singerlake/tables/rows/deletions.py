"""Rows of deleted keys where they stay (section 14.2 of the format): which are deleted, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from singerlake.clock import parse_timestamp
from singerlake.tables.rows.columns import GONE, GONE_AT, TableColumns
from singerlake.tables.rows.order import is_last_of, numbered, sort_indices
from singerlake.tables.rows.versions import gone_by, not_gone
from singerlake.tables.state.model import Activation

if TYPE_CHECKING:
    import pyarrow as pa


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
    """Of each row whether none of its key has a greater place in ``went``."""
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
