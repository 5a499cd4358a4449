"""States with segments in tests: of two or three files each, so that a few files make several."""

from __future__ import annotations

import pytest

from singerlake.format.state.files.cut import Sizes
from singerlake.stores.segments import objects, stored

TINY = Sizes(whole=2, segment=3, tail=1)


@pytest.fixture(autouse=True)
def few_files_make_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three files and more, a state has segments, and each is read from storage when it is asked for."""
    monkeypatch.setattr(stored, "SIZES", TINY)
    monkeypatch.setattr(objects, "_KEPT", 0)
