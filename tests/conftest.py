"""What every test can ask for: the servers of ``tests/servers``, each started once and only when asked for."""

from __future__ import annotations

pytest_plugins = ["tests.servers.java", "tests.servers.postgres", "tests.servers.s3"]
