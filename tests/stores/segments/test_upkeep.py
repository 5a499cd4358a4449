"""Publishing and trimming once more, on states with segments."""

from __future__ import annotations

import pytest

from tests.stores.segments.sizes import few_files_make_segments  # noqa: F401
from tests.stores.test_stores_upkeep import *  # noqa: F403

pytestmark = pytest.mark.in_turn("place")
