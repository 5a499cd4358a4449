"""The entries of segments as items of the table (Sleeper's parallel model), as section 11.3 of ``shared/docs/format``
has them. A reader takes what fits the segment without a gap; for anything else there is the segment itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec

from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError
from singerlake.format.exact_json import decode, encode
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.cut import Sizes
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import Run
from singerlake.format.state.files.segment import Segment
from singerlake.storage.port import Storage
from singerlake.stores.dynamodb.client import HASH, RANGE, DynamoTable, Item, key_of
from singerlake.stores.segments.objects import SegmentCopy, SegmentObjects, at_hand, checksum

logger = logging.getLogger(__name__)

SIZES = Sizes(whole=500, segment=1_000, tail=500)
"""A state without segments has nothing to ask for, so there are some from 501 files on. One that is not full is written
anew after 500 more files, so an entry is written twice at most. Of ten million files the head names 10,000, in 4 MB."""
LARGEST_BODY = 200 << 10
"""Bytes of an entry above which its item has no body. DynamoDB takes 400 KB."""
_AT_ONCE = 20_000
"""Entries of older segments that one call writes, five seconds of what a new table takes."""
_FEW = 4
"""Segments whose items are asked for. More are read from storage: a database charges by the kilobyte."""
_PATIENCE = 2.0
"""Seconds that a reader waits for DynamoDB where it can read the segment instead."""
_QUIET = 60.0
"""Seconds for which it asks no more after a failure."""
_SETTING = "dynamodb_query_items"
_DIGITS = 32

_Answer = TypeVar("_Answer")


class SegmentItems:
    """The ``SegmentCopies`` of one stream, for several threads. Not ``in_use``: they are only found and removed."""

    def __init__(self, table: DynamoTable, table_id: str, *, in_use: bool) -> None:
        self._table = table
        self._hurried = table.with_patience(_PATIENCE)
        self._registry = f"{table_id}#files"
        self.in_use = in_use
        self._whole: set[str] = set()
        """Names of segments of which this process knows that every item is there."""
        self._quiet_until = float("-inf")

    def text(self, segment: Segment) -> bytes | None:
        """The text of a segment; None where the items do not give it. Raises nothing."""
        items = self._asked(lambda: list(self._hurried.query(self._files_of(segment.name), ">", -1)), segment)
        if items is None or len(items) != segment.files:
            return None
        bodies = [item.get("body", {}).get("S") for item in items]
        return f"[{','.join(bodies)}]".encode() if all(bodies) else None  # type: ignore[arg-type]

    def touching(self, segment: Segment, start: int, stop: int) -> Sequence[DataFile] | None:
        """The files of a segment with offsets from ``start`` up to ``stop``; None where an item is missing."""
        files = self._asked(lambda: list(self._range(segment, start, stop)), segment)
        if files is None or not _fits(files, segment, start, stop):
            return None
        return [file for _, file in files]

    def keep(self, segments: Sequence[Segment], files_of: Callable[[Segment], Sequence[DataFile]]) -> None:
        """See to it that there are items of ``segments``, over several calls for older ones. A busy database gets
        fewer, which a warning says. Raises ``AccessDeniedError`` and ``SettingError``."""
        if not self.in_use or all(segment.name in self._whole for segment in segments):
            return
        try:
            self._keep(segments, files_of)
        except (AccessDeniedError, SettingError) as error:
            raise with_setting(error) from error
        except SingerlakeError as error:
            logger.warning("file entries are not in the DynamoDB table yet, which the next snapshot mends: %s", error)

    def _keep(self, segments: Sequence[Segment], files_of: Callable[[Segment], Sequence[DataFile]]) -> None:
        there = {copy.name: copy for copy in self.kept()}
        self._whole = {copy.name for copy in there.values() if copy.whole}
        budget = _AT_ONCE
        # The newest first: they are what is asked for most.
        for segment in reversed(segments):
            if segment.name in self._whole:
                continue
            if budget <= 0:
                return
            budget -= segment.files
            try:
                files = files_of(segment)
            except SingerlakeError as error:
                logger.debug("segment %s cannot be read, and so has no items: %s", segment.name, error)
                continue
            if segment.name not in there:
                self._table.put_all([self._registered(SegmentCopy(segment.name))])
            self._table.put_all([self._item(segment, at, file) for at, file in enumerate(files)])
            self._table.put_all([self._registered(SegmentCopy(segment.name, whole=True), len(files))])
            self._whole.add(segment.name)

    def kept(self) -> list[SegmentCopy]:
        """As the port says, in any order; likewise the methods below."""
        copies = []
        for item in self._table.query(self._registry, ">", -1):
            name = item.get("segment", {}).get("S", "")
            # A foreign item is left alone: it leads to nothing.
            if _number_of(name) == item[RANGE]["N"]:
                copies.append(SegmentCopy(name, "files" in item, item.get("noted", {}).get("S", "")))
        return copies

    def note(self, copies: Sequence[SegmentCopy]) -> None:
        self._table.put_all([self._registered(copy) for copy in copies])

    def remove(self, copies: Sequence[SegmentCopy]) -> None:
        for copy in copies:
            self._whole.discard(copy.name)
            if copy.whole:
                self._table.put_all([self._registered(SegmentCopy(copy.name, noted=copy.noted))])
            self._table.delete(list(self._table.query(self._files_of(copy.name), ">", -1, only_keys=True)))
            self._table.delete([self._key(copy.name)])

    def _range(self, segment: Segment, start: int, stop: int) -> Iterator[tuple[int, DataFile]]:
        """Places and files of what is there."""
        files, first = self._files_of(segment.name), max(start, segment.offset)
        if start > segment.offset:
            before = self._hurried.last_up_to(files, start)
            if before is None:
                return
            held = _decoded(before)
            yield held
            first = held[1].end
        last = min(stop, segment.end) - 1
        if first <= last:
            yield from map(_decoded, self._hurried.query_between(files, first, last))

    def _asked(self, ask: Callable[[], list[_Answer]], segment: Segment) -> list[_Answer] | None:
        """What the table gives; None where it does not, or gives what no Singerlake wrote."""
        clock = self._table.clock
        if not self.in_use or clock.monotonic() < self._quiet_until:
            return None
        try:
            return ask()
        except SingerlakeError as error:
            logger.debug("segment %s is read from storage for a minute, not from its items: %s", segment.name, error)
            self._quiet_until = clock.monotonic() + _QUIET
        except (KeyError, ValueError, msgspec.DecodeError) as error:
            logger.debug("segment %s is read from storage, since an item of it is none: %r", segment.name, error)
        return None

    def _item(self, segment: Segment, at: int, file: DataFile) -> Item:
        body = encode(file).decode()
        item = {**key_of(self._files_of(segment.name), file.offset), "at": {"N": str(at)}}
        return item if len(body) > LARGEST_BODY else {**item, "body": {"S": body}}

    def _registered(self, copy: SegmentCopy, files: int | None = None) -> Item:
        item = {**self._key(copy.name), "segment": {"S": copy.name}}
        if files is not None:
            item["files"] = {"N": str(files)}
        if copy.noted:
            item["noted"] = {"S": copy.noted}
        return item

    def _key(self, name: str) -> Item:
        return {HASH: {"S": self._registry}, RANGE: {"N": _number_of(name)}}

    def _files_of(self, name: str) -> str:
        return f"{self._registry}@{name}"


class SegmentsWithItems(SegmentObjects):
    """The segments of one stream, with ``items`` that are asked first for a little."""

    def __init__(self, storage: Storage, tap: str, stream: str, items: SegmentItems) -> None:
        super().__init__(storage, tap, stream)
        self.copies = self._items = items
        self.sizes = SIZES if items.in_use else None

    def touching(self, segment: Segment, start: int, stop: int) -> Run:
        files = self._items.touching(segment, start, stop) if at_hand(segment) is None else None
        return super().touching(segment, start, stop) if files is None else AppendOnlyList(files)

    def load_each(self, segments: Sequence[Segment], *, stored: bool = False) -> Iterator[Run]:
        few = len(segments) <= _FEW and not stored
        return map(self.load, segments) if few else super().load_each(segments, stored=stored)

    def name(self, segments: Sequence[Segment], at_hand: Mapping[str, Sequence[DataFile]]) -> None:
        stored = SegmentObjects(self.storage, self.tap, self.stream)
        self._items.keep(segments, lambda segment: at_hand.get(segment.name) or stored.load(segment))

    def _own_text(self, segment: Segment) -> bytes:
        """From its items, where they are just the same."""
        text = self._items.text(segment)
        return text if text is not None and checksum(text) == segment.sha256 else self.text(segment)


def with_setting(error: SingerlakeError) -> SingerlakeError:
    """``error`` of a request that is made only because of a setting, which its hint then names."""
    return type(error)(error.message, hint=f"{error.hint}, or set {_SETTING} to false", **error.context)


def _number_of(name: str) -> str:
    """The number that stands for a segment: its name is too long for one, and its random part is not."""
    try:
        return str(int(name.rpartition("-")[2], _DIGITS))
    except ValueError:
        return ""


def _decoded(item: Item) -> tuple[int, DataFile]:
    """Place and entry. Raises ``KeyError``, ``ValueError`` and ``msgspec.DecodeError``."""
    file = decode(item["body"]["S"].encode(), DataFile)
    if str(file.offset) != item[RANGE]["N"]:
        raise ValueError(f"offset {file.offset} under number {item[RANGE]['N']}")
    return int(item["at"]["N"]), file


def _fits(files: Sequence[tuple[int, DataFile]], segment: Segment, start: int, stop: int) -> bool:
    """Whether ``files``, with their places, are all of a segment that hold any offset from ``start`` up to ``stop``."""
    if not files:
        return False
    begin, end = max(start, segment.offset), min(stop, segment.end)
    (first_at, first), (last_at, last) = files[0], files[-1]
    return (
        segment.offset <= first.offset <= begin < first.end
        and last.offset < end <= last.end <= segment.end
        and (first_at == 0) == (first.offset == segment.offset)
        and (last_at == segment.files - 1) == (last.end == segment.end)
        and all(
            (after_at, after.offset) == (before_at + 1, before.end)
            for (before_at, before), (after_at, after) in pairwise(files)
        )
        and all(file.is_sound for _, file in files)
    )
