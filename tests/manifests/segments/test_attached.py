"""The suite of attached files in all manifest stores once more, on states with segments."""

from __future__ import annotations

from tests.manifests.attached.test_stores import *  # noqa: F403
from tests.manifests.segments.sizes import few_files_make_segments  # noqa: F401
