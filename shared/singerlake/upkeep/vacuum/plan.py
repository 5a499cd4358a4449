"""Which listed files a vacuum joins: pure planning, from the manifest alone.

Files of half the target size and more are left alone, as Iceberg's ``rewrite_data_files`` does by its
``min-file-size-bytes``. Of the others, neighbours of one version go together up to the target. A vacuum that groups
often must not rewrite one nearly full file for the sake of each small one that came since: a file is joined only with
others that hold at least half of what it does, which is the rule of size-tiered compaction. So whenever a message is
written again, its file has grown by half, and that happens a few times, however often the vacuum runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import accumulate, chain, groupby, takewhile

from singerlake.format.lines.times import known_span
from singerlake.format.state.files.data_file import DataFile
from singerlake.upkeep.result import NONE, Tally, tally

SHARE_OF_AGE = 10
"""Where messages expire by age, a joined file spans a tenth of it at most: whole files expire, the last message of each
being that old. So a message stays for a tenth longer than it would at most."""
MOST_FILES = 10_000
"""Files in one group, so that the transaction that replaces them, and what the new file says of them, stay small."""
_WORTH = 2


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbours of one version from an offset on, to be joined into one file: those of ``files`` from index ``start``
    up to ``stop``, with so many stored bytes. They are taken out of the list when they are asked for: of ten million
    files most may be in groups."""

    files: Sequence[DataFile] = field(repr=False, compare=False)
    offset: int
    version: str
    start: int
    stop: int
    bytes: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[DataFile]:
        return iter(self.files[self.start : self.stop])


@dataclass(frozen=True, slots=True)
class VacuumPlan:
    """What a vacuum is to join, in offset order, and why it leaves the rest. ``large`` files have at least half of the
    target. Of the small ones that stay, those ``between`` stand alone next to files of another version, as where
    writers of two versions alternate; the ``others`` have too little beside them to be worth rewriting. Those of
    ``later`` are to be joined once a collector has deleted files that were replaced before."""

    groups: tuple[Group, ...] = ()
    large: Tally = NONE
    between: Tally = NONE
    others: Tally = NONE
    later: Tally = NONE

    @property
    def joined(self) -> Tally:
        return _files_of(self.groups)

    def within(self, room: int) -> VacuumPlan:
        """The plan for now, where ``room`` more files may wait for a collector: whole groups, from the first one on."""
        counts = accumulate(map(len, self.groups))
        now = sum(1 for _ in takewhile(lambda count: count <= room, counts))
        return replace(self, groups=self.groups[:now], later=_files_of(self.groups[now:]))


def make_plan(files: Sequence[DataFile], target_bytes: int, age: timedelta | None = None) -> VacuumPlan:
    """The plan for files in offset order, which are gone through once. No file that it makes is larger than
    ``target_bytes``, its provenance not counted. ``age`` is that at which messages expire, None: never. Every file is
    in one group or one tally."""
    planner = _Planner(files, target_bytes, None if age is None else age / SHARE_OF_AGE)
    for _, stretch in groupby(files, key=lambda file: None if _is_large(file, target_bytes) else file.version):
        planner.take(stretch)
    planner.end()
    return VacuumPlan(tuple(planner.groups), planner.large, planner.between, planner.others)


def _is_large(file: DataFile, target_bytes: int) -> bool:
    return 2 * file.bytes >= target_bytes


@dataclass
class _Planner:
    """Takes one stretch after the other: small neighbours of one version together, large neighbours together."""

    files: Sequence[DataFile]
    target_bytes: int
    longest: timedelta | None = None
    groups: list[Group] = field(default_factory=list)
    large: Tally = NONE
    between: Tally = NONE
    others: Tally = NONE
    _at: int = 0
    _before: DataFile | None = None
    _alone: DataFile | None = None
    """A small file that is a stretch by itself, until it is seen what comes after it."""
    _parted: bool = False
    """Whether a file of another version is before that one."""

    def take(self, stretch: Iterator[DataFile]) -> None:
        first = next(stretch)
        self._decide_alone(first)
        if _is_large(first, self.target_bytes):
            for file in chain((first,), stretch):
                self.large += Tally(1, file.bytes)
                self._at += 1
                self._before = file
            return
        second = next(stretch, None)
        if second is None:
            self._alone = first
            self._parted = self._before is not None and self._before.version != first.version
            self._at += 1
            self._before = first
            return
        for pack in _packs(chain((first, second), stretch), self.target_bytes, self.longest):
            self._plan(pack)
            self._at += len(pack)
            self._before = pack[-1]

    def end(self) -> None:
        self._decide_alone(None)

    def _decide_alone(self, after: DataFile | None) -> None:
        if self._alone is None:
            return
        one = Tally(1, self._alone.bytes)
        if self._parted or (after is not None and after.version != self._alone.version):
            self.between += one
        else:
            self.others += one
        self._alone = None

    def _plan(self, pack: Sequence[DataFile]) -> None:
        left = tally(file.bytes for file in pack)
        worthwhile = [
            Group(
                self.files,
                pack[start].offset,
                pack[start].version,
                self._at + start,
                self._at + stop,
                sum(file.bytes for file in pack[start:stop]),
            )
            for start, stop in _worth_it(pack)
        ]
        self.groups += worthwhile
        joined = _files_of(worthwhile)
        self.others += Tally(left.files - joined.files, left.bytes - joined.bytes)


def _files_of(groups: Sequence[Group]) -> Tally:
    return Tally(sum(map(len, groups)), sum(group.bytes for group in groups))


def _packs(stretch: Iterable[DataFile], target_bytes: int, longest: timedelta | None) -> Iterator[list[DataFile]]:
    pack: list[DataFile] = []
    size = 0
    for file in stretch:
        parted = pack and (file.offset != pack[-1].end or (longest is not None and _spans(pack[0], file) > longest))
        if pack and (parted or size + file.bytes > target_bytes or len(pack) == MOST_FILES):
            yield pack
            pack, size = [], 0
        pack.append(file)
        size += file.bytes
    yield pack


def _spans(first: DataFile, last: DataFile) -> timedelta:
    """From the first message of one to the last of another. A file whose times are unknown ends a search by age, so
    that it is apart from those whose times are known, and not from its like."""
    begin, end = known_span(first.first, first.last), known_span(last.first, last.last)
    if begin is None or end is None:
        return timedelta(0) if begin is end else timedelta.max
    return end[1] - begin[0]


def _worth_it(pack: Sequence[DataFile]) -> Iterator[tuple[int, int]]:
    """The pack, or, where one file is too large for the others, what lies on either side of it; as the indexes of the
    first and behind the last."""
    sizes = [file.bytes for file in pack]
    waiting = [(0, len(pack))]
    while waiting:
        start, stop = waiting.pop()
        if stop - start < 2:
            continue
        part = sizes[start:stop]
        largest = max(part)
        if (sum(part) - largest) * _WORTH >= largest:
            yield start, stop
        else:
            at = start + part.index(largest)
            waiting += [(at + 1, stop), (start, at)]
