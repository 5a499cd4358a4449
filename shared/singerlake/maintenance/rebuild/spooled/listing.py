"""A list of files that is made file by file: in memory, or, where it gets long, in segments on this machine's disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isal import igzip_lib

from singerlake.clock import random_id
from singerlake.format import FORMAT, layout
from singerlake.format.exact_json import decode
from singerlake.format.state.additions import format_of
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList, Part, Run, touching
from singerlake.format.state.files.segment import Segment, describe
from singerlake.maintenance.rebuild.spooled.scratch import ScratchFile
from singerlake.manifests.segments.objects import checksum, to_text
from singerlake.manifests.segments.stored import SIZES

HELD = 1 << 17
"""Files up to which all are held in memory."""
SEGMENT = SIZES.segment
_LEVEL = 1


class Listing:
    """The files of a state in the order of their offsets. ``before`` is the list whose parts may be kept as they are.
    Raises what ``ScratchFile`` raises, and what the segments of ``before`` do."""

    def __init__(self, before: FileList | None = None) -> None:
        self._parts: list[Part] = []
        self._tail: list[DataFile] = []
        self._at_hand = 0
        self._source = LocalSegments(FileList() if before is None else before)
        self.format = FORMAT
        """The oldest format that can say what the files are."""

    def append(self, file: DataFile) -> None:
        """One more file."""
        self._tail.append(file)
        if file.attached or file.erased:
            self.format = max(self.format, format_of((file,)))
        if self._at_hand + len(self._tail) > HELD and len(self._tail) >= SEGMENT:
            self._to_disk()

    def keep(self, part: Segment | None, files: Run) -> None:
        """A part of ``before`` as it is: ``files``, which are that segment."""
        self.format = max(self.format, format_of(files))
        if self._tail:
            self._parts.append(AppendOnlyList(self._tail))
            self._at_hand += len(self._tail)
            self._tail = []
        if part is None:
            self._at_hand += len(files)
        self._parts += (part or files,) if files else ()

    def files(self) -> FileList:
        """The list, to which nothing is added any more."""
        parts = self._parts
        if self._tail or not parts or isinstance(parts[-1], Segment):
            return FileList(self._tail, parts=parts, source=self._source)
        return FileList(parts[-1], parts=parts[:-1], source=self._source)

    def _to_disk(self) -> None:
        while len(self._tail) >= SEGMENT:
            self._parts.append(self._source.write(self._tail[:SEGMENT]))
            del self._tail[:SEGMENT]


class LocalSegments:
    """The ``SegmentSource`` of a list of which some segments are on this machine's disk; ``others`` are in a list."""

    def __init__(self, others: FileList) -> None:
        self._others = others
        self._file: ScratchFile | None = None
        self._places: dict[str, tuple[int, int]] = {}
        self._last: tuple[str, Run] | None = None

    def write(self, files: Sequence[DataFile]) -> Segment:
        """Keep files as a new segment. Raises what ``ScratchFile`` raises."""
        if self._file is None:
            self._file = ScratchFile("the files of a new state")
        text = to_text(files)
        segment = describe(files, name=layout.segment_name(files[0].offset, random_id()), sha256=checksum(text))
        body = igzip_lib.compress(text, _LEVEL, flag=igzip_lib.COMP_GZIP)
        self._places[segment.name] = self._file.append(body), len(body)
        return segment

    def load(self, segment: Segment) -> Run:
        """The files of a segment. Raises what ``ScratchFile`` raises, and what the other list does."""
        if segment.name not in self._places:
            return next(self._others.runs([segment]))
        last = self._last
        if last is None or last[0] != segment.name:
            last = self._last = segment.name, self._read(segment)
        return last[1]

    def touching(self, segment: Segment, start: int, stop: int) -> Run:
        """Its files that hold any offset from ``start`` up to ``stop``. Raises as ``load``."""
        return touching(self.load(segment), start, stop)

    def load_each(self, segments: Sequence[Segment], *, stored: bool = False) -> Iterator[Run]:
        """The files of each in turn. ``stored`` is as in ``SegmentSource``. Raises as ``load``."""
        others = self._others.runs([segment for segment in segments if segment.name not in self._places], stored=stored)
        for segment in segments:
            yield self._read(segment) if segment.name in self._places else next(others)

    def _read(self, segment: Segment) -> Run:
        assert self._file is not None
        body = self._file.read(*self._places[segment.name])
        return AppendOnlyList(decode(igzip_lib.decompress(body, flag=igzip_lib.DECOMP_GZIP), list[DataFile]))
