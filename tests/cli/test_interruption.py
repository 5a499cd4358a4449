"""A command that is told to end: it gives back what it holds, and says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tests.cli.conftest import Run

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def at(monkeypatch: pytest.MonkeyPatch, operation: str, number: signal.Signals) -> None:
    """Send this process a signal when storage is asked for the first such thing."""
    real = getattr(LocalStorage, operation)
    left = [number]

    def told(storage: LocalStorage, *given: Any, **more: Any) -> Any:
        if left:
            os.kill(os.getpid(), left.pop())
        return real(storage, *given, **more)

    monkeypatch.setattr(LocalStorage, operation, told)


@pytest.mark.parametrize(("number", "code"), SIGNALS.items())
@pytest.mark.parametrize(
    "command", [("verify", "--threads", "1"), ("ls",), ("vacuum", "--yes"), ("gc",), ("rebuild", "--yes")]
)
def test_a_signal_ends_a_command_with_its_own_exit_code(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], number: Any, code: int
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    at(monkeypatch, "list_folder", number)
    result = run(*command, root)
    assert (result.exit_code, result.stdout) == (code, "")
    left = "nothing was changed" if command == ("gc",) else "what was done so far stays: run it again"
    assert result.stderr == f"interrupted; {left}\n"
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("operation", ["put", "compose", "beginning"])
def test_an_interrupted_vacuum_leaves_no_lock_and_is_run_again(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch, operation: str, number: signal.Signals
) -> None:
    with monkeypatch.context() as patch:
        at(patch, operation, number)
        assert run("vacuum", "--yes", root, "--threads", "1").exit_code == SIGNALS[number]
    assert run("lock", "ls", root).stdout == "no locks\n"
    assert run("vacuum", "--yes", root).exit_code == 0
    assert [file.messages for file in lake.stream("t", "flights").snapshot().files] == [20, 5]
    assert run("verify", root, "--ignore", "unlisted").exit_code == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_rebuild_leaves_no_lock_and_is_run_again(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    (root / layout.manifest_key("t", "flights")).unlink()
    with monkeypatch.context() as patch:
        at(patch, "put", number)
        assert run("rebuild", "--yes", root).exit_code == SIGNALS[number]
    assert run("lock", "ls", root).stdout == "no locks\n"
    assert run("rebuild", "--yes", root).exit_code == 0
    assert run("verify", root).exit_code == 0


def test_a_second_signal_does_not_stop_what_the_first_began_to_put_in_order(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def told(*_: Any) -> Any:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            order.append("went on")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            order.append("in order")

    monkeypatch.setattr(LocalStorage, "list_folder", told)
    assert run("ls", root).exit_code == 143
    assert order == ["in order"]
