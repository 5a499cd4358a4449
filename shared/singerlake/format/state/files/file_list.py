"""The listed files of a stream, in the order of their offsets: at hand, or in segments that are read when asked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Protocol, overload

from singerlake.errors import CorruptObjectError
from singerlake.format.state.append_only import AppendOnlyList, ById
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.segment import Segment, is_described
from singerlake.format.state.files.wanted_ids import IdRanges, WantedIds

Run = AppendOnlyList[DataFile]
"""Neighbouring files that are at hand."""
Part = Segment | Run
"""Some files of a list: one at least."""
_end = attrgetter("end")
_offset = attrgetter("offset")


class SegmentSource(Protocol):
    """Where segments are read from. Raises ``CorruptObjectError`` for a bad one, and what storage raises."""

    @property
    def lost(self) -> Container[str]:
        """Names of segments that were found to be gone or damaged, and read from elsewhere."""

    def load(self, segment: Segment) -> Run:
        """Its files."""

    def load_each(self, segments: Sequence[Segment], *, stored: bool = False) -> Iterator[Run]:
        """The files of each in turn, not kept. ``stored``: from the segments themselves, not what stands for them."""

    def touching(self, segment: Segment, start: int, stop: int) -> Run:
        """Its files as of ``touching``; the others need not be read for it."""
        return touching(self.load(segment), start, stop)


def touching(files: Run, start: int, stop: int) -> Run:
    """Those of neighbouring files that hold any offset from ``start`` up to ``stop``."""
    first = bisect_right(files, start, key=_end)
    return AppendOnlyList(files[first : bisect_left(files, stop, lo=first, key=_offset)])


class FileList(Sequence[DataFile]):
    """An immutable sequence of files without gaps between them. Comparable with any sequence; not hashable.

    ``parts`` come first, then ``tail``, which grows. Segments need a ``source``, whose errors every method may raise.
    """

    __slots__ = ("_by_ids", "_ends", "_source", "_starts", "parts", "tail")

    def __init__(
        self, tail: Iterable[DataFile] = (), *, parts: Sequence[Part] = (), source: SegmentSource | None = None
    ) -> None:
        self.parts = tuple(parts)
        self.tail = tail if isinstance(tail, AppendOnlyList) else AppendOnlyList(tail)
        self._source = source
        self._starts = [0, *accumulate(_count(part) for part in self.parts)]
        self._ends = [_end_of(part) for part in self.parts]
        self._by_ids: tuple[IdRanges, tuple[Run, ...]] | None = None

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(part for part in self.parts if isinstance(part, Segment))

    @property
    def lost(self) -> Container[str]:
        """Names of segments that were seen to be lost: none of them may be named again."""
        return () if self._source is None else self._source.lost

    def check(self) -> None:
        """Read every segment once, so that one that cannot be read, or is not as the state says, shows now."""
        for segment, files in self.segments_with_files():
            if segment is not None and not is_described(segment, files):
                raise CorruptObjectError(
                    "the state says other things of a segment than its files come to",
                    hint="run 'singerlake rebuild --discard-manifest', which takes the state from the data files",
                    segment=segment.name,
                )

    def segments_with_files(self) -> Iterator[tuple[Segment | None, Run]]:
        """The files of all parts and the tail, each with its segment, which is read from where it is stored."""
        segments = (part if isinstance(part, Segment) else None for part in (*self.parts, None))
        return zip(segments, self.runs(stored=True), strict=True)

    @property
    def begin(self) -> int | None:
        """The offset of the first file; None where there is none."""
        first = self.parts[0] if self.parts else self.tail
        if isinstance(first, Segment):
            return first.offset
        return first[0].offset if first else None

    @property
    def end(self) -> int | None:
        """The offset behind the last file; None where there is none."""
        if self.tail:
            return self.tail[-1].end
        return self._ends[-1] if self._ends else None

    @property
    def by_id(self) -> Mapping[str, DataFile]:
        """The files by id, as a view. Segments that certainly do not have an id are not read for it."""
        return ById(self) if self.parts else self.tail.by_id

    @property
    def gap(self) -> int | None:
        """The first offset at which a part ends and the next one does not begin; None where there is none."""
        begins = [part.offset if isinstance(part, Segment) else part[0].offset for part in self.parts]
        begins += [self.tail[0].offset] if self.tail else []
        return next((end for end, begin in zip(self._ends, begins[1:], strict=False) if end != begin), None)

    def find(self, id: str) -> DataFile | None:
        found = self.tail.find(id)
        if found is not None or not self.parts:
            return found
        if self._by_ids is None:
            at_hand = tuple(part for part in self.parts if not isinstance(part, Segment))
            self._by_ids = IdRanges(self.segments), at_hand
        ranges, at_hand = self._by_ids
        runs = chain(at_hand, map(self._files, ranges.may_have(id)))
        return next((file for run in runs if (file := run.find(id)) is not None), None)

    def with_ids(self, ids: Iterable[str]) -> dict[str, DataFile]:
        """The files with these ids, by id; no segment is read twice for them."""
        wanted = set(ids)
        found = {id: file for id in wanted if (file := self.tail.find(id)) is not None}
        looked_for = WantedIds(wanted)
        parts = [part for part in self.parts if not isinstance(part, Segment) or looked_for.may_be_in(part)]
        found.update((file.id, file) for run in self.runs(parts) for file in run if file.id in wanted)
        return found

    def with_path(self, paths: Iterable[str]) -> set[str]:
        """Those of ``paths`` at which a file is listed; no segment is read twice for them."""
        wanted = set(paths)
        if not wanted:
            return set()
        looked_for = WantedIds.of_paths(wanted)
        parts = [part for part in self.parts if not isinstance(part, Segment) or looked_for.may_name_one_in(part)]
        files = chain(chain.from_iterable(self.runs(parts)), self.tail)
        return {file.path for file in files if file.path in wanted}

    def index_behind(self, offset: int) -> int:
        """How many files end at or before ``offset``."""
        at = bisect_right(self._ends, offset)
        if at == len(self.parts):
            return self._starts[at] + bisect_right(self.tail, offset, key=_end)
        part = self.parts[at]
        if offset <= (part.offset if isinstance(part, Segment) else part[0].offset):
            return self._starts[at]
        return self._starts[at] + bisect_right(self._files(part), offset, key=_end)

    def between(self, start: int, stop: int | None = None) -> FileList:
        """The files from index ``start`` up to ``stop``. Of segments none is read but those that are cut."""
        start, stop, _ = slice(start, stop).indices(len(self))
        parts: list[Part] = []
        for begin, part in zip(self._starts, self.parts, strict=False):
            first, last = max(start - begin, 0), min(stop - begin, _count(part))
            if first < last:
                whole = last - first == _count(part)
                parts.append(part if whole else AppendOnlyList(self._files(part)[first:last]))
        begin = self._starts[-1]
        tail = self.tail if start <= begin and stop == len(self) else self.tail[max(start - begin, 0) : stop - begin]
        return FileList(tail if stop > begin else (), parts=parts, source=self._source)

    def touching(self, start: int, stop: int | None = None) -> FileList:
        """The files with offsets from ``start`` up to ``stop``. Only segments that are cut are read, maybe in part."""
        end = max(self.end or 0, start)
        stop = end if stop is None else stop
        parts: list[Part] = []
        for part in self.parts[bisect_right(self._ends, start) :]:
            begin = part.offset if isinstance(part, Segment) else part[0].offset
            if begin >= stop:
                break
            if start <= begin and stop >= _end_of(part):
                parts.append(part)
            elif run := self._touching(part, start, stop):
                parts.append(run)
        all_of_tail = not self.tail or (start <= self.tail[0].offset and stop >= end)
        tail = self.tail if all_of_tail else touching(self.tail, start, stop)
        return FileList(tail, parts=parts, source=self._source)

    def of_versions(self, versions: Container[str]) -> FileList:
        """The files of these versions, which may leave gaps. Only segments that have others, too, are read."""
        parts: list[Part] = []
        for part in self.parts:
            if isinstance(part, Segment) and all(version in versions for version in part.versions):
                parts.append(part)
            elif not isinstance(part, Segment) or any(version in versions for version in part.versions):
                run = [file for file in self._files(part) if file.version in versions]
                parts += (AppendOnlyList(run),) if run else ()
        return FileList((file for file in self.tail if file.version in versions), parts=parts, source=self._source)

    def matching(self, may_match: Callable[[Segment], bool]) -> Iterator[DataFile]:
        """All files but those of segments that ``may_match`` rules out, which are not read."""
        parts = [part for part in self.parts if not isinstance(part, Segment) or may_match(part)]
        return chain(chain.from_iterable(self.runs(parts)), self.tail)

    def extended(self, more: Iterable[DataFile]) -> FileList:
        """This with ``more`` at its end, as of ``AppendOnlyList``."""
        tail = self.tail.extended(more)
        return self if tail is self.tail else self._like(self.parts, tail)

    def replaced(self, start: int, stop: int, by: Iterable[DataFile]) -> FileList:
        """This with ``by`` in the place of the files from index ``start`` up to ``stop``."""
        first = min(bisect_right(self._starts, start) - 1, len(self.parts))
        last = max(first, min(bisect_right(self._starts, stop - 1) - 1, len(self.parts)))
        run = [
            *self._slice(first, 0, start - self._starts[first]),
            *by,
            *self._slice(last, stop - self._starts[last], None),
        ]
        if last == len(self.parts):
            return self._like(self.parts[:first], AppendOnlyList(run))
        between = (AppendOnlyList(run),) if run else ()
        return self._like((*self.parts[:first], *between, *self.parts[last + 1 :]), self.tail)

    def with_source(self, source: SegmentSource) -> FileList:
        """This with its segments read from there."""
        return FileList(self.tail, parts=self.parts, source=source)

    def runs(self, wanted: Sequence[Part] | None = None, *, stored: bool = False) -> Iterator[Run]:
        """The files of all parts, or of the ``wanted`` ones, and then the tail where all are meant; each part is let go
        of before the next but one is read. ``stored`` is as in ``SegmentSource``."""
        parts = self.parts if wanted is None else wanted
        segments = [part for part in parts if isinstance(part, Segment)]
        loaded = self._source_of().load_each(segments, stored=stored) if segments else iter(())
        for part in parts:
            yield next(loaded) if isinstance(part, Segment) else part
        if wanted is None:
            yield self.tail

    def with_rows(self) -> Iterator[DataFile]:
        """The files of all parts that have rows of attached files, and of those that are at hand."""
        return self.matching(lambda segment: segment.attached > 0)

    @overload
    def __getitem__(self, index: int) -> DataFile: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[DataFile, ...]: ...

    def __getitem__(self, index: int | slice) -> DataFile | tuple[DataFile, ...]:
        if not self.parts:
            return self.tail[index]
        if isinstance(index, slice):
            return self._sliced(index)
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError("index out of range")
        at = min(bisect_right(self._starts, place) - 1, len(self.parts))
        return self._at(at)[place - self._starts[at]]

    def __len__(self) -> int:
        return self._starts[-1] + len(self.tail)

    def __iter__(self) -> Iterator[DataFile]:
        return chain.from_iterable(self.runs()) if self.parts else iter(self.tail)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FileList) and self.parts == other.parts and self.tail == other.tail:
            return True
        if isinstance(other, (FileList, AppendOnlyList, tuple, list)):
            return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"FileList({list(self.tail)!r}, parts={self.parts!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return FileList, (tuple(self),)

    def _sliced(self, index: slice) -> tuple[DataFile, ...]:
        start, stop, step = index.indices(len(self))
        if step != 1:
            return tuple(self)[index]
        if start >= stop:
            return ()
        first = min(bisect_right(self._starts, start) - 1, len(self.parts))
        last = min(bisect_right(self._starts, stop - 1) - 1, len(self.parts))
        if first == last:
            begin = self._starts[first]
            return self._at(first)[start - begin : stop - begin]
        files = [*self._slice(first, start - self._starts[first], None)]
        for run in self.runs(self.parts[first + 1 : last]):
            files += run
        return (*files, *self._slice(last, 0, stop - self._starts[last]))

    def _slice(self, at: int, start: int, stop: int | None) -> Sequence[DataFile]:
        """Some files of a part; it is read only where some are asked for."""
        count = len(self.tail) if at == len(self.parts) else _count(self.parts[at])
        if start >= (count if stop is None else min(stop, count)):
            return ()
        return self._at(at)[start:stop]

    def _touching(self, part: Part, start: int, stop: int) -> Run:
        if isinstance(part, Segment):
            return self._source_of().touching(part, start, stop)
        return touching(part, start, stop)

    def _at(self, at: int) -> Run:
        return self.tail if at == len(self.parts) else self._files(self.parts[at])

    def _files(self, part: Part) -> Run:
        return self._source_of().load(part) if isinstance(part, Segment) else part

    def _source_of(self) -> SegmentSource:
        if self._source is None:
            raise RuntimeError("a list with segments was given no place to read them from")
        return self._source

    def _like(self, parts: Sequence[Part], tail: Run) -> FileList:
        if parts is not self.parts:
            return FileList(tail, parts=parts, source=self._source)
        grown = FileList.__new__(FileList)
        grown.parts, grown.tail, grown._source = self.parts, tail, self._source
        grown._starts, grown._ends, grown._by_ids = self._starts, self._ends, self._by_ids
        return grown


def _count(part: Part) -> int:
    return part.files if isinstance(part, Segment) else len(part)


def _end_of(part: Part) -> int:
    return part.end if isinstance(part, Segment) else part[-1].end
