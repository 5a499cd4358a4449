"""What takes long to start is started by one worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.workers import SharedScheduling

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("tests/spark/test_docs.py::test_a", "tests/spark/write/test_write.py::test_b[x::y]", True),
        ("tests/spark/cluster/test_cluster.py::test_a", "tests/spark/cluster/test_cluster.py::test_b", True),
        ("tests/spark/cluster/test_cluster.py::test_a", "tests/spark/cluster/test_connect.py::test_a", False),
        ("tests/spark/cluster/test_cluster.py::test_a", "tests/spark/test_docs.py::test_a", False),
        ("tests/storage/cloud/test_lake.py::test_a", "tests/storage/cloud/test_lake.py::test_b", True),
        ("tests/test_lake.py::test_a", "tests/test_lake.py::test_b", False),
    ],
)
def test_the_same_worker_has_what_shares_a_session(one: str, other: str, together: bool) -> None:
    scope = SharedScheduling._split_scope
    assert (scope(None, one) == scope(None, other)) == together  # type: ignore[arg-type]


TEST = """
import pytest

@pytest.mark.parametrize("case", range(10))
def test_it(worker_id, case):
    open(f"by-{worker_id}", "a").close()
"""


@pytest.mark.thorough
def test_a_run_keeps_to_it(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_xdist_make_scheduler")
    folder = pytester.mkdir("tests") / "spark"
    folder.mkdir()
    for name in ("test_a.py", "test_b.py"):
        (folder / name).write_text(TEST)
    options = ("-n", "2", "-p", "no:cacheprovider", "--import-mode=importlib", "-o", f"pythonpath={ROOT}")
    pytester.runpytest_subprocess(*options, "tests").assert_outcomes(passed=20)
    assert len(list(pytester.path.glob("by-*"))) == 1
