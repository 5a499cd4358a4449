"""Where the records are that a condition means: data files read one by one, and not changed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from singerlake.errors import BrokenFileError, MissingFileError
from singerlake.maintenance.erase.condition import Condition
from singerlake.maintenance.erase.match import RecordMatcher
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
        found = _Finding(item.key)
        try:
            with storage.open(item.key) if body is None else io.BytesIO(body) as stream:
                found.read(stream, self._matcher)
        except MissingFileError:
            return Found(trouble=Finding("missing", item.key, "is not there"))
        except BrokenFileError as error:
            return Found(found.records, frozenset(found.entries), Finding("broken", item.key, error.message))
        return Found(found.records, frozenset(found.entries))


class _Finding:
    def __init__(self, key: str) -> None:
        self.records = 0
        self.entries: set[int] = set()
        self._key = key

    def read(self, stream: BinaryIO, matcher: RecordMatcher) -> None:
        for lines in inflate(stream, where={"key": self._key}, size=CHUNK_BYTES):
            try:
                matches = matcher(lines)
            except (ValueError, RecursionError):
                raise BrokenFileError(
                    "holds a line that is not a Singer message", hint="run 'singerlake verify'", key=self._key
                ) from None
            self.records += len(matches.lines)
            self.entries |= matches.entries
