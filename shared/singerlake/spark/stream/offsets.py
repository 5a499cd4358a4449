"""The offsets of a streaming query, and how much of what is new one batch takes. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from singerlake.arrow.plan.splits import splits
from singerlake.errors import LineageChangedError, LostBookmarkError, SettingError
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import offset_left
from singerlake.humanize import shown
from singerlake.spark.options import Limits
from singerlake.stream import LakeStream

logger = logging.getLogger(__name__)

_REMEMBERED = 16


def to_spark(bookmark: Bookmark) -> dict[str, Any]:
    """A bookmark as Spark keeps it. It compares texts, so the order of keys never changes."""
    return {"lineage": bookmark.lineage, "offset": bookmark.offset, "file": bookmark.file, "line": bookmark.line}


def from_spark(given: Any) -> Bookmark:
    """The bookmark that a checkpoint holds. Raises ``LostBookmarkError`` where it is none."""
    try:
        bookmark = msgspec.convert(given, Bookmark)
    except msgspec.ValidationError as error:
        raise LostBookmarkError(
            f"the checkpoint holds no offset of this source: {error}",
            hint="give each query a checkpointLocation of its own",
        ) from None
    if bookmark.offset < 0 or bookmark.line < 0:
        raise LostBookmarkError(
            "the checkpoint holds a negative offset", hint="give each query a checkpointLocation of its own"
        )
    return bookmark


def bookmark_at(manifest: Manifest, offset: int) -> Bookmark:
    """The bookmark of a reader that has read every message before ``offset``."""
    place = manifest.files.index_behind(offset - 1)
    before = manifest.files[place] if 0 < offset <= manifest.next_offset and place < len(manifest.files) else None
    if before is None or before.offset >= offset:
        return Bookmark(lineage=manifest.lineage, offset=offset)
    return Bookmark(lineage=manifest.lineage, offset=offset, file=before.id, line=offset - before.offset)


class Positions:
    """What bookmarks mean in a stream. Remembers it, since after a rebuild it may take a look into every file."""

    def __init__(self, stream: LakeStream, *, skip_expired: bool = False) -> None:
        self._stream = stream
        self._skip_expired = skip_expired
        self._known: dict[tuple[str, Bookmark], int] = {}

    def offset(self, manifest: Manifest, bookmark: Bookmark) -> int:
        """The offset in ``manifest`` at which a query with ``bookmark`` continues; a rebuild gives a warning. Raises
        ``LostBookmarkError``, ``ExpiredMessagesError``."""
        return offset_left(manifest, self._resumed(manifest, bookmark), skip_expired=self._skip_expired)

    def reached(self, manifest: Manifest, bookmark: Bookmark, end: Bookmark) -> bool:
        """Whether a query with ``bookmark`` read all before ``end``, whatever expired. Raises ``LostBookmarkError``."""
        return self._resumed(manifest, bookmark) >= self._resumed(manifest, end)

    def _resumed(self, manifest: Manifest, bookmark: Bookmark) -> int:
        lineage = manifest.lineage
        known = self._known.get((lineage, bookmark)) if lineage is not None else None
        if known is not None:
            return known
        try:
            offset = self._stream.resume(manifest, bookmark)
        except LostBookmarkError as error:
            raise LostBookmarkError(
                "the stream was rebuilt or dropped and no longer holds this query's current file, or the checkpoint is "
                "of another stream",
                hint="start it with a new checkpointLocation, and option 'from_offset' or 'from_version' to choose "
                "where it begins",
                **error.context,
            ) from None
        if bookmark.lineage != lineage and bookmark.offset > 0:
            logger.warning(
                "%s/%s was rebuilt: this query continues after message %d of file %s; %d messages are before it now, "
                "and %d were before the rebuild",
                shown(self._stream.tap),
                shown(self._stream.name),
                bookmark.line,
                shown(str(bookmark.file)),
                offset,
                bookmark.offset,
            )
        if lineage is not None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[(lineage, bookmark)] = offset
        return offset

    def between(self, manifest: Manifest, start: Bookmark, end: Bookmark) -> tuple[int, int]:
        """The offsets of the messages of a batch [start, end), which may have been planned long ago.

        Raises ``LostBookmarkError``, ``ExpiredMessagesError``, and ``LineageChangedError`` where these are certainly
        not, or cannot be shown to be, as many messages as there were when the batch was planned: a batch that is run
        again must hold the same ones.
        """
        first, stop = self._resumed(manifest, start), self._resumed(manifest, end)
        if start.lineage == end.lineage or start.offset == 0:
            same = stop - first == end.offset - start.offset
        else:
            same = end.lineage == manifest.lineage
        if same and first <= stop <= manifest.next_offset:
            left = offset_left(manifest, first, skip_expired=self._skip_expired)
            return left, max(left, stop)
        raise LineageChangedError(
            f"a batch from offset {start.offset} to {end.offset} was planned, but the stream was then rebuilt, dropped "
            "or restored to an older state, and no longer holds the same messages there",
            hint=f"start with a new checkpointLocation and option 'from_offset' {first}, where this batch began; rows "
            "of it that were already written are then written again",
            tap=manifest.tap,
            stream=manifest.stream,
        )


def no_limits_in_batch(limits: Limits) -> None:
    """Raise ``SettingError`` for limits on a read that has no triggers: it would read more than was meant."""
    if limits:
        raise SettingError(
            "options 'maxRecordsPerTrigger', 'maxFilesPerTrigger' and 'maxBytesPerTrigger' are for streams",
            hint="use spark.readStream, or 'from_offset' and 'to_offset'",
        )


def admitted(files: Iterable[DataFile], first: int, stop: int, limits: Limits) -> int:
    """The offset at which a batch from ``first`` on ends, ``stop`` at most. ``files`` are those that hold what the
    query selects of [first, stop), in offset order; what lies between them counts for nothing. There is at least one
    message in a batch, however large, so that no limit brings a query to a stand."""
    end, records, budget = first, limits.records, limits.bytes
    for count, file in enumerate(files):
        begin, whole = max(file.offset, first), min(file.end, stop)
        close = whole
        if count == limits.files:
            return end
        if records is not None:
            close = min(close, begin + records)
        cost = 0
        if budget is not None:
            close, cost = _affordable(file, begin, close, budget)
        if count == 0:
            close = max(close, begin + 1)
        if close < whole:
            return close if close > begin else end
        end = close
        if records is not None:
            records -= close - begin
        if budget is not None:
            budget = max(0, budget - cost)
    return stop


def _affordable(file: DataFile, first: int, stop: int, budget: int) -> tuple[int, int]:
    """How far into [first, stop) of a file ``budget`` raw bytes reach, and what that costs. Whole members as long as
    they do, since the rest of a member is decompressed twice; a part of the first one where it alone is too large."""
    end, cost = first, 0
    for run in splits((file,), first, stop, 1):
        price = -(-run.raw_bytes * (run.stop - run.first) // run.messages)
        if cost + price > budget:
            if end == first:
                end += budget * run.messages // run.raw_bytes
            break
        end, cost = run.stop, cost + price
    return end, cost
