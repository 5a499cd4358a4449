"""The sound files that a survey found, in a temporary database: there may be ten millions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Any

from singerlake.format.exact_json import decode, encode
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import StreamSchema
from singerlake.scratch import ScratchDatabase, to_raw, to_sortable, to_text
from singerlake.upkeep.rebuild.choose import ChosenFiles, choose, distinct
from singerlake.upkeep.rebuild.scanned_file import ScannedFile

_TABLES = (
    """CREATE TABLE files (number INTEGER PRIMARY KEY, path BLOB, id BLOB, late INTEGER, created BLOB, run BLOB,
    seq BLOB, atomic INTEGER, messages INTEGER, schema INTEGER, packed BLOB, replaces BLOB)""",
    # The ids under which a file's messages are known, its own and those of its sources.
    "CREATE TABLE ids (id BLOB, number INTEGER)",
)
_INDEXES = (
    "CREATE INDEX in_order ON files (late, created, run, seq, id)",
    "CREATE INDEX by_id ON ids (id, number)",
)
_FILES = "SELECT number, path, files.id, messages, schema, packed, replaces FROM files"
_IN_ORDER = f"{_FILES} ORDER BY late, created, run, seq, files.id"
_WITH_ID = f"{_FILES} JOIN ids USING (number) WHERE ids.id = ?"
_SHARED = "SELECT number FROM ids WHERE id IN (SELECT id FROM ids GROUP BY id HAVING count(*) > 1)"


class FoundFiles:
    """Files, each with a number. Comparable with one another; not hashable. Every method may raise what
    ``ScratchDatabase`` raises."""

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
        """One more file."""
        schema = self._numbers.get(id(file.schema))
        if schema is None:
            schema = self._numbers[id(file.schema)] = len(self._schemas)
            self._schemas.append(file.schema)
        number = self.numbers
        order = file.file_order
        place = not order.run, to_raw(order.created), to_raw(order.run), to_sortable(order.seq), order.atomic
        said = file.messages, schema, file.packed, encode(file.replaces) if file.replaces else None
        self._rows.add("files", (number, to_raw(file.path), to_raw(file.id), *place, *said))
        for own in ids_of(file):
            self._rows.add("ids", (to_raw(own), number))
        self.numbers += 1
        self._count += 1

    def remove(self, number: int, file: ScannedFile) -> None:
        """Leave a file out from now on."""
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
