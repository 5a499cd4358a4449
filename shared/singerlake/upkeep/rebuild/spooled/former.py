"""The files of a state by id, and which of them were met again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from singerlake.format.exact_json import decode, encode
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.upkeep.rebuild.spooled.blocks import IN_BLOCK, Blocks
from singerlake.upkeep.rebuild.spooled.places import Places
from singerlake.work.batches import batches


class FormerFiles:
    """Files of a list. Those of segments are copied to this machine's disk: raises what
    ``ScratchFile`` and the list's segments raise."""

    def __init__(self, files: FileList) -> None:
        self._files = files
        self._blocks: Blocks[DataFile] | None = None
        self._places = Places()
        if files.segments:
            self._blocks = Blocks("the files that a state lists", encode, _decoded)
            for block in batches(files, lambda _: 0, size=1, most=IN_BLOCK):
                self._blocks.append(block)
        for number, file in self._numbered():
            self._places.add(hash(file.id), number)
        self._met = bytearray(len(files) // 8 + 1)

    def meet(self, id: str) -> DataFile | None:
        """The file with this id, which is met by that; None where there is none. Of one that a damaged state lists
        twice, the last."""
        met = None
        for number in self._places.find(hash(id)):
            file = self._file(number)
            if file.id == id:
                self._met[number >> 3] |= 1 << (number & 7)
                met = file
        return met

    @property
    def unmet(self) -> Iterator[DataFile]:
        """Those that were not met, in their order."""
        return (file for number, file in self._numbered() if not self._met[number >> 3] >> (number & 7) & 1)

    def _numbered(self) -> Iterator[tuple[int, DataFile]]:
        return enumerate(self._files) if self._blocks is None else self._blocks.between(0, self._blocks.numbers)

    def _file(self, number: int) -> DataFile:
        return self._files[number] if self._blocks is None else self._blocks[number]


def _decoded(text: bytes) -> Sequence[DataFile]:
    return decode(text, list[DataFile])
