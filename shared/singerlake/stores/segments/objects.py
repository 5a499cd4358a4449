"""Segments as objects beside the data: written once under a name of their own, and read with their checksum."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from isal import igzip_lib

from singerlake.clock import random_id
from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.format.exact_json import decode_stored, encode
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.cut import Sizes
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import Run, SegmentSource
from singerlake.format.state.files.segment import Segment, describe
from singerlake.interpreter.process import collector_paused
from singerlake.interpreter.threads import in_order, side_by_side, threads_ahead
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Refused, Storage

_KEPT = 8
"""Segments that stay in memory once they were read, in all streams together: some 50 MB."""
_AHEAD = 4
_AT_ONCE = 8
_LEVEL = 1
_DAMAGED = "restore it, or run 'singerlake rebuild --discard-manifest', which takes the state from the data files"

_kept: OrderedDict[tuple[str, str], Run] = OrderedDict()
_keeping = threading.Lock()


@dataclass(frozen=True, slots=True)
class SegmentCopy:
    """A copy of the segment ``name``. ``noted``: when it was seen that nobody needs it, RFC 3339; empty: never."""

    name: str
    whole: bool = False
    noted: str = ""


class SegmentCopies(Protocol):
    """The copies of one stream, for its collector. Every method raises what the database raises."""

    def kept(self) -> list[SegmentCopy]:
        """What there is."""

    def note(self, copies: Sequence[SegmentCopy]) -> None:
        """Keep what is noted of ``copies``."""

    def remove(self, copies: Sequence[SegmentCopy]) -> None:
        """Remove ``copies``. What is removed in part is still found, and nobody takes it for whole."""


class SegmentObjects(SegmentSource):
    """The segments of one stream, and the ``SegmentSource`` of its states. A subclass may keep copies of them, too."""

    lost: Container[str] = ()
    sizes: Sizes | None = None
    """Where states are cut; None: as those of all stores."""
    copies: SegmentCopies | None = None
    """What a collector has to collect besides."""

    def __init__(self, storage: Storage, tap: str, stream: str) -> None:
        self.storage = storage
        self.tap = tap
        self.stream = stream

    def load(self, segment: Segment) -> Run:
        """The files of a segment; some are kept. Raises ``CorruptObjectError`` where it is gone or another."""
        if (run := at_hand(segment)) is not None:
            return run
        run = self._decoded(segment, self._own_text(segment))
        with _keeping:
            _kept[_key_of(segment)] = run
            while len(_kept) > _KEPT:
                _kept.popitem(last=False)
        return run

    def load_each(self, segments: Sequence[Segment], *, stored: bool = False) -> Iterator[Run]:
        """The files of each in turn; some are read ahead, and none is kept. Raises as ``load``."""
        if len(segments) < 2 or _AHEAD < 2:
            for each in segments:
                yield self._decoded(each, self.text(each)) if stored else self.load(each)
            return
        with threads_ahead(_AHEAD, "segments") as executor:
            texts = in_order(executor, self.text, segments, most=_AHEAD)
            for segment, text in zip(segments, texts, strict=True):
                yield self._decoded(segment, text)

    def write(self, pieces: Sequence[Sequence[DataFile]]) -> list[Segment]:
        """Keep each of ``pieces`` as a new segment. Raises what storage raises."""
        return side_by_side(self._written, pieces, threads=_AT_ONCE, name="segments")

    def name(self, segments: Sequence[Segment], at_hand: Mapping[str, Sequence[DataFile]]) -> None:
        """Called before a state that names ``segments`` is stored, with the files of some of them by name."""

    def _own_text(self, segment: Segment) -> bytes:
        """The text of a segment, from wherever it is had soonest. Raises as ``load``."""
        return self.text(segment)

    def _written(self, files: Sequence[DataFile]) -> Segment:
        text = to_text(files)
        name = layout.segment_name(files[0].offset, random_id())
        key = layout.segment_key(self.tap, self.stream, name)
        body = igzip_lib.compress(text, _LEVEL, flag=igzip_lib.COMP_GZIP)
        if isinstance(put_on_condition(self.storage, key, body, etag=None), Refused):
            there = self.storage.get(key)
            if there is None or there.body != body:
                raise CorruptObjectError(
                    "another segment has the name of a new one", hint="run again; nothing was changed", key=key
                )
        return describe(files, name=name, sha256=checksum(text))

    def text(self, segment: Segment) -> bytes:
        """The text of a segment as it is stored. Raises as ``load``."""
        key = self._key(segment)
        stored = self.storage.get(key)
        if stored is None:
            raise CorruptObjectError("a segment of the stream's state is gone", hint=_DAMAGED, key=key)
        try:
            text = bytes(igzip_lib.decompress(stored.body, flag=igzip_lib.DECOMP_GZIP))
        except (igzip_lib.error, EOFError) as error:  # type: ignore[misc]  # isal's stub has an instance here
            raise CorruptObjectError(
                f"a segment of the stream's state is damaged: {error}", hint=_DAMAGED, key=key
            ) from error
        if checksum(text) != segment.sha256:
            raise CorruptObjectError(
                "a segment of the stream's state has another checksum than the state says", hint=_DAMAGED, key=key
            )
        return text

    def _decoded(self, segment: Segment, text: bytes) -> Run:
        what, key = "not a segment of a stream's state", self._key(segment)
        with collector_paused():
            files = decode_stored(text, list[DataFile], what, hint=_DAMAGED, key=key)
        if not files or (files[0].offset, files[-1].end, len(files)) != (segment.offset, segment.end, segment.files):
            raise CorruptObjectError(
                "a segment of the stream's state has other files than the state says",
                hint=_DAMAGED,
                key=key,
            )
        offset = segment.offset
        for file in files:
            if file.offset != offset or not file.is_sound:
                raise CorruptObjectError(
                    f"a segment of the stream's state contradicts itself at file {file.path}",
                    hint="run 'singerlake rebuild --discard-manifest', which takes the state from the data files",
                    key=key,
                )
            offset += file.messages
        return AppendOnlyList(files)

    def _key(self, segment: Segment) -> str:
        try:
            return layout.segment_key(self.tap, self.stream, segment.name)
        except ValueError as error:
            raise CorruptObjectError(
                str(error), hint=_DAMAGED, key=layout.manifest_key(self.tap, self.stream)
            ) from error


def _key_of(segment: Segment) -> tuple[str, str]:
    # No two segments have one name, so that one checksum under it is always of the same object.
    return segment.name, segment.sha256


def at_hand(segment: Segment) -> Run | None:
    key = _key_of(segment)
    with _keeping:
        if (run := _kept.get(key)) is not None:
            _kept.move_to_end(key)
        return run


def to_text(files: Sequence[DataFile]) -> bytes:
    """What a segment with these files holds, before it is compressed."""
    return encode(list(files))


def checksum(text: bytes) -> str:
    """What a state says of that."""
    return hashlib.sha256(text).hexdigest()
