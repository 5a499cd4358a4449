"""The setting ``include_files``: copies of the files that are attached to what a stream writes, and an index of them,
all before its STATE."""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Self

from singerlake.adapters import open_storage
from singerlake.clock import IdSource
from singerlake.errors import SettingError, UnknownNameError
from singerlake.format import layout
from singerlake.format.exact_json import encode
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import DataFile
from singerlake.settings import setting
from singerlake.spools import Spools
from singerlake.storage.port import Storage
from singerlake.storage.settings import StorageSettings
from singerlake.stream import LakeStream
from singerlake.work.ahead import together
from tap_singerlake.conversion import Conversion
from tap_singerlake.error_settings import on_spool, place_of

logger = logging.getLogger(__name__)

AT_ONCE = 8
IN_MEMORY = 4 << 20
"""Most bytes of a file that is held in memory; ``AT_ONCE`` of them are."""
_PIECE = 1 << 20

SETTING: dict[str, Any] = setting(
    "string",
    "Include files",
    "Copy the files that are attached to records there before the STATE that follows the records: a folder, or "
    "`s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`. The lake's settings of storage are used. "
    "Default: files stay in the lake.",
)
"""JSON Schema of the setting."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A place for copies. Errors of ``storage`` within ``named`` name the setting."""

    storage: Storage

    def url(self, key: str) -> str:
        """What lies at ``key`` as a URL, or as a path of this machine."""
        return f"{self.storage.url.rstrip('/')}/{key}"

    def named(self) -> AbstractContextManager[None]:
        return place_of("include_files")


def destination(value: Any, settings: StorageSettings, lake: Storage) -> Destination | None:
    """Where the setting says; None where it is not set. Raises ``SettingError``, also for a place in ``lake``."""
    if value is None or not str(value).strip():
        return None
    with place_of("include_files"):
        storage = open_storage(str(value), settings)
    inside, outside = (_compared(each.url) for each in (storage, lake))
    if inside == outside or inside.startswith(outside.rstrip("/") + "/"):
        raise SettingError(
            "include_files is a place in the lake", hint="set it to a place outside of it", include_files=storage.url
        )
    return Destination(storage)


def _compared(url: str) -> str:
    return url if "://" in url else os.path.realpath(url)


@dataclass
class FileCopies:
    """Copies for one stream. ``note`` takes what is written; ``settle`` returns once the files of all that are there. A
    copy is ``<stream>/<first two characters>/<SHA-256>``; one that is there with the right size is left. An index
    ``<stream>/<first offset>-<last offset>.jsonl`` has a line for each row of the messages that were noted."""

    stream: LakeStream
    to: Destination
    ids: IdSource
    _rows: list[tuple[int, Attached]] = field(default_factory=list)
    _left_out: set[int] = field(default_factory=set)
    _first: int | None = None
    _last: int = 0
    _ends: ExitStack = field(default_factory=ExitStack)
    _folder: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()

    def note(self, offsets: Sequence[int], file: DataFile) -> None:
        """The messages of ``file`` with these ascending ``offsets`` are written now."""
        if not offsets:
            return
        if self._first is None:
            self._first = offsets[0]
        self._last = offsets[-1]
        message = attrgetter("message")
        start = bisect_left(file.attached, offsets[0] - file.offset, key=message)
        stop = bisect_right(file.attached, offsets[-1] - file.offset, key=message)
        self._rows += ((file.offset + row.message, row) for row in file.attached[start:stop])

    def leave_out(self, offset: int) -> None:
        """The record at ``offset``, which is noted, is not written after all."""
        self._left_out.add(offset)

    def settle(self) -> None:
        """Copy the files of what was noted since the last time, and write their index, where there are any. Raises
        ``MissingFileError``, ``BrokenFileError``, what the storages raise, and ``StorageFullError``,
        ``AccessDeniedError`` and ``StorageUnavailableError`` of the spool."""
        rows = [(offset, row) for offset, row in self._rows if offset not in self._left_out]
        first, last = self._first, self._last
        self._rows, self._left_out, self._first = [], set(), None
        if not rows:
            return
        wanted = {row.sha256: row for _, row in rows if row.sha256 is not None}
        if any((row.bytes or 0) > IN_MEMORY for row in wanted.values()):
            self._open_spool()
        gone = {sha256 for sha256, there in zip(wanted, self._copied(wanted), strict=True) if not there}
        if gone:
            logger.info("%r: %d files belong to no record any more and are not copied", self.stream.name, len(gone))
        lines = [self._line(offset, row) for offset, row in rows if row.sha256 not in gone]
        if lines:
            with self.to.named():
                self.to.storage.put(f"{self._segment}/{first}-{last}.jsonl", b"".join(lines))

    def _copied(self, wanted: dict[str, Attached]) -> list[bool]:
        return list(together(self._copy, wanted.values(), at_once=AT_ONCE))

    def _copy(self, row: Attached) -> bool:
        """Whether there is a copy now; False where no record has the file any more."""
        key = self._key(row)
        with self.to.named():
            there = self.to.storage.head(key)
        if there is not None and there.size == row.bytes:
            return True
        try:
            body = self.stream.open_file(row)
        except UnknownNameError:
            # Its records were erased, or expired, since this run took its look at the stream.
            return False
        with body:
            if (row.bytes or 0) <= IN_MEMORY:
                data = body.read()
                with self.to.named():
                    self.to.storage.put(key, data)
            else:
                self._send(body, key)
        return True

    def _send(self, body: BinaryIO, key: str) -> None:
        assert self._folder is not None
        path = self._folder / self.ids()
        try:
            with on_spool(path), path.open("xb") as spool:
                while piece := body.read(_PIECE):
                    spool.write(piece)
            with self.to.named():
                self.to.storage.upload(key, path)
        finally:
            path.unlink(missing_ok=True)

    def _open_spool(self) -> None:
        if self._folder is None:
            with on_spool():
                self._folder = self._ends.enter_context(Spools(None).make())

    def _line(self, offset: int, row: Attached) -> bytes:
        line: dict[str, Any] = {
            "offset": offset,
            "property": row.property,
            "source": row.source,
            "sha256": row.sha256,
            "bytes": row.bytes,
            "media_type": row.media_type,
            "path": None if row.sha256 is None else self.to.url(self._key(row)),
        }
        return encode(line) + b"\n"

    def _key(self, row: Attached) -> str:
        return f"{self._segment}/{(row.sha256 or '')[:2]}/{row.sha256}"

    @property
    def _segment(self) -> str:
        return layout.stream_segment(self.stream.name)


@dataclass(frozen=True)
class Noting:
    """A conversion that tells ``copies`` of what is written."""

    conversion: Conversion
    copies: FileCopies

    def schema(self, line: bytes) -> bytes:
        return self.conversion.schema(line)

    def messages(self, lines: memoryview, offsets: Sequence[int], file: DataFile) -> bytes | memoryview:
        self.copies.note(offsets, file)
        return self.conversion.messages(lines, offsets, file)
