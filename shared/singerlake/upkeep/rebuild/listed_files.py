"""The files of the state before a rebuild, by id, and those of the state after it, where both may be very many."""

from __future__ import annotations

from collections.abc import Iterator

from singerlake.format.exact_json import decode, encode
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList, Part, Run
from singerlake.format.state.files.segment import Segment
from singerlake.scratch import ScratchDatabase, to_raw
from singerlake.stores.segments.on_disk import LocalSegments
from singerlake.stores.segments.stored import SIZES

HELD = 1 << 17
"""Files of a new state up to which all are held in memory."""
SEGMENT = SIZES.segment


class FormerFiles:
    """Files of a list, and which of them were met again. Raises what ``ScratchDatabase`` and the list's segments
    raise."""

    def __init__(self, files: FileList) -> None:
        self._rows = ScratchDatabase(
            "the files that a state lists",
            ["CREATE TABLE files (number INTEGER PRIMARY KEY, id BLOB, body BLOB)"],
            ["CREATE INDEX by_id ON files (id)"],
        )
        for number, file in enumerate(files):
            self._rows.add("files", (number, to_raw(file.id), encode(file)))
        self._met = bytearray(len(files) // 8 + 1)

    def meet(self, id: str) -> DataFile | None:
        """The file with this id, which is met by that; None where there is none. Of one that a damaged state lists
        twice, the last."""
        found = "SELECT number, body FROM files WHERE id = ? ORDER BY number"
        met = self._rows.all(found, (to_raw(id),))
        for number, _ in met:
            self._met[number >> 3] |= 1 << (number & 7)
        return decode(met[-1][1], DataFile) if met else None

    @property
    def unmet(self) -> Iterator[DataFile]:
        """Those that were not met, in their order."""
        for number, body in self._rows.rows("SELECT number, body FROM files ORDER BY number"):
            if not self._met[number >> 3] >> (number & 7) & 1:
                yield decode(body, DataFile)


class Listing:
    """The files of a state in the order of their offsets. ``before`` is the list whose parts may be kept as they are.
    Raises what ``ScratchDatabase`` raises, and what the segments of ``before`` do."""

    def __init__(self, before: FileList | None = None) -> None:
        self._parts: list[Part] = []
        self._tail: list[DataFile] = []
        self._at_hand = 0
        self._source = LocalSegments(FileList() if before is None else before, "the files of a new state")

    def append(self, file: DataFile) -> None:
        """One more file."""
        self._tail.append(file)
        if self._at_hand + len(self._tail) > HELD and len(self._tail) >= SEGMENT:
            self._to_disk()

    def keep(self, part: Segment | None, files: Run) -> None:
        """A part of ``before`` as it is: ``files``, which are that segment."""
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
