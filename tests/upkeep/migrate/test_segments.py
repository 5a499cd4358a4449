"""The same where every file of a stream is in a segment: crashes between a state without segments and one with them,
and between one store's segments and the next one's."""

from __future__ import annotations

import pytest

from singerlake.format.state.files.cut import Sizes
from singerlake.stores.segments import objects, stored
from tests.upkeep.migrate.test_crashes import *  # noqa: F403
from tests.upkeep.migrate.test_migrate import *  # noqa: F403

pytestmark = [pytest.mark.in_turn("source", "target"), pytest.mark.thorough]


@pytest.fixture(autouse=True)
def every_file_is_in_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "SIZES", Sizes(whole=0, segment=1, tail=0))
    monkeypatch.setattr(objects, "_KEPT", 0)
