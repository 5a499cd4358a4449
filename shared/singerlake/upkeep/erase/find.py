"""Where the messages are that are to be erased: data files read one by one, and not changed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, NamedTuple

from singerlake.errors import BrokenFileError, MissingFileError
from singerlake.singer_file import inflate
from singerlake.storage.port import Storage
from singerlake.upkeep.erase.attached import RowsOf, attached_to
from singerlake.upkeep.erase.match import Matcher
from singerlake.upkeep.erase.matcher_cache import Ready
from singerlake.upkeep.erase.members import read_gzip_members
from singerlake.upkeep.erase.of_run import OfRun
from singerlake.upkeep.scan.small_files import small_bodies
from singerlake.upkeep.verify.findings import Finding

CHUNK_BYTES = 1 << 20
"""Text that is looked through at once."""


class Sought(NamedTuple):
    """An object to look into, by its key; ``bytes`` are as stored."""

    key: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """How many messages of an object are meant, how many ``records`` are among them, and which values of the condition
    they hold. ``attached`` are the attached files of these messages, where they are asked for. ``trouble`` says why not
    all of it was looked into."""

    messages: int = 0
    records: int = 0
    entries: frozenset[int] = frozenset()
    trouble: Finding | None = None
    attached: RowsOf = ()


@dataclass(frozen=True)
class FindMessages:
    """The task: an object of gzip and lines, and what is meant in it. ``attached``: attached files are asked for."""

    ready: Ready
    attached: bool = False

    def size(self, item: Sought) -> int:
        """Its stored bytes."""
        return item.bytes

    def __call__(self, storage: Storage, item: Sought) -> Found:
        """Read it whole. Raises what storage raises."""
        return self._look(storage, item, None)

    def together(self, storage: Storage, items: Sequence[Sought]) -> Sequence[Found]:
        """Read several. Raises what storage raises."""
        bodies = small_bodies(storage, items)
        return [self._look(storage, item, body) for item, body in zip(items, bodies, strict=True)]

    def _look(self, storage: Storage, item: Sought, body: bytes | None) -> Found:
        try:
            with storage.open(item.key) if body is None else io.BytesIO(body) as stream:
                found = self.look_into(item.key, stream)
        except MissingFileError:
            return Found(trouble=Finding("missing", item.key, "is not there"))
        if not self.attached or not found.messages or found.trouble is not None:
            return found
        try:
            with storage.open(item.key) if body is None else io.BytesIO(body) as stream:
                return replace(found, attached=attached_to(stream, self.ready.matcher(), key=item.key))
        except MissingFileError:
            # It was collected meanwhile.
            return found

    def look_into(self, key: str, stream: BinaryIO) -> Found:
        """What is in the object with that key, whose stored bytes ``stream`` gives. Raises what ``stream`` raises."""
        look = _Look(key)
        trouble = None
        try:
            if isinstance(self.ready.meant, OfRun):
                look.into_members(stream, self.ready.matcher())
            else:
                look.into_text(stream, self.ready.matcher())
        except BrokenFileError as error:
            trouble = Finding("broken", key, error.message)
        return Found(look.messages, look.records, frozenset(look.entries), trouble)


class _Look:
    """What was seen of one object so far."""

    def __init__(self, key: str) -> None:
        self.messages = self.records = 0
        self.entries: set[int] = set()
        self._key = key

    def into_text(self, stream: BinaryIO, matcher: Matcher) -> None:
        for lines in inflate(stream, where={"key": self._key}, size=CHUNK_BYTES):
            self._take(matcher, lines)

    def into_members(self, stream: BinaryIO, matcher: Matcher) -> None:
        def take(extra: bytes | None, _: bytes | None, lines: bytes) -> None:
            matcher.begin(extra)
            if lines:
                self._take(matcher, lines)

        read_gzip_members(stream, take, key=self._key)

    def _take(self, matcher: Matcher, lines: bytes) -> None:
        try:
            matches = matcher(lines)
        except (ValueError, RecursionError):
            raise BrokenFileError(
                "holds a line that is not a Singer message", hint="run 'singerlake verify'", key=self._key
            ) from None
        self.messages += len(matches.lines)
        self.records += matches.records
        self.entries |= matches.entries
