"""The rows of each key (section 14.2 of the format): its winner, or all versions with the time in which each was valid.

The records of a key in their order are its events: a change begins an interval, a deletion ends one, and so does an
ACTIVATE_VERSION whose version lacks the key. Where records may come late, what has no row stays as a hidden record, so
that the intervals of a key can be told anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.own import ALL, OFFSET, TABLE_VERSION
from singerlake.clock import parse_timestamp
from singerlake.tables.rows.columns import CURRENT, DELETED, MOMENT, VALID_FROM, VALID_TO
from singerlake.tables.rows.convert import is_working
from singerlake.tables.rows.order import are_among, by_key, differing, distinct, is_last_of, sort_indices
from singerlake.tables.rows.partitions import is_partition
from singerlake.tables.state.model import Activation

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
    positions = sort_indices(rows, [*key, TABLE_VERSION, *order_by, OFFSET], nulls_first=True)
    last = is_last_of(rows.select(list(key)).take(positions), key)
    return rows.take(positions.filter(last))


def latest(rows: pa.Table, key: Sequence[str], order_by: Sequence[str], *, start: int, late: bool) -> Settled:
    """The table's rows of these keys, of its earlier ``rows`` and hidden records, offsets below ``start``, and of new
    ones. ``late``: records may come later that lose against a deletion."""
    import pyarrow.compute as pc

    was_there = pc.and_(pc.less(rows.column(OFFSET), start), pc.invert(rows.column(DELETED)))
    before = pc.sum(was_there).as_py() or 0
    won = by_key(winners(rows, key, order_by), key)
    gone = won.column(DELETED)
    stay, hidden = won, won.slice(0, 0)
    if pc.any(gone).as_py():
        stay, hidden = won.filter(pc.invert(gone)), won.filter(gone)
    new = pc.sum(pc.greater_equal(stay.column(OFFSET), start)).as_py() or 0
    # All columns of the earlier rows are copied only where they are looked at.
    deleted = _shared(rows.select(key).filter(was_there), hidden, key) if hidden.num_rows and before else 0
    kept = stay.num_rows - new
    updated = before - kept - deleted
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


_INTERVAL = (VALID_FROM, VALID_TO, CURRENT)


def history(
    rows: pa.Table, key: Sequence[str], order_by: Sequence[str], *, activations: Sequence[Activation], start: int
) -> Settled:
    """The intervals of these keys, of earlier ``rows`` and hidden records, offsets below ``start``, and of new records.
    Versions are those in force; ``activations`` are in order, and none goes back."""
    import pyarrow as pa
    import pyarrow.compute as pc

    late = bool(order_by)
    earlier = pc.less(rows.column(OFFSET), start)
    was = pc.and_(earlier, pc.fill_null(rows.column(CURRENT), False))
    was_current = pc.sum(pc.and_not(was, rows.column(DELETED))).as_py() or 0
    if late:
        began = pc.if_else(pc.and_(was, rows.column(DELETED)), rows.column(VALID_FROM), rows.column(order_by[0]))
    else:
        began = pc.coalesce(rows.column(VALID_FROM), rows.column(MOMENT))
    rows = rows.set_column(rows.schema.get_field_index(VALID_FROM), VALID_FROM, began)
    rows = rows.drop_columns([MOMENT])
    for activation in activations:
        if activation.offset >= start:
            rows = _with_endings(rows, key, order_by, activation)
    rows = _in_order(rows, key, order_by)
    # Deletions are not kept where no record comes late, so an interval that has ended keeps its end.
    ended = _array(pc.and_(pc.less(rows.column(OFFSET), start), pc.invert(pc.fill_null(rows.column(CURRENT), True))))
    ended = pc.and_(ended, not late)
    events = _events(rows, key, ended)
    found = rows.filter(events)
    last = is_last_of(found, key)
    moments = _array(found.column(VALID_FROM))
    following = pa.concat_arrays([moments.slice(1), pa.nulls(min(1, found.num_rows), moments.type)])
    ends = pc.if_else(last, pa.scalar(None, following.type), following)
    current = last
    if not late:
        ended = ended.filter(events)
        ends = pc.if_else(ended, found.column(VALID_TO), ends)
        current = pc.and_not(last, ended)
    found = found.set_column(found.schema.get_field_index(VALID_TO), VALID_TO, ends)
    found = found.set_column(found.schema.get_field_index(CURRENT), CURRENT, current)
    found = by_key(found.filter(pc.invert(found.column(DELETED))), key)
    new = pc.sum(pc.greater_equal(found.column(OFFSET), start)).as_py() or 0
    is_earlier = pc.less(found.column(OFFSET), start)
    still = pc.sum(pc.and_(is_earlier, found.column(CURRENT))).as_py() or 0
    if late:
        hidden = rows.filter(pc.or_(pc.invert(events), rows.column(DELETED)))
    else:
        current = pc.and_not(current, _array(rows.column(DELETED)).filter(events))
        hidden = _newer_versions(rows, key, events, current)
    return Settled(found.drop_columns([DELETED]), hidden, inserted=new, updated=was_current - still, deleted=0)


def _array(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _in_order(rows: pa.Table, key: Sequence[str], order_by: Sequence[str]) -> pa.Table:
    order = [*key, TABLE_VERSION, *order_by, OFFSET]
    return rows.take(sort_indices(rows, order, nulls_first=True)).combine_chunks()


def _events(rows: pa.Table, key: Sequence[str], ended: Any) -> Any:
    """Of each row in order whether it differs from the one before it, as another key, another value, a deletion, or a
    record after an interval that has ``ended``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count = rows.num_rows
    if not count:
        return pa.array([], pa.bool_())
    first_of_key = pa.concat_arrays([pa.array([True]), is_last_of(rows, key).slice(0, count - 1)])
    own = {field.name for field in ALL.fields} | set(_INTERVAL)
    deleted = _array(rows.column(DELETED))
    values: Any = pa.array([False] * (count - 1), pa.bool_())
    for name in rows.column_names:
        if name not in own and name not in key and not is_working(name):
            column = _array(rows.column(name))
            values = pc.or_(values, differing(column.slice(0, count - 1), column.slice(1)))
    # Two deletions are one, whatever else they say.
    both = pc.and_(deleted.slice(0, count - 1), deleted.slice(1))
    one = pc.xor(deleted.slice(0, count - 1), deleted.slice(1))
    after_end = pc.and_not(ended.slice(0, count - 1), deleted.slice(1))
    changed = pc.or_(pc.or_(pc.and_not(values, both), one), after_end)
    changed = pa.concat_arrays([pa.array([True]), changed])
    # A deletion of what was never there is no event.
    return pc.and_not(pc.or_(first_of_key, changed), pc.and_(first_of_key, deleted))


