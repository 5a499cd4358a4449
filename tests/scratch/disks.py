"""Disks of this machine that are full."""

from __future__ import annotations

import pytest

from singerlake.scratch import database


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on SQLite says that the disk is full when a temporary database has two pages."""
    monkeypatch.setattr(database, "_PRAGMAS", (*database._PRAGMAS, "max_page_count=2"))
