"""When Python's garbage collector rests, and that it works again afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
from importlib.metadata import version

import pytest

from singerlake.interpreter import process
from singerlake.interpreter.process import collector_paused, made_to_last


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


@pytest.mark.parametrize(("own_process", "frozen"), [(True, 1), (False, 0)])
def test_what_lasts_is_passed_over_only_in_a_process_of_one_s_own(
    monkeypatch: pytest.MonkeyPatch, own_process: bool, frozen: int
) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(process, "_spares", own_process)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(gc.isenabled()))
    for _ in range(2):
        with made_to_last():
            assert not gc.isenabled()
        assert gc.isenabled()
    assert calls == [False] * frozen, "behind that it would be looked through first, and a second one may be garbage"


@pytest.mark.parametrize("module", ["singerlake", "tap_singerlake", "target_singerlake"])
def test_a_command_leaves_it_on_and_has_it_pass_over_what_was_imported(module: str) -> None:
    code = f"""
import atexit, gc, sys
looked_through = [0]
def look(phase, info):
    if phase == "start":
        looked_through.append(gc.get_count()[0])
gc.callbacks.append(look)
def tell():
    print(gc.isenabled(), gc.get_freeze_count() > 10_000, gc.get_count()[0] < 1_000, max(looked_through) < 10_000,
          file=sys.stderr)
atexit.register(tell)
from {module}.__main__ import main
sys.argv[1:] = ["--version"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "True True True True"


@pytest.mark.parametrize("module", ["singerlake", "tap_singerlake", "target_singerlake"])
def test_a_command_runs_as_a_module_too(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert version("singerlake") in done.stdout
