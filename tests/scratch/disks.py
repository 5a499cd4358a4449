"""Disks of this machine that are full."""

from __future__ import annotations

import pytest

from singerlake import scratch


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on SQLite says that the disk is full when a temporary database has two pages."""
    monkeypatch.setattr(scratch, "_PRAGMAS", (*scratch._PRAGMAS, "max_page_count=2"))
