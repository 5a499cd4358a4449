"""That a command of Singer begins no threads for numpy, and takes a number that somebody set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TELL = """
import atexit, os, sys
def tell():
    print("numpy" in sys.modules, len(os.listdir("/proc/self/task")), file=sys.stderr)
atexit.register(tell)
from {module}.__main__ import main
sys.argv[1:] = ["--version"]
main()
"""


@pytest.mark.parametrize("module", ["tap_singerlake", "target_singerlake"])
@pytest.mark.parametrize(("given", "threads"), [(None, 1), ("2", 2)])
def test_a_command_has_as_many_threads_for_numpy_as_the_environment_says_or_none(
    module: str, given: str | None, threads: int
) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS_", "OMP_", "GOTO_"))}
    if given is not None:
        env["OPENBLAS_NUM_THREADS"] = given
    argv = [sys.executable, "-c", TELL.format(module=module)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"True {min(threads, os.cpu_count() or 1)}"
