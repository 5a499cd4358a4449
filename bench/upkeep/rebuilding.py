"""How much memory ``singerlake rebuild`` needs where a stream has a million files.

A storage makes up the listing and the bodies key by key, so that nobody has to write a million files to a disk; what
the command writes goes to a folder. It runs in a process of its own.
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

import msgspec

import singerlake.lake
from bench.commits.committing import SCHEMA, VERSION
from bench.commits.million import BOUND_MB, FILES
from bench.measure import Command, Row, peak
from singerlake.cli.main import main as command
from singerlake.clock import SystemClock, parse_timestamp, random_id, timestamp
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.singer_file import compress_member
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.port import Entry

_PREFIX = layout.stream_prefix("bench", "orders")
_FIRST = parse_timestamp("2026-01-01T00:00:00Z")
_FIRST_NAME = "0" * 16


def row(folder: Path) -> Row:
    """In a folder that is not there yet."""
    return peak(
        f"memory, rebuild of {FILES:,} files, with a journal",
        Command([sys.executable, "-m", "bench.upkeep.rebuilding", str(folder), str(FILES)]),
        bound_mb=BOUND_MB,
        runs=1,
    )


@dataclass(frozen=True)
class Generated:
    """A ``Storage`` with so many files of one record each in one stream, and a folder for everything else."""

    files: int
    folder: LocalStorage

    def __getattr__(self, name: str) -> Any:
        return getattr(self.folder, name)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        """As the port says, of whole streams and of what lies elsewhere."""
        if prefix != _PREFIX:
            yield from self.folder.list(prefix, start_after=start_after)
            return
        assert _FIRST is not None
        size = len(_body(0))
        for number in range(self.files):
            moment = _FIRST + timedelta(seconds=number)
            name = layout.file_path("orders", VERSION, moment, moment, f"{number:016d}")
            if _PREFIX + name <= start_after:
                continue
            etag = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
            yield Entry(_PREFIX + name, size, moment, f'"{etag}"')

    def open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        """As the port says."""
        id = layout.file_id_in(key)
        return io.BytesIO(_body(int(id or 0))[start:end])


def _body(number: int) -> bytes:
    """Bodies differ in the header alone, whose length is always the same."""
    assert _FIRST is not None
    created = timestamp(_FIRST + timedelta(seconds=number))
    header = msgspec.json.encode(FileHeader(id=f"{number:016d}", created=created, run="bench", seq=1))
    return _HEAD.replace(_EXTRA, header) + _RECORD


def _parts() -> tuple[bytes, bytes, bytes]:
    extra = msgspec.json.encode(FileHeader(id=_FIRST_NAME, created="2026-01-01T00:00:00.000000Z", run="bench", seq=1))
    schema = {"type": "SCHEMA", "stream": "orders", "schema": SCHEMA.schema}
    record = {"type": "RECORD", "stream": "orders", "record": {"id": 1}, "time_extracted": "2026-01-01T00:00:00Z"}
    head = compress_member(msgspec.json.encode(schema) + b"\n", 1, extra=extra)
    return extra, head, compress_member(msgspec.json.encode(record) + b"\n", 1)


_EXTRA, _HEAD, _RECORD = _parts()


def main() -> None:
    """Rebuild a stream of so many files as the second argument says, below the folder of the first, with the options
    that follow."""
    folder = Path(sys.argv[1])
    storage = Generated(int(sys.argv[2]), LocalStorage(folder / "lake", clock=SystemClock(), ids=random_id))
    (folder / "lake" / _PREFIX).mkdir(parents=True, exist_ok=True)
    (folder / "lake" / _PREFIX / "x").touch()
    with mock.patch.object(singerlake.lake, "open_storage", return_value=storage):
        given = ["--journal", str(folder / "journal"), "--threads", "1", *sys.argv[3:]]
        command(["rebuild", str(folder / "lake"), "--yes", *given])


if __name__ == "__main__":
    main()
