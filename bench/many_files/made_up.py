"""``singerlake`` on such a lake, with a storage that makes up the files that are not on the disk: what it lists and
gives is what the state says.

It stands for a bucket, whose listing comes a page at a time. A folder of ten million files takes a gigabyte for their
names alone.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO
from unittest import mock

import singerlake.lake
from bench.many_files.lake import BODY, PREFIX
from singerlake.cli.main import main as command
from singerlake.clock import SystemClock, random_id
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.port import Entry

_LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class MadeUp:
    """A ``Storage`` with the files that a state lists, and a folder for everything else."""

    state: Manifest
    folder: LocalStorage

    def __getattr__(self, name: str) -> Any:
        return getattr(self.folder, name)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        """As the port says, of the whole stream and of what lies elsewhere."""
        if prefix != PREFIX:
            yield from self.folder.list(prefix, start_after=start_after)
            return
        for file in self.state.files:
            yield Entry(PREFIX + file.path, file.bytes, _LONG_AGO, '"1"')

    def open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        """As the port says."""
        return io.BytesIO(BODY[start:end]) if _is_made_up(key) else self.folder.open(key, start, end)

    def bodies(self, keys: Sequence[str], most: int) -> Sequence[bytes | None]:
        """As the port says, of data files."""
        return [BODY if len(BODY) <= most else None for _ in keys]


def _is_made_up(key: str) -> bool:
    return key.startswith(PREFIX) and layout.is_data_file(key[len(PREFIX) :])


def main() -> None:
    """Run the command that the other arguments are on the lake in the folder that the first one is."""
    root, *arguments = sys.argv[1:]
    state = Lake.open(root).stream("bench", "orders").snapshot()
    storage = MadeUp(state, LocalStorage(root, clock=SystemClock(), ids=random_id))
    with mock.patch.object(singerlake.lake, "open_storage", return_value=storage):
        command([arguments[0], root, *arguments[1:]])


if __name__ == "__main__":
    main()
