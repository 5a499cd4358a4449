"""Writing what a run has planned: task after task, from new messages to the files of the table as it will be.

The files of a table lie in order. Range i ends with the last position of file i; the last range is what comes after all
files. A range is written anew where a new row falls into it, or a row of it goes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from singerlake.arrow.plan.request import MessageKinds
from singerlake.arrow.plan.splits import pack, splits
from singerlake.arrow.schema.own import OFFSET
from singerlake.errors import CheckFailedError
from singerlake.format.state import selection
from singerlake.tables.declaration.model import Action, Check, Keep, TableDeclaration
from singerlake.tables.rows.columns import TableColumn
from singerlake.tables.rows.convert import NULL_KEY, SHOWN, RowMaker, Seen, one_of
from singerlake.tables.run.discard import Attempt
from singerlake.tables.run.plan import TablePlan, make_plan
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import Activation, TableFile
from singerlake.tables.state.types import sort_key
from singerlake.tables.tasks.duplicates import CountDuplicates, SortColumn
from singerlake.tables.tasks.extract import Extract, Extracted
from singerlake.tables.tasks.files import FileSpec
from singerlake.tables.tasks.rewrite import (
    Arrange,
    Arranged,
    Find,
    FoundRows,
    Region,
    Replace,
    Replacement,
    Resolve,
    Resolved,
    Settle,
)
from singerlake.tables.tasks.sorted_chunks import ChunkRange, SortedChunk, sample
from singerlake.work.batches import batches

logger = logging.getLogger(__name__)

SPLIT_BYTES = 64 << 20
"""Raw bytes that one task reads: its rows are held in memory while they are sorted."""
LEAST_REGION, REGION_MEMORY, WANTED_REGIONS = 8 << 20, 40 << 20, 32
"""Bytes that the rows of one range take in memory before they are sorted: a task holds a few times as much. More than
the least where there would be more ranges than wanted, since each of them is read from all sorted chunks."""
MOST_ROWS, LEAST_ROWS, WANTED_FILES = 1_000_000, 1 << 16, 32
"""A table with keys is cut into about that many files: fewer rows are rewritten for a few changed keys. Files of rows
that stay are as large as suits readers."""
FIND_BYTES, FIND_FILES = 16 << 20, 1000
"""Files that one task searches for keys: it reads all new keys first."""
FEWEST_ROWS = 1000
"""A task takes about as many at least, however large they are."""


@dataclass
class TableAttempt(Attempt):
    """``earlier`` are declarations by which the first records are made, each up to an offset. ``files`` is the table as
    it will be."""

    plan: TablePlan
    earlier: tuple[tuple[int, TableDeclaration], ...] = ()
    files: tuple[TableFile, ...] = ()
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def do(self) -> None:
        """Do it. Raises ``CheckFailedError``, and what planning, reading and storage raise; ``discard`` then."""
        self._do()
        plan = self.plan
        checks = [each for each in plan.declaration.checks if each.condition is None and not _holds_anyway(plan, each)]
        check_unique(self, [(each, plan.columns.name_of(each.column)) for each in checks], self.files, (OFFSET,))

    def _do(self) -> None:
        if self._is_straight():
            self._extract(straight=True)
            self.files = (*self.plan.files, *self.made)
            self.inserted = sum(file.rows for file in self.made)
            return
        extracted = self._extract(straight=False)
        why = self._why_anew()
        if why:
            logger.warning("table %s is made anew: %s", self.plan.declaration.name, why)
            self.discard()
            self.plan = make_plan(self.plan.declaration, self.plan.manifest, self.plan.base, full_refresh=True)
            self.seen = Seen()
            self._do()
            return
        if self.plan.is_keyed or self.plan.declaration.keep is Keep.APPEND:
            self._arrange(extracted)
        else:
            new = [chunk for answer in extracted for chunk in answer.chunks]
            found = self._find(new)
            self._replace(found, self._resolve(new, [each.chunk for each in found if each.chunk is not None]))

    @property
    def activations(self) -> tuple[Activation, ...]:
        """The ones that matter: those that the table knows, and the new ones."""
        state = self.plan.state
        known = () if state is None else (state.activated_before, state.activated)
        return (*(each for each in known if each is not None), *self.seen.activations)

    def _is_straight(self) -> bool:
        """Whether rows can go into files of the table as they come."""
        plan = self.plan
        declared = plan.declaration
        if declared.keep is not Keep.APPEND or declared.sort_by or declared.partition_by:
            return False
        if plan.messages is MessageKinds.ALL:
            return False
        few = plan.new_bytes < SPLIT_BYTES and plan.files and plan.files[-1].rows < LEAST_ROWS
        return not few

    def _why_anew(self) -> str:
        """Why what is new cannot be taken in beside what is there; empty where it can."""
        plan, new = self.plan, self.seen.activations
        if plan.state is None or not plan.state.is_published or plan.declaration.keep is Keep.APPEND:
            return ""
        greatest = plan.state.version
        back = next((each for each in new if greatest is not None and each.version < greatest), None)
        if back is not None:
            return f"ACTIVATE_VERSION at offset {back.offset} names a version older than others"
        if not plan.declaration.order_by and self._has_older(greatest):
            return (
                "records have a version older than that of others before them; "
                "a table with 'order_by' need not be made anew for them"
            )
        if new and plan.declaration.keep is Keep.HISTORY and not plan.is_keyed:
            return "ACTIVATE_VERSION may end the intervals of any key, and the table is not in the order of its key"
        return ""

    def _has_older(self, greatest: int | None) -> bool:
        """Whether the version in force of a new record is less than ``greatest``: it loses against a record that the
        table may no longer know."""
        if greatest is None:
            return False
        known = self.plan.state.activated if self.plan.state is not None else None
        without = self.seen.unversioned and (known is None or known.version < greatest)
        return without or (self.seen.least is not None and self.seen.least < greatest)

    def _extract(self, *, straight: bool) -> list[Extracted]:
        plan = self.plan
        self.seen.moment = plan.moment
        if plan.start == plan.stop:
            return []
        declared, key = plan.declaration, plan.names(plan.key)
        ordered = plan.is_keyed or declared.keep is Keep.APPEND
        task = Extract(
            maker=RowMaker(declared, plan.columns, plan.key),
            messages=plan.messages,
            spec=self._spec(MOST_ROWS),
            run=self.id,
            order=plan.order if ordered else key,
            key=key,
            order_by=plan.names(declared.order_by),
            straight=straight,
            reduce=declared.keep is Keep.LATEST and not (declared.order_by and plan.messages is MessageKinds.ALL),
            bounds=self._bounds() if ordered else (),
            activations=self.activations,
        )
        answers = []
        for start, stop, by in self._spans():
            files = plan.manifest.files_from(start, stop)
            selection.check_offsets(plan.manifest, files, start, stop)
            of_span = replace(task, maker=RowMaker(by, plan.columns, plan.key))
            for _, answer in self.done(of_span, pack(splits(files, start, stop, SPLIT_BYTES), SPLIT_BYTES)):
                answers.append(answer)
                self.seen.add(answer.seen)
                self.made += answer.files
                self.scratch += [chunk.key for chunk in answer.chunks]
        refuse_failed(self)
        return answers

    def _spans(self) -> Iterator[tuple[int, int, TableDeclaration]]:
        """The offsets that one declaration makes records of, and it."""
        start = self.plan.start
        for end, by in (*self.earlier, (self.plan.stop, self.plan.declaration)):
            stop = min(end, self.plan.stop)
            if start < stop:
                yield start, stop, by
                start = stop

    def _arrange(self, extracted: Sequence[Extracted]) -> None:
        plan = self.plan
        found = [chunk for answer in extracted for chunk in answer.chunks]
        touched = {index for answer in extracted for index in answer.touched} | self._losing()
        rows = self._file_rows(found)
        task = Arrange(self._settle(), self._spec(rows))
        meant = regions(plan.files, self._bounds(), touched, found, self._region_rows(found), rows)
        self._take((region.files, answer) for region, answer in self.done(task, meant))

    def _find(self, new: Sequence[SortedChunk]) -> list[FoundRows]:
        plan = self.plan
        if not new:
            return []
        task = Find(
            keep=plan.declaration.keep,
            columns=plan.columns,
            prefix=self._spec(1).prefix,
            run=self.id,
            key=plan.names(plan.key),
            chunks=tuple(new),
            cuts=tuple(cut(new, MOST_ROWS)),
        )
        groups = list(batches(plan.files, _bytes, size=FIND_BYTES, most=FIND_FILES))
        found = [answer for _, answer in self.done(task, groups)]
        self.scratch += [each.chunk.key for each in found if each.chunk is not None]
        return found

    def _resolve(self, new: Sequence[SortedChunk], earlier: Sequence[SortedChunk]) -> list[Resolved]:
        task = Resolve(self._settle(), self._spec(MOST_ROWS), self.id, self._bounds())
        both = [*new, *earlier]
        ranges = [each for each in ranges_of(both, self._region_rows(both)) if each.chunks]
        answers = []
        for _, answer in self.done(task, ranges):
            answers.append(answer)
            self.scratch += [answer.chunk.key] if answer.chunk else []
            self._count(answer)
        return answers

    def _replace(self, earlier: Sequence[FoundRows], resolved: Sequence[Resolved]) -> None:
        plan = self.plan
        removed = {file: positions for each in earlier for file, positions in each.positions.items()}
        found = [answer.chunk for answer in resolved if answer.chunk is not None]
        touched = {index for answer in resolved for index in answer.touched} | self._losing()
        touched |= {index for index, file in enumerate(plan.files) if file.id in removed}
        rows = self._file_rows(found)
        task = Replace(plan.declaration.keep, plan.columns, self._spec(rows), self.activations)
        meant = [
            Replacement(region, {file.id: removed[file.id] for file in region.files if file.id in removed})
            for region in regions(plan.files, self._bounds(), touched, found, self._region_rows(found), rows)
        ]
        self._take((item.region.files, answer) for item, answer in self.done(task, meant))

    def _take(self, answers: Iterable[tuple[Sequence[TableFile], Arranged]]) -> None:
        """The files of the table: new ones in the place of those that were read for them."""
        rewritten = set()
        for files, answer in answers:
            rewritten |= {file.id for file in files}
            self.made += answer.files
            self._count(answer)
        kept = [file for file in self.plan.files if file.id not in rewritten]
        self.files = tuple(sorted([*kept, *self.made], key=lambda file: sort_key(self.plan.decoded(file.last))))

    def _count(self, answer: Arranged | Resolved) -> None:
        self.inserted += answer.inserted
        self.updated += answer.updated
        self.deleted += answer.deleted

    def _losing(self) -> set[int]:
        """The files of which an ACTIVATE_VERSION may send rows away, or end their intervals."""
        return {
            index
            for index, file in enumerate(self.plan.files)
            if any(
                file.offsets[0] < each.offset and file.versions != (each.version, each.version)
                for each in self.seen.activations
            )
        }

    def _settle(self) -> Settle:
        plan, declared = self.plan, self.plan.declaration
        key, order_by = plan.names(plan.key), plan.names(declared.order_by)
        return Settle(declared.keep, plan.columns, key, order_by, self.activations, plan.start)

    def _spec(self, file_rows: int) -> FileSpec:
        plan = self.plan
        declared = plan.declaration
        return FileSpec(
            declared.name,
            plan.generation,
            declared.format,
            plan.order,
            file_rows,
            plan.partitions,
            declared.csv_formulas,
            ids=plan.numbered[0] if declared.iceberg else (),
        )

    def _bounds(self) -> tuple[tuple[Any, ...], ...]:
        return tuple(self.plan.decoded(file.last) for file in self.plan.files)

    def _file_rows(self, found: Sequence[SortedChunk]) -> int:
        """Rows that a file should have."""
        rows = sum(chunk.rows for chunk in found)
        total = rows + sum(file.rows for file in self.plan.files)
        if self.plan.declaration.keep is Keep.APPEND:
            return MOST_ROWS
        return min(MOST_ROWS, max(LEAST_ROWS, total // WANTED_FILES))

    def _region_rows(self, found: Sequence[SortedChunk]) -> int:
        """Rows, new and old, that one task takes: as many as its memory holds, since most of them may be of one key."""
        rows, memory = (sum(getattr(chunk, name) for chunk in found) for name in ("rows", "memory"))
        region = min(REGION_MEMORY, max(LEAST_REGION, memory // WANTED_REGIONS))
        return max(FEWEST_ROWS, region * rows // memory) if memory else MOST_ROWS


def _bytes(file: TableFile) -> int:
    return file.bytes


def refuse_failed(work: Attempt) -> None:
    """Raise ``CheckFailedError`` where a check failed: it names the checks and some offsets."""
    seen = work.seen
    if not seen.failed:
        return
    told = "; ".join(
        f"{name}: {count} {'row' if count == 1 else 'rows'}"
        + (f", as at offset {', '.join(map(str, offsets))}" if offsets else "")
        for name, count, offsets in (
            (name, count, seen.examples.get(name)) for name, count in sorted(seen.failed.items())
        )
    )
    records, key = (work.plan.columns.records, work.plan.key) if isinstance(work.plan, TablePlan) else ((), ())
    hints = []
    if NULL_KEY in seen.failed:
        for source in key:
            other = next((each.source for each in records if _differ_by_case(source, each)), None)
            if other is not None:
                hints.append(f"to make one column of both: columns: {{{other!r}: {{rename: {source!r}}}}}")
        hints.append(
            "a key is null, or does not fit its type: cast it under 'columns', as a large integer to decimal(38,0), "
            "name another key, or set null_keys to drop"
        )
    joined = {one_of(column.sources) for column in records if len(column.sources) > 1}
    if seen.failed.keys() & joined:
        hints.append("records have values of both properties: give each a column of its own by 'rename'")
    if seen.failed.keys() - {NULL_KEY, *joined}:
        hints.append("correct the source, or set the check to drop or warn")
    raise CheckFailedError(
        f"nothing was published, since checks failed: {told}",
        hint="; ".join(hints),
        table=work.plan.declaration.name,
    )


def _differ_by_case(source: str, column: TableColumn) -> bool:
    """Whether a property is another one than that column's, whose name is equal but for case."""
    return source not in column.sources and source.lower() == column.source.lower()


