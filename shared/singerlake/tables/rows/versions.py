"""Table versions: which one is in force for a record, and which records an ACTIVATE_VERSION message sends away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from singerlake.arrow.schema.own import OFFSET, TABLE_VERSION
from singerlake.tables.state.model import Activation

if TYPE_CHECKING:
    import pyarrow as pa


def in_force(rows: pa.Table, activations: Sequence[Activation]) -> pa.Table:
    """``rows`` with the version in force in the place of one that is missing. ``activations`` are in order of their
    offsets, the last one before the first row among them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    versions = rows.column(TABLE_VERSION)
    if not activations or not versions.null_count:
        return rows
    offsets = rows.column(OFFSET).to_numpy()
    places = np.searchsorted([each.offset for each in activations], offsets, side="left")
    named = pa.array([None, *(each.version for each in activations)], pa.int64()).take(pa.array(places))
    filled = pc.coalesce(versions, pa.chunked_array([named]))
    return rows.set_column(rows.schema.get_field_index(TABLE_VERSION), rows.schema.field(TABLE_VERSION), filled)


def gone_by(rows: pa.Table, activations: Sequence[Activation]) -> pa.Array:
    """Of each row the place of the first of ``activations`` that sends it away, which comes after it and names another
    version. Null where none does. Versions are those in force."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not activations:
        return pa.nulls(rows.num_rows, pa.int64())
    named = np.array([each.version for each in activations])
    # The next place after each where another version is named.
    other = np.full(len(named) + 1, len(named))
    for place in range(len(named) - 2, -1, -1):
        other[place] = place + 1 if named[place + 1] != named[place] else other[place + 1]
    places = np.searchsorted([each.offset for each in activations], rows.column(OFFSET).to_numpy(), side="right")
    versions = rows.column(TABLE_VERSION)
    same = np.append(named, 0)[places] == pc.fill_null(versions, 0).to_numpy()
    same &= pc.is_valid(versions).to_numpy()
    places = np.where(same, other[places], places)
    return pa.array(places, mask=places == len(named))


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
