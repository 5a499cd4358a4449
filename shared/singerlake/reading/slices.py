"""The messages of one slice of a stream, read as they come or by whole gzip members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from singerlake.format.state.selection import Slice
from singerlake.reading.members import read_members
from singerlake.singer_file import Block, read_blocks
from singerlake.storage.port import Storage


def read_slice(storage: Storage, prefix: str, part: Slice) -> Iterator[Block]:
    """The messages of one slice of a file below ``prefix`` in blocks of whole lines, without holes; a slice that begins
    or ends inside a member does so exactly there. Raises ``MissingFileError``, ``BrokenFileError``."""
    with _opened(storage, prefix, part) as stream:
        key = prefix + part.file.path
        yield from _within(part, read_blocks(stream, part.file, member=part.member, until=part.until, key=key))


def read_slice_by_members(
    storage: Storage, prefix: str, part: Slice, stored: BinaryIO | None = None
) -> Iterator[Block]:
    """As ``read_slice``, each block only once its gzip members have ended well, and of a whole file the last one only
    if it is the file that the manifest lists. ``stored`` gives the bytes of the slice, and is closed; None: they are
    asked of storage."""
    with stored or _opened(storage, prefix, part) as stream:
        key = prefix + part.file.path
        yield from _within(part, read_members(stream, part.file, member=part.member, until=part.until, key=key))


def _opened(storage: Storage, prefix: str, part: Slice) -> BinaryIO:
    start = part.file.members[part.member][0] if part.member else 0
    return storage.open(prefix + part.file.path, start, part.stored_end)


def _within(part: Slice, blocks: Iterable[Block]) -> Iterator[Block]:
    """Of blocks that begin in the slice's first member, what the slice has."""
    file = part.file
    first = file.offset + part.skip
    last = file.end if part.stop is None else file.offset + part.stop
    for block in blocks:
        skip = max(0, first - block.offset)
        if skip >= block.messages:
            continue
        wanted = block.after(skip) if skip else block
        if wanted.offset >= last:
            return
        if wanted.offset + wanted.messages > last:
            wanted = wanted.first(last - wanted.offset)
        kept = wanted.without_holes() if file.erased else wanted
        if kept is not None:
            yield kept
