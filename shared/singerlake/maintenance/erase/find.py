"""Where the records are that a condition means: data files read one by one, and not changed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from singerlake.errors import BrokenFileError, MissingFileError
from singerlake.maintenance.erase.condition import Condition
from singerlake.maintenance.erase.match import Matches, RecordMatcher
from singerlake.maintenance.scan.small_files import small_bodies
from singerlake.maintenance.verify.findings import Finding
from singerlake.singer_file import inflate
from singerlake.storage.port import Storage

CHUNK_BYTES = 1 << 20
"""Text that is looked through at once."""


class Sought(NamedTuple):
    """An object to look into, by its key; ``bytes`` are as stored."""

    key: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """How many ``records`` of an object are meant, and which values of the condition they hold. ``trouble`` says why
    not all of it was looked into."""

    records: int = 0
    entries: frozenset[int] = frozenset()
    trouble: Finding | None = None


class FindRecords:
    """The task: an object of gzip and lines, and what of ``condition`` is in it."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._matcher = RecordMatcher(condition)

    def __reduce__(self) -> tuple[type[FindRecords], tuple[Condition]]:
        # What is compiled of the condition is no thing to send to another process.
        return FindRecords, (self._condition,)

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
                return self.look_into(item.key, stream)
        except MissingFileError:
            return Found(trouble=Finding("missing", item.key, "is not there"))

    def look_into(self, key: str, stream: BinaryIO) -> Found:
        """What is in the object with that key, whose stored bytes ``stream`` gives. Raises what ``stream`` raises."""
        records, entries = 0, set[int]()
        try:
            for lines in inflate(stream, where={"key": key}, size=CHUNK_BYTES):
                matches = self._matches(lines, key)
                records += len(matches.lines)
                entries |= matches.entries
        except BrokenFileError as error:
            return Found(records, frozenset(entries), Finding("broken", key, error.message))
        return Found(records, frozenset(entries))

    def _matches(self, lines: bytes, key: str) -> Matches:
        try:
            return self._matcher(lines)
        except (ValueError, RecursionError):
            raise BrokenFileError(
                "holds a line that is not a Singer message", hint="run 'singerlake verify'", key=key
            ) from None