RANGE_ROWS = 1_000_000
"""Values that a task counts."""


def check_unique(
    work: Attempt, checks: Iterable[tuple[Check, str]], files: Sequence[TableFile], beside: tuple[str, ...]
) -> None:
    """Count in ``work`` what the checks that say that a column has no value twice find in ``files``; the table's name
    of the column is with each. The columns of all files are read, and those ``beside`` that tell where a row comes
    from. Raises ``CheckFailedError``, and what tasks raise."""
    seen = work.seen
    for check, column in checks:
        sort = SortColumn(table_prefix(work.plan.declaration.name), work.id, column, beside)
        found = [answer for _, answer in work.done(sort, files) if answer is not None]
        work.scratch += [each.key for each in found]
        ranges = ranges_of(found, RANGE_ROWS)
        count, examples = 0, []
        for _, (more, offsets) in work.done(CountDuplicates(column, beside), ranges):
            count += more
            examples += offsets
        if count:
            counts = seen.failed if check.action is Action.FAIL else seen.warned
            counts[check.name] += count
            seen.examples[check.name] = examples[:SHOWN]
    refuse_failed(work)


def _holds_anyway(plan: TablePlan, check: Check) -> bool:
    """Whether the column is the whole key of a table that has each key once."""
    return plan.declaration.keep is Keep.LATEST and plan.key == (check.column,)


