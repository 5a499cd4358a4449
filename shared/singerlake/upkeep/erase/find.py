"""Where the messages are that are to be erased, whatever lists them: data files read one by one, and not changed."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import BinaryIO, NamedTuple

from singerlake.conditions import Condition
from singerlake.errors import BrokenFileError, LakeError, MissingFileError
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.singer_file import inflate
from singerlake.storage.port import Entry, Storage
from singerlake.upkeep.erase.declared import as_declared
from singerlake.upkeep.erase.match import Matcher, Meant, OfRun, Ready
from singerlake.upkeep.erase.members import (
    LeftObject,
    RowsOf,
    attached_to,
    left_objects,
    read_gzip_members,
    unfinished_objects,
)
from singerlake.upkeep.result import Finding
from singerlake.upkeep.scan import small_bodies
from singerlake.work.engine import Engine

CHUNK_BYTES = 1 << 20
"""Text that is looked through at once."""


class Sought(NamedTuple):
    """An object to look into, by its key; ``bytes`` are as stored."""

    key: str
    bytes: int


@dataclass(frozen=True, slots=True)
class FoundMessages:
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
        return item.bytes

    def __call__(self, storage: Storage, item: Sought) -> FoundMessages:
        return self._look(storage, item, None)

    def together(self, storage: Storage, items: Sequence[Sought]) -> Sequence[FoundMessages]:
        bodies = small_bodies(storage, items)
        return [self._look(storage, item, body) for item, body in zip(items, bodies, strict=True)]

    def _look(self, storage: Storage, item: Sought, body: bytes | None) -> FoundMessages:
        try:
            with storage.open(item.key) if body is None else io.BytesIO(body) as stream:
                found = self.look_into(item.key, stream)
        except MissingFileError:
            return FoundMessages(trouble=Finding("missing", item.key, "is not there"))
        if not self.attached or not found.messages or found.trouble is not None:
            return found
        try:
            with storage.open(item.key) if body is None else io.BytesIO(body) as stream:
                return replace(found, attached=attached_to(stream, self.ready.matcher(), key=item.key))
        except MissingFileError:
            # It was collected meanwhile.
            return found

    def look_into(self, key: str, stream: BinaryIO) -> FoundMessages:
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
        return FoundMessages(look.messages, look.records, frozenset(look.entries), trouble)


class _Look:
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


def find_traces(
    storage: Storage,
    tap: str,
    stream: str,
    meant: Meant,
    engine: Engine,
    state: Callable[[], Manifest | None],
    looked: Callable[[int], object] = lambda _: None,
) -> Iterator[Finding]:
    """A finding for each object of a stream's folder that holds a record that is ``meant``, for each that cannot be
    looked into to its end, and for each attached file that no record has in the newest ``state``. ``engine`` reads
    them. ``looked`` is called for each object with how many such records it holds. Raises what storage raises."""
    prefix = layout.stream_prefix(tap, stream)
    attached: list[Entry] = []

    def sought() -> Iterator[Sought]:
        for entry in storage.list(prefix):
            path = entry.key[len(prefix) :]
            if layout.attached_name_in(path) is not None:
                attached.append(entry)
            elif not _is_metadata(path):
                yield Sought(entry.key, entry.size)

    objects = sought()
    if isinstance(meant, Condition) and (declared := _state(state)) is not None:
        meant = as_declared(meant, declared)
    ready = Ready(meant)
    for item, found in engine(FindMessages(ready), objects):
        looked(found.records)
        if found.records:
            yield _trace(item.key, found.records)
        if found.trouble is not None and found.trouble.kind != "missing":
            yield Finding("erased", item.key, f"cannot be read to its end: {found.trouble.message}")
    for name, found in look_at_unfinished(storage, prefix, ready):
        looked(found.records)
        yield _trace(name, found.records)
    newest = _state(state) if attached else None
    for left in chain(left_objects(newest, attached, prefix), unfinished_objects(storage, prefix)):
        yield Finding("erased", left.key, f"is attached to no record, so nobody can tell whose it was; {_way(left)}")


def look_at_unfinished(storage: Storage, prefix: str, ready: Ready) -> Iterator[tuple[str, FoundMessages]]:
    """Data files below ``prefix`` that are not whole, by name, with a message that is meant. Raises as storage."""
    finder = FindMessages(ready)
    for name, opened in storage.unfinished(prefix):
        with opened as stored:
            # Of a data file there is no end yet; anything else is not gzip.
            found = finder.look_into(name, stored)
        if found.messages:
            yield name, found


def _state(state: Callable[[], Manifest | None]) -> Manifest | None:
    try:
        return state()
    except LakeError:
        # A finding of its own.
        return None


def _way(left: LeftObject) -> str:
    if left.id is not None:
        return "'singerlake gc --delete' deletes it after a grace time"
    if left.bytes is None:
        return "it is not whole: delete it by hand when no writer is at work"
    return "'singerlake gc --orphans --delete' does so if no run lists it"


def _trace(key: str, count: int) -> Finding:
    return Finding("erased", key, f"holds {'a record' if count == 1 else f'{count:,} records'} that should be erased")


def _is_metadata(path: str) -> bool:
    """Whether an object is of a kind that holds nothing of a record."""
    lock = path.rpartition("/")[2] == layout.LOCK
    return lock or path == layout.MANIFEST or path.startswith(f"{layout.LOG}/") or layout.is_kept_schema(path)
