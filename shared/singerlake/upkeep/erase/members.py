"""The gzip members of a data file with the lines in them, so that those without a match can be copied as they are;
and the attached files of the records that are to be erased."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from singerlake.attached.members import Parts, attached_rows
from singerlake.errors import BrokenFileError
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader, Provenance, own_words
from singerlake.format.lines.messages import is_schema_line, messages_in
from singerlake.format.newlines import look
from singerlake.format.state.attached import Attached
from singerlake.format.state.attached_objects import paths_in
from singerlake.format.state.model import Manifest
from singerlake.singer_file import HELD_BYTES
from singerlake.storage.port import Entry, Storage
from singerlake.upkeep.erase.match import Matcher
from singerlake.upkeep.result import Tally
from singerlake.upkeep.scan import walk

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


def message_numbers(lines: bytes, numbers: Sequence[int], before: int) -> list[int]:
    """Which messages of a file the lines at these ``numbers`` of whole ``lines`` are, where so many are ``before``."""
    if not numbers or not look(lines)[1]:
        return [before + at for at in numbers]
    schemas = [at for at, line in enumerate(lines.split(b"\n")) if is_schema_line(line)]
    return [before + at - bisect_left(schemas, at) for at in numbers]


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
        self.bytes += len(data)
        self._buffer += data
        if self._parted and len(self._buffer) > 2 * _AHEAD:
            self._begin += len(self._buffer) - _AHEAD
            del self._buffer[:-_AHEAD]

    def member(self, start: int, extra: bytes | None) -> None:
        if self._open and (self._size == 0 or self._text[-1].endswith(b"\n")):
            self._give(start)
        if not self._open:
            self._open, self._extra = True, extra

    def text(self, piece: bytes) -> None:
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


RowsOf = tuple[tuple[str, int, int], ...]
"""The objects that rows name: the name of each, how many rows name it, and its bytes."""


@dataclass(frozen=True, slots=True)
class LeftObject:
    """The object of an attached file that no record has, at ``key``. ``id`` is its name where it is retired, None where
    nothing lists it. ``bytes`` is None where it is not whole."""

    key: str
    bytes: int | None
    id: str | None = None


def rows_of(rows: Iterable[Attached]) -> RowsOf:
    found: dict[str, tuple[str, int, int]] = {}
    for row in rows:
        if row.sha256 is not None:
            name = layout.attached_name(row.sha256, row.copy)
            _, count, size = found.get(name, (name, 0, row.bytes or 0))
            found[name] = name, count + 1, size
    return tuple(found.values())


def added(*many: RowsOf) -> dict[str, tuple[int, int]]:
    """Several of these together: name -> (rows, bytes)."""
    found: dict[str, tuple[int, int]] = {}
    for rows in many:
        for name, count, size in rows:
            found[name] = found.get(name, (0, 0))[0] + count, size
    return found


def tally_of(objects: Mapping[str, tuple[int, int]], names: Iterable[str]) -> Tally:
    """Those of ``objects`` with these ``names``."""
    sizes = [objects[name][1] for name in names]
    return Tally(len(sizes), sum(sizes))


def attached_to(stream: BinaryIO, matcher: Matcher, *, key: str) -> RowsOf:
    """The rows of the messages in a data file that are meant, by its stored bytes. Raises ``BrokenFileError``,
    ``ValueError`` and ``RecursionError`` where it is damaged."""
    reader = _AttachedTo(matcher)
    read_gzip_members(stream, reader.take, key=key)
    return rows_of(reader.rows)


class _AttachedTo:
    def __init__(self, matcher: Matcher) -> None:
        self.rows: list[Attached] = []
        self._matcher = matcher
        self._hits: set[int] = set()
        self._messages = 0
        self._parts = Parts()

    def take(self, extra: bytes | None, _: bytes | None, lines: bytes) -> None:
        self._matcher.begin(extra)
        if extra is not None:
            self._note(extra, empty=not lines)
        if lines:
            self._hits.update(message_numbers(lines, self._matcher(lines).lines, self._messages))
            self._messages += messages_in(lines)

    def _note(self, extra: bytes, *, empty: bool) -> None:
        words = own_words(extra)
        if isinstance(words, FileHeader):
            self._parts.header(self._messages)
        elif isinstance(words, Provenance) and empty and not self._messages:
            self._parts.add(words.replaces)
        elif words is None and empty:
            begin = self._parts.begin(self._messages)
            rows = attached_rows(extra, self._messages - begin)
            self.rows += [row for row in rows if begin + row.message in self._hits]


def left_objects(state: Manifest | None, entries: Iterable[Entry], prefix: str) -> Iterator[LeftObject]:
    """Those of ``entries``, which are below a stream's ``prefix``, that are attached files and that no listed file of
    ``state`` has a row of: nobody can tell what is in them."""
    listed = paths_in(state.files) if state is not None else set()
    for entry in entries:
        path = entry.key[len(prefix) :]
        name = layout.attached_name_in(path)
        if name is not None and path not in listed:
            retired = state is not None and name in state.retired_by_id
            yield LeftObject(entry.key, entry.size, name if retired else None)


def unfinished_objects(storage: Storage, prefix: str) -> Iterator[LeftObject]:
    """Attached files below a stream's ``prefix`` that are not whole. Raises what storage raises."""
    for name, opened in storage.unfinished(prefix):
        opened.close()
        if name.startswith(f"{prefix}{layout.ATTACHED}/"):
            yield LeftObject(name, None)
