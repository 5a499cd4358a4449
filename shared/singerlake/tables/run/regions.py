"""Which ranges of a table a run writes anew. Pure.

The files of a table lie in order. Range i ends with the last place of file i; the last range is what comes after all
files. A range is written anew where a new row falls into it, or a row of it goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from singerlake.tables.rows.types import place
from singerlake.tables.state.model import TableFile
from singerlake.tables.tasks.arrange import Region
from singerlake.tables.tasks.duplicates import ValueRange
from singerlake.tables.tasks.sorted_run import SortedRun, sample

Place = tuple[Any, ...]


def regions(
    files: Sequence[TableFile],
    bounds: Sequence[Place],
    touched: Iterable[int],
    runs: Sequence[SortedRun],
    most_rows: int,
    file_rows: int,
) -> list[Region]:
    """The ranges in ``touched``, with neighbours put together and cut again so that each has about ``most_rows`` rows.
    ``bounds`` are the last places of ``files``, which should have ``file_rows`` rows."""
    wanted = set(touched)
    # A small last file grows instead of getting one more behind it.
    if len(files) in wanted and files and files[-1].rows < file_rows // 2:
        wanted.add(len(files) - 1)
    made: list[Region] = []
    group: list[int] = []
    for index in [*sorted(wanted), None]:
        if group and (index is None or index != group[-1] + 1):
            made += _cut(files, bounds, group, runs, most_rows)
            group = []
        if index is not None:
            group.append(index)
    return made


def cut(
    runs: Sequence[SortedRun],
    most_rows: int,
    *,
    others: Sequence[tuple[Place, int]] = (),
    up_to: Place | None = None,
) -> list[Place]:
    """Places that cut rows into parts of about ``most_rows``; ``others`` are more places, each with how many rows are
    before it."""
    marks = sorted([*others, *sample(runs)], key=lambda mark: place(mark[0]))
    cuts: list[Place] = []
    rows, left = 0, sum(count for _, count in marks)
    for at, count in marks:
        rows += count
        left -= count
        outside = up_to is not None and place(at) >= place(up_to)
        if rows >= most_rows and left >= most_rows // 2 and not outside and (not cuts or place(at) > place(cuts[-1])):
            cuts.append(at)
            rows = 0
    return cuts


def ranges_of(runs: Sequence[SortedRun], rows: int) -> list[ValueRange]:
    """Ranges of about ``rows`` rows each, which together have all rows of ``runs``."""
    ranges: list[ValueRange] = []
    after: Place | None = None
    for end in [*cut(runs, rows), None]:
        parts = tuple(part for part in (each.within(after, end) for each in runs) if part.chunks)
        ranges.append(ValueRange(after, end, parts))
        after = end
    return ranges


def _cut(
    files: Sequence[TableFile], bounds: Sequence[Place], group: list[int], runs: Sequence[SortedRun], most_rows: int
) -> list[Region]:
    first, last = group[0], group[-1]
    after = bounds[first - 1] if first else None
    up_to = bounds[last] if last < len(files) else None
    inside = [run.within(after, up_to) for run in runs]
    inside = [run for run in inside if run.chunks]
    others = [(bounds[index], files[index].rows) for index in group if index < len(files)]
    cuts = cut(inside, most_rows, others=others, up_to=up_to)
    ends: list[Place | None] = [*cuts, up_to]
    made = []
    for end in ends:
        meant = tuple(
            files[index]
            for index in group
            if index < len(files) and _overlaps(bounds[index], bounds[index - 1] if index else None, after, end)
        )
        parts = tuple(part for part in (run.within(after, end) for run in inside) if part.chunks)
        if meant or parts:
            made.append(Region(after, end, meant, parts))
        after = end
    return made


def _overlaps(bound: Place, before: Place | None, after: Place | None, up_to: Place | None) -> bool:
    """Whether a file, whose rows are after ``before`` and not after ``bound``, may hold some of a region."""
    if after is not None and place(bound) <= place(after):
        return False
    return up_to is None or before is None or place(before) < place(up_to)