Position = tuple[Any, ...]


def regions(
    files: Sequence[TableFile],
    bounds: Sequence[Position],
    touched: Iterable[int],
    chunks: Sequence[SortedChunk],
    most_rows: int,
    file_rows: int,
) -> list[Region]:
    """The ranges in ``touched``, with neighbours put together and cut again so that each has about ``most_rows`` rows.
    ``bounds`` are the last positions of ``files``, which should have ``file_rows`` rows."""
    wanted = set(touched)
    # A small last file grows instead of getting one more behind it.
    if len(files) in wanted and files and files[-1].rows < file_rows // 2:
        wanted.add(len(files) - 1)
    made: list[Region] = []
    group: list[int] = []
    for index in [*sorted(wanted), None]:
        if group and (index is None or index != group[-1] + 1):
            made += _cut(files, bounds, group, chunks, most_rows)
            group = []
        if index is not None:
            group.append(index)
    return made


def cut(
    chunks: Sequence[SortedChunk],
    most_rows: int,
    *,
    others: Sequence[tuple[Position, int]] = (),
    up_to: Position | None = None,
) -> list[Position]:
    """Positions that cut rows into pieces of about ``most_rows``. ``others`` are more positions, each with how many
    rows are before it."""
    marks = sorted([*others, *sample(chunks)], key=lambda mark: sort_key(mark[0]))
    cuts: list[Position] = []
    rows, left = 0, sum(count for _, count in marks)
    for at, count in marks:
        rows += count
        left -= count
        outside = up_to is not None and sort_key(at) >= sort_key(up_to)
        if (
            rows >= most_rows
            and left >= most_rows // 2
            and not outside
            and (not cuts or sort_key(at) > sort_key(cuts[-1]))
        ):
            cuts.append(at)
            rows = 0
    return cuts


