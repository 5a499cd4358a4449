"""When Python's garbage collector rests, and that it works again afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
from importlib.metadata import version

import pytest

from singerlake.interpreter.collector import collector_paused


def test_it_rests_and_then_works_again() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_does_not_leave_it_off() -> None:
    with pytest.raises(KeyError), collector_paused():
        raise KeyError
    assert gc.isenabled()


@pytest.mark.parametrize("module", ["singerlake", "tap_singerlake", "target_singerlake"])
def test_a_command_leaves_it_on_and_has_it_pass_over_what_was_imported(module: str) -> None:
    code = f"""
import atexit, gc, sys
def tell():
    print(gc.isenabled(), gc.get_freeze_count() > 10_000, gc.get_count()[0] < 1_000, file=sys.stderr)
atexit.register(tell)
from {module}.__main__ import main
sys.argv[1:] = ["--version"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "True True True"


@pytest.mark.parametrize("module", ["singerlake", "tap_singerlake", "target_singerlake"])
def test_a_command_runs_as_a_module_too(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert version("singerlake") in done.stdout
