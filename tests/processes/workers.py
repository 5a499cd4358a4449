"""Which tests the same worker of pytest-xdist runs: those that share what takes long to start."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

SESSION = "tests/spark/"
BY_FILE = (
    "tests/golden/test_example",
    "tests/site/test_browser",
    "tests/site/test_seen",
    "tests/spark/cluster/",
    "tests/storage/cloud/",
    "tests/storage/drivers/s3/test_field",
)
"""Files whose tests share a server, a browser or a long run."""


class SharedScheduling(LoadScopeScheduling):
    """One worker has the tests with the Spark session, one each of the files that share something; all others go
    where they can.

    Tests are told apart by their names alone: the groups of ``--dist loadgroup`` are lost between pytest 9.2 and
    pytest-xdist 3.8, without a word."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(BY_FILE):
            return nodeid.partition("::")[0]
        return SESSION if nodeid.startswith(SESSION) else nodeid
