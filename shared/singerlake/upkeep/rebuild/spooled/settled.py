"""``choose.distinct`` and ``choose.choose`` over very many files: only those that have an id or a source in common with
others are held, and these two are asked about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter

from singerlake.format.state.files.file_list import FileList
from singerlake.upkeep.rebuild.choose import ChosenFiles, choose, distinct, own_ids
from singerlake.upkeep.rebuild.scanned_file import ScannedFile
from singerlake.upkeep.rebuild.spooled.found_files import FoundFiles, ids_of
from singerlake.upkeep.rebuild.spooled.places import Places

_AHEAD = 3
"""Ids of a clash that are looked for at once. Hardly one is taken."""


class DistinctFiles:
    """Files with one file for each id, as ``distinct`` makes them. ``odd`` are those that have something in common with
    others, and ``findings`` are about them."""

    def __init__(self, found: FoundFiles, prefix: str, listed: FileList | None = None) -> None:
        """``prefix`` is the folder's key, for the findings. ``listed`` are the files of a manifest."""
        self._found = found
        self._prefix = prefix
        self._common = found.repeated
        self._more: frozenset[str] = frozenset()
        self._places: Places | None = None
        odd = [file for file in found if self._is_odd(file)] if self._common else []
        if found.spooled:
            odd.sort(key=attrgetter("path"))
        ids = Counter(file.id for file in odd)
        several = [id for id, count in ids.items() if count > 1]
        known = listed.with_ids(several) if listed is not None and several else {}
        clashing = (file for file in odd if ids[file.id] > 1)
        self.odd, self.findings = distinct(odd, prefix=prefix, listed=known, taken=_taken(found, clashing))
        fresh = {file.id for file in self.odd}.difference(ids)
        if fresh:
            # Another file may be made of those that are taken under new ids.
            more = [file for file in found if not self._is_odd(file) and not fresh.isdisjoint(ids_of(file))]
            self._more = frozenset(file.path for file in more)
            self.odd += more
        self._by_id = {file.id: file for file in self.odd}

    @property
    def numbers(self) -> int:
        """All numbers of ``plain`` files are below this one."""
        return self._found.numbers

    def plain(self) -> Iterator[tuple[int, ScannedFile]]:
        """The others, each with its number, as of ``FoundFiles.numbered``."""
        if not self._common:
            return self._found.numbered()
        return ((number, file) for number, file in self._found.numbered() if not self._is_odd(file))

    def chosen(self) -> ChosenFiles:
        """Those of ``odd`` that ``choose`` takes."""
        return choose(self.odd, prefix=self._prefix)

    def in_order(self, odd: Iterable[ScannedFile]) -> Iterator[ScannedFile]:
        """All others and ``odd``, which are in it, in the order of a rebuild."""
        if not self._common:
            return self._found.in_order()
        plain = (file for file in self._found.in_order() if not self._is_odd(file))
        return merge(plain, odd, key=attrgetter("order"))

    def find(self, id: str) -> tuple[int | None, ScannedFile] | None:
        """The file with this id and the number of a plain one; None where there is none."""
        file = self._by_id.get(id)
        if file is not None:
            return None, file
        if self._places is None:
            self._places = self._found.places()
        for number in self._places.find(hash(id)):
            file = self._found[number]
            if file.id == id and not self._is_odd(file):
                return number, file
        return None

    def _is_odd(self, file: ScannedFile) -> bool:
        if file.path in self._more:
            return True
        return any(hash(id) in self._common for id in ids_of(file)) if self._common else False


def _taken(found: FoundFiles, clashing: Iterable[ScannedFile]) -> Callable[[str], bool]:
    """Whether any file has an id. Of ids that ``clashing`` files may get, all are looked for at once."""
    wanted = {id for file in clashing for id in islice(own_ids(file), _AHEAD)}
    there = {file.id for file in found if file.id in wanted} if wanted else set()

    def taken(id: str) -> bool:
        return id in there if id in wanted else any(file.id == id for file in found)

    return taken
