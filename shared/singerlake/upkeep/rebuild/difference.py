"""How a repair changes which files a stream lists, and where. Pure, but for what is too much for memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.totals import totals_of
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.rebuild.listed_files import FormerFiles

KINDS = ("added", "dropped", "moved", "mended")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """How a stream's files change, in file ids. ``moved`` have another offset; of ``mended`` the state has
    other facts (path, size, checksum, members) at the same offset, the files are as they were found."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    moved: tuple[str, ...]
    mended: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.moved or self.mended)

    @property
    def by_kind(self) -> dict[str, tuple[str, ...]]:
        """The ids under the names of their fields."""
        return {kind: getattr(self, kind) for kind in KINDS}


@dataclass(frozen=True, slots=True)
class KindTotals:
    """The files of one kind of difference: how many, their stored bytes, and the paths of the first few."""

    files: Tally = NONE
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DifferenceTotals:
    """What a difference comes to, by kind, as ``Difference`` has them."""

    by_kind: dict[str, KindTotals]

    @property
    def files(self) -> Tally:
        """Those of all kinds."""
        return sum((kind.files for kind in self.by_kind.values()), NONE)


def difference(old: FileList | None, new: FileList) -> Difference:
    """The difference of two lists; None: there was no state."""
    ids: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for kind, file in _changes(old, new):
        ids[kind].append(file.id)
    return Difference(**{kind: tuple(found) for kind, found in ids.items()})


def difference_totals(old: FileList | None, new: FileList) -> DifferenceTotals:
    """What that comes to, in little memory."""
    if old is None:
        added = KindTotals(Tally(len(new), totals_of(new).bytes), tuple(file.path for file in islice(new, _NAMED)))
        return DifferenceTotals({"added": added} | {kind: KindTotals() for kind in KINDS[1:]})
    count = dict.fromkeys(KINDS, 0)
    stored = dict.fromkeys(KINDS, 0)
    paths: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for kind, file in _changes(old, new):
        count[kind] += 1
        stored[kind] += file.bytes
        if count[kind] <= _NAMED:
            paths[kind].append(file.path)
    return DifferenceTotals({kind: KindTotals(Tally(count[kind], stored[kind]), tuple(paths[kind])) for kind in KINDS})


def _changes(old: FileList | None, new: FileList) -> Iterator[tuple[str, DataFile]]:
    """Each file that changes, as it is to be listed, or was where it is no more."""
    if old is None:
        yield from (("added", file) for file in new)
        return
    same = 0
    if old.parts == new.parts:
        if old.tail == new.tail:
            return
        same = len(old) - len(old.tail)
    # Of a state that keeps its offsets, all files are where they were.
    for was, file in zip(old.between(same), new.between(same), strict=False):
        if was.id != file.id:
            break
        same += 1
        yield from _changed(was, file)
    if same == len(old):
        yield from (("added", file) for file in new.between(same))
        return
    former = FormerFiles(old.between(same))
    for file in new.between(same):
        known = former.meet(file.id)
        if known is None:
            yield "added", file
        else:
            yield from _changed(known, file)
    yield from (("dropped", file) for file in former.unmet)


def _changed(was: DataFile, file: DataFile) -> Iterator[tuple[str, DataFile]]:
    if was.offset != file.offset:
        yield "moved", file
    elif was != file:
        yield "mended", file
