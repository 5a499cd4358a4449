"""Objects in one request or in blocks: files that are sent, and objects made of others.

A block blob has at most 50,000 blocks; one that is sent or copied by Put Block From URL has at most 4,000 MiB
(https://learn.microsoft.com/azure/storage/blobs/scalability-targets). Blocks that are never committed are nowhere to be
seen, and Azure drops them after a week (https://learn.microsoft.com/rest/api/storageservices/put-block).
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeGuard

from singerlake.clock import random_id
from singerlake.storage.cloud.compose import NotCopiedError, Objects, Sources, Together, compose, threads
from singerlake.storage.cloud.driver import Ask
from singerlake.storage.drivers.azure.errors import code_of, meaning
from singerlake.storage.port import Part

ONE_PUT = 16 << 20
"""Bytes up to which a file is sent in one request."""
BLOCK = 16 << 20
MOST_BLOCKS = 50_000
LEAST_COPIED = 1 << 20
"""Bytes from which a part is copied by the server. A smaller one is fetched sooner, and shares a block with others."""
LONGEST_COPIED = 4000 << 20
_THREADS = 8
_UNREADABLE = "CannotVerifyCopySource"
"""The server could not read the source, with the status that the source answered it."""


class Container(Objects, Protocol):
    """What composing needs of the container beside blocks, by the port's keys."""

    def put(self, key: str, body: bytes, *, if_absent: bool, if_match: str | None) -> str: ...


@dataclass(frozen=True)
class Source:
    """Where the server reads an object that it copies, and what it shows there."""

    url: str
    authorization: str | None


def block_length(size: int) -> int:
    """How long the blocks of a file of ``size`` bytes are, except for the last."""
    return max(BLOCK, -(-size // MOST_BLOCKS))


def upload_blocks(blob: Any, path: Path, size: int, ask: Ask) -> None:
    """Send a file of ``size`` bytes in blocks, several at once."""
    length = block_length(size)
    starts = range(0, size, length)

    def stage(number: int, name: str) -> None:
        start = starts[number]
        ask(lambda: _stage_window(blob, name, path, start, min(length, size - start)))

    _in_blocks(blob, len(starts), stage, ask)


def _stage_window(blob: Any, name: str, path: Path, start: int, length: int) -> None:
    with path.open("rb", buffering=0) as file:
        blob.stage_block(name, _Window(file, start, length), length=length)


@dataclass(frozen=True)
class Composer:
    """Makes objects of others. ``source`` gives where the server can read an object by itself."""

    objects: Container
    blob: Callable[[str], Any]
    source: Callable[[str], Source]

    def compose(self, key: str, pieces: Sequence[bytes | Part], ask: Ask) -> None:
        """Make the object. The server copies what is long enough, unless it refuses to: then all is fetched and sent.
        Raises ``MissingFileError`` where a part is not there."""
        sources = Sources(self.objects, ask)
        total = sum(len(piece) if isinstance(piece, bytes) else piece.size for piece in pieces)
        share = 2 * total // MOST_BLOCKS

        def put(body: bytes) -> None:
            ask(lambda: self.objects.put(key, body, if_absent=False, if_match=None))

        def in_blocks(parts: Sequence[Part | Together], pool: ThreadPoolExecutor) -> None:
            # Of a source that ends too early the server may copy less.
            last = {part.key: part for part in sorted(filter(_is_copied, parts), key=lambda part: part.end)}
            list(pool.map(sources.check, last.values()))
            blob = self.blob(key)

            def stage(number: int, name: str) -> None:
                part = parts[number]
                if isinstance(part, Part):
                    ask(lambda: self._copy(blob, name, part))
                else:
                    body = sources.fetched(part, pool)
                    ask(lambda: blob.stage_block(name, body, length=len(body)))

            _in_blocks(blob, len(parts), stage, ask)

        compose(
            pieces,
            sources,
            put=put,
            in_parts=in_blocks,
            least=max(LEAST_COPIED, share),
            longest=LONGEST_COPIED,
            sent=max(BLOCK, share),
        )

    def _copy(self, blob: Any, name: str, part: Part) -> None:
        try:
            source = self.source(part.key)
            blob.stage_block_from_url(
                name,
                source.url,
                source_offset=part.start,
                source_length=part.size,
                source_authorization=source.authorization,
            )
        except Exception as error:
            if meaning(error).may_pass and code_of(error) != _UNREADABLE:
                raise
            # A firewall may keep the server from its own source, and Azurite knows no such copies.
            raise NotCopiedError from error


def _is_copied(part: Part | Together) -> TypeGuard[Part]:
    return isinstance(part, Part)


def _in_blocks(blob: Any, count: int, stage: Callable[[int, str], None], ask: Ask) -> None:
    """Stage so many blocks, each by its number and its name, and make an object of them. Names are of one length, as
    Azure wants it, and of this try alone."""
    from azure.storage.blob import BlobBlock

    nonce = random_id()
    names = [f"{nonce}-{number:05d}" for number in range(count)]
    with threads(_THREADS) as pool:
        for _ in pool.map(stage, range(count), names):
            pass
    # "Latest", which finds blocks that an earlier try has committed, too.
    ask(partial(blob.commit_block_list, [BlobBlock(name) for name in names]))


class _Window(io.RawIOBase):
    """A part of a file as a file of its own, so that blocks need no memory. It does not close the file."""

    def __init__(self, file: io.FileIO | Any, start: int, length: int) -> None:
        self._descriptor = file.fileno()
        self._start = start
        self._length = length
        self._at = 0

    def __len__(self) -> int:
        return self._length

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._length - self._at)
        data = os.pread(self._descriptor, left if size is None or size < 0 else min(size, left), self._start + self._at)
        self._at += len(data)
        return data
