"""Replies that are lost once more, on states with segments."""

from __future__ import annotations

from tests.stores.segments.sizes import few_files_make_segments  # noqa: F401
from tests.stores.test_lost_replies import *  # noqa: F403
