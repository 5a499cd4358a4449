"""Which listed files a vacuum joins: pure planning, from the manifest alone.

Files of half the target size and more are left alone, as Iceberg's ``rewrite_data_files`` does by its
``min-file-size-bytes``. Of the others, neighbours of one version go together up to the target. A vacuum that runs
often must not rewrite one nearly full file for the sake of each small one that came since: a file is joined only with
others that hold at least half of what it does, which is the rule of size-tiered compaction. So whenever a message is
written again, its file has grown by half, and that happens a few times, however often the vacuum runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from singerlake.format.state.files.data_file import DataFile
from singerlake.maintenance.file_count import NONE, Tally, tally

TARGET_BYTES = 128 << 20
"""The most bytes of a target's own files by default."""
MOST_FILES = 10_000
"""Files in one run, so that the transaction that replaces them, and what the new file says of them, stay small."""
_WORTH = 2

Run = tuple[DataFile, ...]
"""Neighbours of one version, to be joined into one file."""


@dataclass(frozen=True, slots=True)
class VacuumPlan:
    """What a vacuum is to join, in offset order, and why it leaves the rest. ``large`` files have at least half of the
    target. Of the small ones that stay, those ``between`` stand alone next to files of another version, as where
    writers of two versions alternate; the ``others`` have too little beside them to be worth rewriting."""

    runs: tuple[Run, ...] = ()
    large: Tally = NONE
    between: Tally = NONE
    others: Tally = NONE

    @property
    def joined(self) -> Tally:
        """The files that would be joined."""
        return Tally(sum(map(len, self.runs)), sum(file.bytes for run in self.runs for file in run))


def make_plan(files: Iterable[DataFile], target_bytes: int) -> VacuumPlan:
    """The plan for files in offset order. No file that it makes is larger than ``target_bytes``, its provenance not
    counted. Every file is in one run or one tally."""
    runs: list[Run] = []
    large = between = others = NONE
    for before, stretch, after in _stretches(files, target_bytes):
        if _is_large(stretch[0], target_bytes):
            large += tally(file.bytes for file in stretch)
        elif len(stretch) == 1 and any(near and near.version != stretch[0].version for near in (before, after)):
            between += tally(file.bytes for file in stretch)
        else:
            worthwhile = [run for pack in _packs(stretch, target_bytes) for run in _worth_it(pack)]
            runs += worthwhile
            in_runs = {file.id for run in worthwhile for file in run}
            others += tally(file.bytes for file in stretch if file.id not in in_runs)
    return VacuumPlan(tuple(runs), large, between, others)


def _is_large(file: DataFile, target_bytes: int) -> bool:
    return 2 * file.bytes >= target_bytes


def _stretches(
    files: Iterable[DataFile], target_bytes: int
) -> Iterator[tuple[DataFile | None, list[DataFile], DataFile | None]]:
    """Small neighbours of one version together, large neighbours together; each between the files next to it."""
    groups = groupby(files, key=lambda file: None if _is_large(file, target_bytes) else file.version)
    before: DataFile | None = None
    stretch: list[DataFile] = []
    for _, group in groups:
        following = list(group)
        if stretch:
            yield before, stretch, following[0]
            before = stretch[-1]
        stretch = following
    if stretch:
        yield before, stretch, None


def _packs(stretch: Sequence[DataFile], target_bytes: int) -> Iterator[list[DataFile]]:
    pack: list[DataFile] = []
    size = 0
    for file in stretch:
        parted = pack and file.offset != pack[-1].end
        if pack and (parted or size + file.bytes > target_bytes or len(pack) == MOST_FILES):
            yield pack
            pack, size = [], 0
        pack.append(file)
        size += file.bytes
    yield pack


def _worth_it(pack: Sequence[DataFile]) -> Iterator[Run]:
    """The pack, or, where one file is too large for the others, what lies on either side of it."""
    waiting = [pack]
    while waiting:
        part = waiting.pop()
        if len(part) < 2:
            continue
        sizes = [file.bytes for file in part]
        largest = max(sizes)
        if (sum(sizes) - largest) * _WORTH >= largest:
            yield tuple(part)
        else:
            at = sizes.index(largest)
            waiting += [part[at + 1 :], part[:at]]
