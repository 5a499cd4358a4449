"""Replies that are lost once more, on states with segments."""

from __future__ import annotations

from tests.manifests.segments.sizes import few_files_make_segments  # noqa: F401
from tests.manifests.test_lost_replies import *  # noqa: F403
