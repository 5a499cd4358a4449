"""The tests of the PostgreSQL store and of its tables once more, where a few files are many."""

from __future__ import annotations

from tests.stores.postgres.test_store import *  # noqa: F403
from tests.stores.postgres.test_tables import *  # noqa: F403
from tests.stores.segments.sizes import few_files_make_segments  # noqa: F401
