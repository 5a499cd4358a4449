"""The sound files that a survey found: in memory, or, where there are many, in sorted runs in a temporary file."""

from __future__ import annotations

import copy
import marshal
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter

from singerlake.format.state.model import StreamSchema
from singerlake.upkeep.rebuild.scanned_file import ScannedFile
from singerlake.upkeep.rebuild.spooled.blocks import IN_BLOCK, Blocks
from singerlake.upkeep.rebuild.spooled.places import Places
from singerlake.work.path_marks import Repeats

HELD = 1 << 17
"""Files up to which all are held in memory."""
_RUN = 1 << 16
"""Files of a sorted run."""
_SOURCES = 4
"""Sources of a vacuumed file that take as much memory as one file more."""
_LIKELY = 1 << 22
"""Files for which there are enough buckets to find those that come twice."""
_order = attrgetter("order")


class FoundFiles:
    """Files, each with a number. Comparable with one another; not hashable.

    All are added before anything is asked. Above ``HELD`` files every method may raise what ``ScratchFile`` raises.
    """

    def __init__(self, files: Iterable[ScannedFile] = ()) -> None:
        self._held: list[ScannedFile] = []
        self._weight = 0
        self._spool: _Spool | None = None
        self._left_out: frozenset[str] = frozenset()
        self._count = 0
        for file in files:
            self.add(file)
        self.seal()

    def add(self, file: ScannedFile) -> None:
        """One more file."""
        self._count += 1
        self._held.append(file)
        self._weight += _weight(file)
        if self._weight >= (HELD if self._spool is None else _RUN):
            self._to_disk()

    def seal(self, *, by_path: bool = False) -> None:
        """All were added. ``by_path``: they did not come in the order of their paths, as a listing has them."""
        if self._spool is not None and self._held:
            self._to_disk()
        elif by_path:
            self._held.sort(key=attrgetter("path"))

    def without(self, paths: Iterable[str]) -> FoundFiles:
        """The same without the files at these paths."""
        less = copy.copy(self)
        less._left_out = self._left_out.union(paths)
        less._count = self._count - len(less._left_out) + len(self._left_out)
        return less

    @property
    def spooled(self) -> bool:
        """Whether most of them are on disk."""
        return self._spool is not None

    @property
    def numbers(self) -> int:
        """All numbers are below this one."""
        return len(self._held) if self._spool is None else self._spool.blocks.numbers

    @property
    def repeated(self) -> frozenset[int]:
        """The hashes of ids, of files or of sources, that come more than once."""
        if self._spool is not None:
            return self._spool.ids.repeated()
        seen: set[str] = set()
        again: set[int] = set()
        for file in self:
            for id in ids_of(file):
                if id in seen:
                    again.add(hash(id))
                seen.add(id)
        return frozenset(again)

    @property
    def atomic(self) -> bool:
        """Whether any is of an atomic run."""
        if self._spool is not None:
            return self._spool.atomic
        return any(file.atomic_run is not None for file in self._held)

    def numbered(self) -> Iterator[tuple[int, ScannedFile]]:
        """Each with its number: as a listing has them, or, where they are on disk, in any order."""
        files = enumerate(self._held) if self._spool is None else self._spool.numbered()
        if self._left_out:
            return ((number, file) for number, file in files if file.path not in self._left_out)
        return files

    def in_order(self) -> Iterator[ScannedFile]:
        """In the order of a rebuild."""
        files = iter(sorted(self._held, key=_order)) if self._spool is None else self._spool.in_order()
        if self._left_out:
            return (file for file in files if file.path not in self._left_out)
        return files

    def places(self) -> Places:
        """The numbers under the hashes of their ids."""
        places = Places()
        for number, file in self.numbered():
            places.add(hash(file.id), number)
        return places

    def __getitem__(self, number: int) -> ScannedFile:
        return self._held[number] if self._spool is None else self._spool.file(self._spool.blocks[number])

    def __iter__(self) -> Iterator[ScannedFile]:
        return (file for _, file in self.numbered())

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FoundFiles):
            return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _to_disk(self) -> None:
        if self._spool is None:
            self._spool = _Spool()
        for start in range(0, len(self._held), _RUN):
            self._spool.add_run(self._held[start : start + _RUN])
        self._held = []
        self._weight = 0


_Row = tuple[str, str, int, int, bytes, tuple[tuple[str, int], ...]]
"""A file as it is written: path, id, messages, the number of its schema, and the rest."""


class _Spool:
    def __init__(self) -> None:
        # A path or an id may be no Unicode, which few encodings bring back as it was. Nobody else can write this file.
        self.blocks: Blocks[_Row] = Blocks("the files that a rebuild found", marshal.dumps, marshal.loads)
        self.ids = Repeats(count=_LIKELY)
        self.atomic = False
        self._runs: list[tuple[int, int]] = []
        self._schemas: list[StreamSchema] = []
        self._numbers: dict[int, int] = {}

    def add_run(self, files: list[ScannedFile]) -> None:
        files.sort(key=_order)
        start = self.blocks.numbers
        block: list[_Row] = []
        weight = 0
        for file in files:
            for id in ids_of(file):
                self.ids.add(id)
            self.atomic = self.atomic or file.atomic_run is not None
            own = _weight(file)
            if block and weight + own > IN_BLOCK:
                self.blocks.append(block)
                block, weight = [], 0
            block.append(self._row(file))
            weight += own
        if block:
            self.blocks.append(block)
        self._runs.append((start, self.blocks.numbers))

    def numbered(self) -> Iterator[tuple[int, ScannedFile]]:
        return ((number, self.file(row)) for number, row in self.blocks.between(0, self.blocks.numbers))

    def in_order(self) -> Iterator[ScannedFile]:
        runs = ((self.file(row) for _, row in self.blocks.between(*run)) for run in self._runs)
        return merge(*runs, key=_order)

    def file(self, row: _Row) -> ScannedFile:
        path, id, messages, schema, packed, replaces = row
        return ScannedFile(path, id, messages, self._schemas[schema], packed, replaces)

    def _row(self, file: ScannedFile) -> _Row:
        number = self._numbers.get(id(file.schema))
        if number is None:
            number = self._numbers[id(file.schema)] = len(self._schemas)
            self._schemas.append(file.schema)
        return file.path, file.id, file.messages, number, file.packed, file.replaces


def ids_of(file: ScannedFile) -> Sequence[str] | set[str]:
    """Its own id and those of the files whose messages it holds, each once."""
    return {file.id, *(source for source, _ in file.replaces)} if file.replaces else (file.id,)


def _weight(file: ScannedFile) -> int:
    """How many files without sources take as much memory."""
    return 1 + len(file.replaces) // _SOURCES
