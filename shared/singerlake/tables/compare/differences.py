"""What differs between two tables of rows that are in the order of one key. Pure.

A piece of either is held at a time: a key that is in both is in pieces of the same range.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singerlake.tables.rows.order import are_among, differing, rows_up_to, values_at
from singerlake.tables.state.types import sort_key

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Difference:
    """Of one range of keys the rows that only one table has, and those that both have, row by row beside each other:
    ``columns`` says by name of each whether it differs."""

    deleted: pa.Table
    inserted: pa.Table
    before: pa.Table
    after: pa.Table
    columns: Mapping[str, pa.Array]


def differences(
    before: Iterator[pa.Table],
    after: Iterator[pa.Table],
    key: Sequence[str],
    columns: Sequence[str],
    texts: Collection[str] = (),
) -> Iterator[Difference]:
    """What differs in ``columns``, in the order of the keys. Both tables come in pieces of the same schema; each has a
    key once, and none that is null. In ``texts`` is JSON, of which the value counts and not how it is written."""
    sources = [(rows for rows in side if rows.num_rows) for side in (before, after)]
    held = [next(source, None) for source in sources]
    while ends := [values_at(rows, key, rows.num_rows - 1) for rows in held if rows is not None]:
        bound = min(ends, key=sort_key)
        parts: list[pa.Table | None] = [None, None]
        for side, rows in enumerate(held):
            if rows is not None:
                count = rows_up_to(rows, key, bound)
                parts[side] = rows.slice(0, count)
                held[side] = rows.slice(count) if count < rows.num_rows else next(sources[side], None)
        yield _difference(parts[0], parts[1], key, columns, texts)


def _difference(
    before: pa.Table | None,
    after: pa.Table | None,
    key: Sequence[str],
    columns: Sequence[str],
    texts: Collection[str],
) -> Difference:
    import pyarrow.compute as pc

    either = before if before is not None else after
    assert either is not None
    before, after = (either.slice(0, 0) if rows is None else rows for rows in (before, after))
    common = [are_among(rows, others, key) for rows, others in ((before, after), (after, before))]
    # Both are in the order of the key, which is in each once.
    one, two = before.filter(common[0]), after.filter(common[1])
    return Difference(
        deleted=before.filter(pc.invert(common[0])),
        inserted=after.filter(pc.invert(common[1])),
        before=one,
        after=two,
        columns={name: _differing(one.column(name), two.column(name), name in texts) for name in columns},
    )


def _differing(left: pa.ChunkedArray, right: pa.ChunkedArray, is_json: bool) -> pa.Array:
    import pyarrow as pa

    differs = differing(left, right)
    if not is_json or not differs.true_count:
        return differs
    pairs = zip(differs.to_pylist(), left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([unequal and _value(one) != _value(two) for unequal, one, two in pairs], pa.bool_())


def _value(text: str | None) -> str | None:
    """The same text of JSON for the same value."""
    try:
        return None if text is None else json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text
