"""Rebuilds that keep nearly nothing in memory, so that a few files already go to the disk."""

from __future__ import annotations

import pytest

from singerlake.upkeep.rebuild.spooled import blocks, found_files, listing, places


def keep_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files in memory, runs and blocks of two, segments of two that wait on the disk, and buckets of two."""
    monkeypatch.setattr(found_files, "HELD", 2)
    monkeypatch.setattr(found_files, "_RUN", 2)
    monkeypatch.setattr(found_files, "IN_BLOCK", 2)
    monkeypatch.setattr(blocks, "_KEPT", 1)
    monkeypatch.setattr(listing, "HELD", 2)
    monkeypatch.setattr(listing, "SEGMENT", 2)
    monkeypatch.setattr(places, "_FIRST", 1)
    monkeypatch.setattr(places, "_IN_BUCKET", 2)
