"""What became of a table's rows between two moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from singerlake.errors import SettingError
from singerlake.glance import at_a_glance
from singerlake.tables.compare.as_of import Past, Point
from singerlake.tables.compare.counts import RowDifference, counted_differences
from singerlake.tables.declaration.model import Keep, TableDeclaration


@at_a_glance
@dataclass(frozen=True, slots=True)
class TableDiffResult:
    """How many rows of a table were inserted, changed and deleted by the messages of its stream from ``from_offset`` to
    before ``to_offset``, and in how many of the changed ones each of the ``columns`` differs. ``key`` are the columns
    by which a row is known again; none where the table keeps every record."""

    lake: str
    table: str
    tap: str
    stream: str
    key: tuple[str, ...]
    from_offset: int
    to_offset: int
    inserted: int
    changed: int
    deleted: int
    columns: Mapping[str, int]


def diff_table(
    lake: str, past: Past, start: Point, end: Point | None, told: Callable[[RowDifference], object] | None
) -> TableDiffResult:
    """The difference, of both moments by the schemas of the later one. A history counts as the last row of each key.
    Raises ``SettingError`` where ``start`` is later than ``end``, and as ``Past``."""
    manifest = past.manifest
    first, last = past.stop(start), past.stop(manifest.next_offset if end is None else end)
    if first > last:
        raise SettingError(
            f"the diff begins at offset {first}, and ends before offset {last}", hint="exchange the two moments"
        )
    past = in_order(past)
    before, after = past.made(first, known=last), past.made(last)
    counts = counted_differences(before, after, told)
    return TableDiffResult(
        lake=lake,
        table=past.declaration.name,
        tap=manifest.tap,
        stream=manifest.stream,
        key=after.state.key,
        from_offset=first,
        to_offset=last,
        **asdict(counts),
    )


def in_order(past: Past) -> Past:
    """What makes its rows in the order of their key, of a history the last one of each."""
    earlier = tuple((offset, by_key(declaration)) for offset, declaration in past.earlier)
    return replace(past, declaration=by_key(past.declaration), earlier=earlier)


def by_key(declaration: TableDeclaration) -> TableDeclaration:
    """The table with its rows in the order of its key."""
    keep = Keep.LATEST if declaration.keep is Keep.HISTORY else declaration.keep
    return replace(declaration, keep=keep, sort_by=(), partition_by=())
