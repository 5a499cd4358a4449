"""How much differs between two tables that were made beside the lake, and each row that does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from singerlake.arrow.schema.columns import JsonText
from singerlake.arrow.schema.own import OFFSET, RESCUED, TABLE_VERSION, TIME, VERSION
from singerlake.tables.compare.differences import Difference, differences
from singerlake.tables.read import LakeTable
from singerlake.tables.state.types import sort_key

if TYPE_CHECKING:
    import pyarrow as pa

Values = Mapping[str, Any]
What = Literal["inserted", "changed", "deleted"]
PIECE = 1 << 16
"""Rows that are compared at once: as many may be told, and are Python's objects then."""


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that differs, by its ``key``. ``before`` and ``after`` are its values: of a changed one those that changed,
    else all beside the key; None where there is no such row."""

    what: What
    key: Values
    before: Values | None
    after: Values | None


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows by what became of them; ``columns``: in how many changed rows each column differs."""

    inserted: int
    changed: int
    deleted: int
    columns: Mapping[str, int]


def counted_differences(
    before: LakeTable,
    after: LakeTable,
    told: Callable[[RowDifference], object] | None = None,
    *,
    most: int | None = None,
    among: Collection[str] | None = None,
) -> Counts:
    """What differs between two tables that are in the order of their key and have the same columns, or those that are
    ``among`` these. ``told`` is called with each row, or of each piece with ``most`` rows at least of each kind, and of
    each column that differs. Where a row comes from, and when, is not compared. Raises as ``LakeTable.to_arrow``."""
    key = after.state.key or (OFFSET,)
    own = {*key, OFFSET, TABLE_VERSION, VERSION, TIME}
    names = [name for name in after.schema.names if among is None or name in among]
    columns, schema = [name for name in names if name not in own], after.chosen(names)
    texts = {field.name for field in after.columns.fields if isinstance(field.type, JsonText)} | {RESCUED.name}
    rows, counts = Counter[str](), Counter[str]()
    for piece in differences(_rows(before, schema), _rows(after, schema), key, columns, texts):
        changed = _any(piece)
        rows.update(inserted=piece.inserted.num_rows, deleted=piece.deleted.num_rows, changed=changed.true_count)
        counts.update({name: differs.true_count for name, differs in piece.columns.items()})
        if told is not None:
            for each in _each(piece, key, columns, changed, most):
                told(each)
    by_column = {name: counts[name] for name in columns if counts[name]}
    return Counts(rows["inserted"], rows["changed"], rows["deleted"], by_column)


def _rows(table: LakeTable, schema: pa.Schema) -> Iterator[pa.Table]:
    for file in table.state.files:
        rows = table.read(file, schema)
        if rows is not None:
            yield from (rows.slice(start, PIECE) for start in range(0, rows.num_rows, PIECE))


def _any(piece: Difference) -> pa.Array:
    """Of each row that both have whether it differs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    differs = pa.array([False] * piece.after.num_rows, pa.bool_())
    for each in piece.columns.values():
        differs = pc.or_(differs, each)
    return differs


def _each(
    piece: Difference, key: Sequence[str], columns: Sequence[str], changed: pa.Array, most: int | None
) -> list[RowDifference]:
    """The rows that differ, in the order of the key."""

    def one(what: What, before: Values | None, after: Values | None, names: Sequence[str] = columns) -> RowDifference:
        either = after or before or {}
        sides = [None if row is None else {name: row[name] for name in names} for row in (before, after)]
        return RowDifference(what, {name: either[name] for name in key}, *sides)

    rows = [one("deleted", row, None) for row in piece.deleted.slice(0, most).to_pylist()]
    rows += [one("inserted", None, row) for row in piece.inserted.slice(0, most).to_pylist()]
    meant = _positions([changed] if most is None else list(piece.columns.values()), most)
    before, after = (side.take(meant).to_pylist() for side in (piece.before, piece.after))
    masks = {name: differs.take(meant).to_pylist() for name, differs in piece.columns.items()}
    for at, (old, new) in enumerate(zip(before, after, strict=True)):
        rows.append(one("changed", old, new, [name for name in columns if masks[name][at]]))
    return sorted(rows, key=lambda row: sort_key(tuple(row.key.values())))


def _positions(masks: Sequence[pa.Array], most: int | None) -> pa.Array:
    """Where any of the masks is true, as often as ``most`` of each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = [pc.indices_nonzero(mask).slice(0, most) for mask in masks]
    return pc.unique(pa.chunked_array(found, pa.uint64()))
