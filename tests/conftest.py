"""What every test can ask for: the servers of ``tests/servers``, each started once and only when asked for."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["tests.servers.java", "tests.servers.postgres", "tests.servers.s3"]

# A shared machine may stall anywhere; how long an example takes says nothing about the code.
settings.register_profile("singerlake", deadline=None)
settings.load_profile("singerlake")
