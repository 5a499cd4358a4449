"""Segments in a temporary file of this machine: of a state that is not on storage, or not yet."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from isal import igzip_lib

from singerlake.clock import random_id
from singerlake.format import layout
from singerlake.format.exact_json import decode
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList, Part, Run, SegmentSource
from singerlake.format.state.files.segment import Segment, describe
from singerlake.scratch import ScratchDatabase
from singerlake.stores.segments.objects import checksum, to_text

_LEVEL = 1


class LocalSegments(SegmentSource):
    """A ``SegmentSource``, partly on disk; ``others`` are in a list. ``made``, a plural, is what is kept."""

    def __init__(self, others: FileList, made: str) -> None:
        self._others = others
        self._made = made
        self._rows: ScratchDatabase | None = None
        self._names: set[str] = set()
        self._last: tuple[str, Run] | None = None

    @property
    def lost(self) -> Container[str]:
        return self._others.lost

    def write(self, files: Sequence[DataFile]) -> Segment:
        """Keep files as a new segment. Raises what ``ScratchDatabase`` raises."""
        if self._rows is None:
            self._rows = ScratchDatabase(self._made, ["CREATE TABLE segments (name TEXT PRIMARY KEY, body BLOB)"], [])
        text = to_text(files)
        segment = describe(files, name=layout.segment_name(files[0].offset, random_id()), sha256=checksum(text))
        body = igzip_lib.compress(text, _LEVEL, flag=igzip_lib.COMP_GZIP)
        self._rows.first("INSERT INTO segments VALUES (?, ?)", (segment.name, body))
        self._names.add(segment.name)
        return segment

    def load(self, segment: Segment) -> Run:
        """The files of a segment. Raises what ``ScratchDatabase`` raises, and what the other list does."""
        if segment.name not in self._names:
            return next(self._others.runs([segment]))
        last = self._last
        if last is None or last[0] != segment.name:
            last = self._last = segment.name, self._read(segment)
        return last[1]

    def load_each(self, segments: Sequence[Segment], *, stored: bool = False) -> Iterator[Run]:
        """The files of each in turn. ``stored`` is as in ``SegmentSource``. Raises as ``load``."""
        others = self._others.runs([segment for segment in segments if segment.name not in self._names], stored=stored)
        for segment in segments:
            yield self._read(segment) if segment.name in self._names else next(others)

    def _read(self, segment: Segment) -> Run:
        assert self._rows is not None
        found = self._rows.first("SELECT body FROM segments WHERE name = ?", (segment.name,))
        assert found is not None
        (body,) = found
        return AppendOnlyList(decode(igzip_lib.decompress(body, flag=igzip_lib.DECOMP_GZIP), list[DataFile]))


def on_disk(files: FileList, made: str) -> FileList:
    """The same files, all at hand or on this machine's disk; ``made`` as of ``LocalSegments``. Raises what
    ``ScratchDatabase`` raises, and where they come from."""
    local = LocalSegments(FileList(), made)
    parts: list[Part] = []
    for part, run in zip(files.parts, files.runs(files.parts), strict=True):
        parts.append(local.write(run) if isinstance(part, Segment) else run)
    return FileList(files.tail, parts=parts, source=local)
