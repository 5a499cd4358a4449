"""What a process does that had no answer yet from any place."""

from __future__ import annotations

import pytest

from singerlake.storage import patience


@pytest.fixture
def first_contact(monkeypatch: pytest.MonkeyPatch) -> None:
    """No place has answered this process: the system may give a test the port that the server of an earlier test had,
    which did answer."""
    monkeypatch.setattr(patience, "_answered", set())
