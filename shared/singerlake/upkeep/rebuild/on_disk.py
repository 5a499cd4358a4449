"""The files of a rebuild, on this machine's disk, since they may be ten millions: the sound ones that a survey found,
those of the state before it, and those of the state after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Any

from singerlake.format.exact_json import decode, encode
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList, Part, Run
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.model import StreamSchema
from singerlake.scratch import ScratchDatabase, to_raw, to_sortable, to_text
from singerlake.stores.segments.on_disk import LocalSegments
from singerlake.stores.segments.stored import SIZES
from singerlake.upkeep.rebuild.choose import ChosenFiles, choose, distinct
from singerlake.upkeep.scanned_file import ScannedFile

_TABLES = (
    """CREATE TABLE files (number INTEGER PRIMARY KEY, path BLOB, id BLOB, late INTEGER, created BLOB, run BLOB,
    seq BLOB, atomic INTEGER, messages INTEGER, schema INTEGER, packed BLOB, replaces BLOB)""",
    # The ids under which a file's messages are known, its own and those of its sources.
    "CREATE TABLE ids (id BLOB, number INTEGER)",
)
_INDEXES = ("CREATE INDEX in_order ON files (late, created, run, seq, id)", "CREATE INDEX by_id ON ids (id, number)")
_FILES = "SELECT number, path, files.id, messages, schema, packed, replaces FROM files"
_IN_ORDER = f"{_FILES} ORDER BY late, created, run, seq, files.id"
_WITH_ID = f"{_FILES} JOIN ids USING (number) WHERE ids.id = ?"
_SHARED = "SELECT number FROM ids WHERE id IN (SELECT id FROM ids GROUP BY id HAVING count(*) > 1)"


class FoundFiles:
    """Files, each with a number. Comparable; not hashable. Every method may raise what ``ScratchDatabase`` raises."""

    def __init__(self, files: Iterable[ScannedFile] = ()) -> None:
        self._rows = ScratchDatabase("the files that a rebuild found", _TABLES, _INDEXES)
        self._schemas: list[StreamSchema] = []
        self._numbers: dict[int, int] = {}
        self._count = 0
        self.numbers = 0
        """All numbers are below this one."""
        for file in files:
            self.add(file)

    def add(self, file: ScannedFile) -> None:
        schema = self._numbers.get(id(file.schema))
        if schema is None:
            schema = self._numbers[id(file.schema)] = len(self._schemas)
            self._schemas.append(file.schema)
        number = self.numbers
        order = file.file_order
        position = not order.run, to_raw(order.created), to_raw(order.run), to_sortable(order.seq), order.atomic
        said = file.messages, schema, file.packed, encode(file.replaces) if file.replaces else None
        self._rows.add("files", (number, to_raw(file.path), to_raw(file.id), *position, *said))
        for own in ids_of(file):
            self._rows.add("ids", (to_raw(own), number))
        self.numbers += 1
        self._count += 1

    def remove(self, number: int, file: ScannedFile) -> None:
        self._rows.all("DELETE FROM files WHERE number = ?", (number,))
        for own in ids_of(file):
            self._rows.all("DELETE FROM ids WHERE id = ? AND number = ?", (to_raw(own), number))
        self._count -= 1

    def atomic(self) -> Iterator[tuple[int, ScannedFile]]:
        """Those of atomic runs, each with its number."""
        return map(self._made, self._rows.rows(f"{_FILES} WHERE atomic ORDER BY number"))

    def numbered(self) -> Iterator[tuple[int, ScannedFile]]:
        """Each with its number, in the order in which they were added."""
        return map(self._made, self._rows.rows(f"{_FILES} ORDER BY number"))

    def in_order(self) -> Iterator[tuple[int, ScannedFile]]:
        """Each with its number, in the order of a rebuild; those with the same id are in any order."""
        return map(self._made, self._rows.rows(_IN_ORDER))

    def with_id(self, id: str) -> list[tuple[int, ScannedFile]]:
        """The files with this id, and those that were made of the one that has it, each with its number."""
        return [self._made(row) for row in self._rows.all(_WITH_ID, (to_raw(id),))]

    def with_shared_ids(self) -> list[tuple[int, ScannedFile]]:
        """Those that have an id or a source in common with others, by path, each with its number."""
        found = map(self._made, self._rows.rows(f"{_FILES} WHERE number IN ({_SHARED})"))
        return sorted(found, key=lambda each: each[1].path)

    def __iter__(self) -> Iterator[ScannedFile]:
        return (file for _, file in self.numbered())

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FoundFiles):
            return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _made(self, row: tuple[Any, ...]) -> tuple[int, ScannedFile]:
        number, path, id, messages, schema, packed, replaces = row
        held = decode(replaces, tuple[tuple[str, int], ...]) if replaces else ()
        return number, ScannedFile(to_text(path), to_text(id), messages, self._schemas[schema], packed, held)


class DistinctFiles:
    """Files with one file for each id, as ``distinct`` makes them. ``odd`` are those that have something in common with
    others, which alone are held in memory, and ``findings`` are about them."""

    def __init__(self, found: FoundFiles, prefix: str, listed: FileList | None = None) -> None:
        """``prefix`` is the folder's key, for the findings. ``listed`` are the files of a manifest."""
        self._found = found
        self._prefix = prefix
        shared = found.with_shared_ids()
        self._numbers = {number for number, _ in shared}
        odd = [file for _, file in shared]
        ids = Counter(file.id for file in odd)
        several = [id for id, count in ids.items() if count > 1]
        known = listed.with_ids(several) if listed is not None and several else {}
        self.odd, self.findings = distinct(odd, prefix=prefix, listed=known, taken=self._is_own)
        for fresh in sorted({file.id for file in self.odd}.difference(ids)):
            # Another file may be made of one that is taken under a new id.
            for number, file in found.with_id(fresh):
                if number not in self._numbers:
                    self._numbers.add(number)
                    self.odd.append(file)
        self._by_id = {file.id: file for file in self.odd}

    @property
    def numbers(self) -> int:
        """All numbers of ``plain`` files are below this one."""
        return self._found.numbers

    def plain(self) -> Iterator[tuple[int, ScannedFile]]:
        """The others, each with its number, as of ``FoundFiles.numbered``."""
        return (each for each in self._found.numbered() if each[0] not in self._numbers)

    def chosen(self) -> ChosenFiles:
        """Those of ``odd`` that ``choose`` takes."""
        return choose(self.odd, prefix=self._prefix)

    def in_order(self, odd: Iterable[ScannedFile]) -> Iterator[ScannedFile]:
        """All others and ``odd``, which are in it, in the order of a rebuild."""
        plain = (file for number, file in self._found.in_order() if number not in self._numbers)
        return merge(plain, odd, key=attrgetter("order"))

    def find(self, id: str) -> tuple[int | None, ScannedFile] | None:
        """The file with this id and the number of a plain one; None where there is none."""
        file = self._by_id.get(id)
        if file is not None:
            return None, file
        own = (each for each in self._found.with_id(id) if each[1].id == id and each[0] not in self._numbers)
        return next(own, None)

    def _is_own(self, id: str) -> bool:
        return any(file.id == id for _, file in self._found.with_id(id))


def ids_of(file: ScannedFile) -> Sequence[str] | set[str]:
    """Its own id and those of the files whose messages it holds, each once."""
    return {file.id, *(source for source, _ in file.replaces)} if file.replaces else (file.id,)


HELD = 1 << 17
"""Files of a new state up to which all are held in memory."""
SEGMENT = SIZES.segment


class FormerFiles:
    """Files of a list, and which were met again. Raises what ``ScratchDatabase`` and the list's segments raise."""

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
        """The file with this id, met by that; None where there is none. Of one that is listed twice, the last."""
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
