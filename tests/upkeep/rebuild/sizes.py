"""Rebuilds that keep nearly nothing in memory, so that a few files already go to the disk."""

from __future__ import annotations

import pytest

from singerlake import scratch
from singerlake.upkeep.rebuild import on_disk as lists


def keep_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows that wait, pages of two, and segments of two files, of which two are in memory."""
    monkeypatch.setattr(scratch, "_AT_ONCE", 2)
    monkeypatch.setattr(scratch, "_PAGE", 2)
    monkeypatch.setattr(lists, "HELD", 2)
    monkeypatch.setattr(lists, "SEGMENT", 2)
