"""The compiled encoder and the one in Python, by turns."""

from __future__ import annotations

import pytest

from singerlake.tables.formats.encode import rows


@pytest.fixture(params=["compiled", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How rows are made in the test."""
    assert rows.compiled is not None, "the module is not compiled; run: make install"
    if request.param == "python":
        monkeypatch.setattr(rows, "compiled", None)
    return str(request.param)
