"""The gzip members of a data file with the lines in them, so that those without a match can be copied as they are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import BinaryIO

from singerlake.errors import BrokenFileError
from singerlake.format.lines.messages import is_schema_line
from singerlake.format.newlines import look
from singerlake.singer_file import HELD_BYTES
from singerlake.upkeep.scan.scan import walk

_AHEAD = 1 << 20
"""Stored bytes that are kept of a member that is not held whole: more than are ever read ahead of the text."""
Take = Callable[["bytes | None", "bytes | None", bytes], None]
"""Takes the ``SL`` field of a member, its stored bytes and its lines. The stored bytes are None for a part of a member
that is too large to be held; then only its first part has the field."""


def read_gzip_members(stream: BinaryIO, take: Take, *, key: str) -> None:
    """Give the members of a gzip file to ``take``, in order. Members whose text does not end on a newline come together
    with the next ones. Raises ``BrokenFileError`` where the file is damaged or cut, and what ``take`` raises."""
    members = _Members(take, key)
    walk(stream, members)
    members.finish()


def message_numbers(lines: bytes, places: Sequence[int], before: int) -> list[int]:
    """Which messages of a file the lines at these ``places`` of whole ``lines`` are, where so many are ``before``."""
    if not places or not look(lines)[1]:
        return [before + at for at in places]
    schemas = [at for at, line in enumerate(lines.split(b"\n")) if is_schema_line(line)]
    return [before + at - bisect_left(schemas, at) for at in places]


class _Members:
    def __init__(self, take: Take, key: str) -> None:
        self.key = key
        self.bytes = 0
        self._take = take
        self._buffer = bytearray()
        self._begin = 0
        self._extra: bytes | None = None
        self._text: list[bytes] = []
        self._size = 0
        # ``_ended``: whether a line ends in the text. One that is longer than what is held is joined once, at its end.
        self._open = self._parted = self._ended = False

    def stored(self, data: bytes) -> None:
        """The next stored bytes, which may be ahead of the text."""
        self.bytes += len(data)
        self._buffer += data
        if self._parted and len(self._buffer) > 2 * _AHEAD:
            self._begin += len(self._buffer) - _AHEAD
            del self._buffer[:-_AHEAD]

    def member(self, start: int, extra: bytes | None) -> None:
        """A member begins at the stored byte ``start``."""
        if self._open and (self._size == 0 or self._text[-1].endswith(b"\n")):
            self._give(start)
        if not self._open:
            self._open, self._extra = True, extra

    def text(self, piece: bytes) -> None:
        """The next decompressed bytes."""
        if piece:
            self._text.append(piece)
            self._size += len(piece)
            self._ended = self._ended or b"\n" in piece
        if self._ended and self._size > HELD_BYTES:
            self._part()

    def finish(self) -> None:
        if self._size and not self._text[-1].endswith(b"\n"):
            raise BrokenFileError("ends in the middle of a line", hint="run 'singerlake verify'", key=self.key)
        if self._open:
            self._give(self.bytes)

    def _give(self, end: int) -> None:
        cut = end - self._begin
        stored = bytes(self._buffer[:cut])
        del self._buffer[:cut]
        self._begin = end
        self._take(self._extra, None if self._parted else stored, b"".join(self._text))
        self._text.clear()
        self._size, self._open, self._parted, self._ended = 0, False, False, False

    def _part(self) -> None:
        """Give the lines so far, without the stored bytes that they came from."""
        text = b"".join(self._text)
        cut = text.rfind(b"\n") + 1
        self._take(self._extra, None, text[:cut])
        self._extra, self._parted, self._ended = None, True, False
        self._text = [text[cut:]] if cut < len(text) else []
        self._size = len(text) - cut
