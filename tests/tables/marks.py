"""Marks of tables in memory, whose requests are steps of a storage in memory."""

from __future__ import annotations

from tests.storage.memory import MemoryStorage, Step


class MemoryMarks:
    """Marks that fault where the hook of ``storage`` says so: the operation is ``read_mark`` or ``swap_mark``."""

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage
        self.marks: dict[str, str] = {}

    def read(self, table: str) -> str | None:
        self._storage.hook(Step("read_mark", table, False))
        mark = self.marks.get(table)
        self._storage.hook(Step("read_mark", table, True))
        return mark

    def swap(self, table: str, before: str | None, after: str) -> bool:
        self._storage.hook(Step("swap_mark", table, False))
        holds = self.marks.get(table) == before
        if holds:
            self.marks[table] = after
        self._storage.hook(Step("swap_mark", table, True))
        return holds
