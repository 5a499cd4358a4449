"""Tables made from raw in a folder of this machine: nothing is written to the lake."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import BinaryIO, cast

from singerlake.scratch import local_folder
from singerlake.storage.port import Storage
from singerlake.tables.state.keys import PUBLISHED


class _Beside:
    """The lake's storage, with all files of tables in another one. It has what tasks need and no more: nothing of the
    lake can be written."""

    def __init__(self, lake: Storage, tables: Storage) -> None:
        self._lake, self._tables = lake, tables
        self.url, self.near, self.bodies = lake.url, lake.near, lake.bodies
        self.upload, self.delete_all = tables.upload, tables.delete_all

    def _of(self, key: str) -> Storage:
        return self._tables if key.startswith(f"{PUBLISHED}/") else self._lake

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self._of(key).read_range(key, start, length)

    def open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        return self._of(key).open(key, start, end)


def beside(lake: Storage, open_folder: Callable[[str], Storage]) -> tuple[Storage, Storage]:
    """The storage to make tables with, and that of their files: a new folder, which is there as long as the latter."""
    stack = ExitStack()
    tables = open_folder(str(stack.enter_context(local_folder("tables"))))
    weakref.finalize(tables, stack.close)
    return cast("Storage", _Beside(lake, tables)), tables