def _newer_versions(rows: pa.Table, key: Sequence[str], events: Any, current: Any) -> pa.Table:
    """Of each key whose last interval goes on the last of its ordered ``rows``, if that has another version than the
    interval's row: an ACTIVATE_VERSION may ask whether the key has records of it. ``current`` is said of the
    ``events`` alone."""
    import numpy as np

    if not rows.num_rows:
        return rows
    last = np.flatnonzero(is_last_of(rows, key).to_numpy(zero_copy_only=False))
    positions = np.flatnonzero(events.to_numpy(zero_copy_only=False))
    nearest = np.searchsorted(positions, last, side="right") - 1
    is_open = np.append(current.to_numpy(zero_copy_only=False), False)[nearest]
    # A key without an event has none of its own there.
    is_open &= np.append(positions, -1)[nearest] > np.append(-1, last[:-1])
    last, nearest = last[is_open], nearest[is_open]
    versions = _array(rows.column(TABLE_VERSION))
    return rows.take(last).filter(differing(versions.take(last), versions.take(positions[nearest])))


def _with_endings(rows: pa.Table, key: Sequence[str], order_by: Sequence[str], activation: Activation) -> pa.Table:
    """``rows`` with a deletion of each key that has records before ``activation`` and none of its version, behind the
    last of these records. It counts as current, as no other deletion does: so it is known again."""
    import pyarrow as pa
    import pyarrow.compute as pc

    before = rows.filter(pc.less(rows.column(OFFSET), activation.offset))
    of_it = pc.fill_null(pc.equal(before.column(TABLE_VERSION), activation.version), False)
    ordered = _in_order(before.filter(pc.invert(of_it)), key, order_by)
    newest = ordered.filter(is_last_of(ordered, key))
    newest = newest.filter(pc.invert(newest.column(DELETED)))
    newest = newest.filter(pc.invert(are_among(newest, before.filter(of_it), key)))
    if not newest.num_rows:
        return rows
    count = newest.num_rows
    at = parse_timestamp(activation.at) if activation.at else None
    made = {}
    for field in rows.schema:
        values = pa.nulls(count, field.type)
        if field.name in (*key, *order_by, TABLE_VERSION) or is_partition(field.name):
            values = _array(newest.column(field.name))
        elif field.name == OFFSET:
            values = pa.repeat(pa.scalar(activation.offset, field.type), count)
        elif field.name in (DELETED, CURRENT):
            values = pa.repeat(True, count)
        elif field.name == VALID_FROM and pa.types.is_timestamp(field.type) and at is not None:
            moment = at if field.type.tz else at.replace(tzinfo=None)
            values = pa.repeat(pa.scalar(moment, field.type), count)
        made[field.name] = values
    return pa.concat_tables([rows, pa.table(made, schema=rows.schema)])
