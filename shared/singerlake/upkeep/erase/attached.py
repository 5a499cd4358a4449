"""Attached files of records that are to be erased: which rows are theirs, and what of the objects is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from singerlake.attached.members import Parts, attached_rows
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader, Provenance, own_words
from singerlake.format.lines.messages import messages_in
from singerlake.format.state.attached import Attached
from singerlake.format.state.attached_objects import paths_in
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Entry, Storage
from singerlake.upkeep.erase.match import Matcher
from singerlake.upkeep.erase.members import message_numbers, read_gzip_members
from singerlake.upkeep.result import Tally

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
    """The objects that ``rows`` name."""
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