def ranges_of(chunks: Sequence[SortedChunk], rows: int) -> list[ChunkRange]:
    """Ranges of about ``rows`` rows each, which together have all rows of ``chunks``."""
    ranges: list[ChunkRange] = []
    after: Position | None = None
    for end in [*cut(chunks, rows), None]:
        pieces = tuple(piece for piece in (each.within(after, end) for each in chunks) if piece.blocks)
        ranges.append(ChunkRange(after, end, pieces))
        after = end
    return ranges


def _cut(
    files: Sequence[TableFile],
    bounds: Sequence[Position],
    group: list[int],
    chunks: Sequence[SortedChunk],
    most_rows: int,
) -> list[Region]:
    first, last = group[0], group[-1]
    after = bounds[first - 1] if first else None
    up_to = bounds[last] if last < len(files) else None
    inside = [chunk.within(after, up_to) for chunk in chunks]
    inside = [chunk for chunk in inside if chunk.blocks]
    others = [(bounds[index], files[index].rows) for index in group if index < len(files)]
    cuts = cut(inside, most_rows, others=others, up_to=up_to)
    ends: list[Position | None] = [*cuts, up_to]
    made = []
    for end in ends:
        meant = tuple(
            files[index]
            for index in group
            if index < len(files) and _overlaps(bounds[index], bounds[index - 1] if index else None, after, end)
        )
        pieces = tuple(piece for piece in (chunk.within(after, end) for chunk in inside) if piece.blocks)
        if meant or pieces:
            made.append(Region(after, end, pieces, meant))
        after = end
    return made


def _overlaps(bound: Position, before: Position | None, after: Position | None, up_to: Position | None) -> bool:
    """Whether a file, whose rows are after ``before`` and not after ``bound``, may hold some of a region."""
    if after is not None and sort_key(bound) <= sort_key(after):
        return False
    return up_to is None or before is None or sort_key(before) < sort_key(up_to)
