"""Which tests the same worker of pytest-xdist runs: those that share what takes long to start."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

CLUSTERS = "tests/spark/cluster/"
SESSION = "tests/spark/"


class SharedScheduling(LoadScopeScheduling):
    """One worker has the tests with the Spark session, one each of the clusters; every other test goes where it can.

    Tests are told apart by their names alone: the groups of ``--dist loadgroup`` are lost between pytest 9.2 and
    pytest-xdist 3.8, without a word."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(CLUSTERS):
            return nodeid.partition("::")[0]
        return SESSION if nodeid.startswith(SESSION) else nodeid
