"""The winner of each key (section 14.2 of the format): greatest by version in force, ``order_by``, offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singerlake.arrow.schema.own import OFFSET, TABLE_VERSION
from singerlake.tables.rows.convert import DELETED
from singerlake.tables.rows.order import by_key, distinct, is_last_of, sort_indices

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Settled:
    """The rows that stay, and the records that have none and may yet win over late ones. ``inserted``, ``updated`` and
    ``deleted`` count keys against what was there before."""

    rows: pa.Table
    hidden: pa.Table
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def winners(rows: pa.Table, key: Sequence[str], order_by: Sequence[str]) -> pa.Table:
    """One row of each key, in the order of ``key`` but for NaN, which is first."""
    # Null is less than NaN, and NaN less than any value.
    ordered = rows.take(sort_indices(rows, [*key, TABLE_VERSION, *order_by, OFFSET], nulls_first=True))
    return ordered.filter(is_last_of(ordered, key))


def latest(rows: pa.Table, key: Sequence[str], order_by: Sequence[str], *, start: int, late: bool) -> Settled:
    """The table's rows of these keys, of its earlier ``rows`` and hidden records, offsets below ``start``, and of new
    ones. ``late``: records may come later that lose against a deletion."""
    import pyarrow.compute as pc

    before = rows.filter(pc.and_(pc.less(rows.column(OFFSET), start), pc.invert(rows.column(DELETED))))
    won = by_key(winners(rows, key, order_by), key)
    gone = won.column(DELETED)
    stay, hidden = won.filter(pc.invert(gone)), won.filter(gone)
    new = pc.sum(pc.greater_equal(stay.column(OFFSET), start)).as_py() or 0
    deleted = _shared(before, hidden, key) if hidden.num_rows and before.num_rows else 0
    kept = stay.num_rows - new
    updated = before.num_rows - kept - deleted
    return Settled(
        stay.drop_columns([DELETED]),
        hidden if late else hidden.slice(0, 0),
        inserted=new - updated,
        updated=updated,
        deleted=deleted,
    )


def _shared(before: pa.Table, after: pa.Table, key: Sequence[str]) -> int:
    """Keys that are in both, each of which has every key once."""
    import pyarrow as pa

    both = pa.concat_tables([before.select(key), after.select(key)])
    return int(both.num_rows - distinct(both, key).num_rows)
