"""Which Azurite the tests get, and what is said where there is none."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tools import azurite


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A machine with these programs, on which npm installs Azurite, or does not; what is run."""
    ran: list[str] = []
    own = tmp_path / "own"

    def made(*programs: str, works: bool = True) -> list[str]:
        def install(path: Path) -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
            path.chmod(0o755)

        def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
            ran.append(" ".join(command))
            if works:
                install(own / "node_modules" / ".bin" / azurite.PROGRAM)
            return subprocess.CompletedProcess(command, 0 if works else 1)

        for name in programs:
            install(tmp_path / "bin" / name)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        monkeypatch.delenv(azurite.VARIABLE, raising=False)
        monkeypatch.setattr(azurite, "FOLDER", own)
        monkeypatch.setattr(azurite.subprocess, "run", run)
        return ran

    return made


def test_the_machines_own_is_found(machine: Callable[..., list[str]]) -> None:
    ran = machine("azurite-blob", "npm")
    assert azurite.get().name == "azurite-blob"
    assert ran == []


def test_a_variable_goes_before_it(
    machine: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("azurite-blob", "mine")
    monkeypatch.setenv(azurite.VARIABLE, str(tmp_path / "bin" / "mine"))
    assert azurite.find().name == "mine"
    monkeypatch.setenv(azurite.VARIABLE, "/nowhere")
    with pytest.raises(azurite.NoAzuriteError, match="/nowhere"):
        azurite.get()


def test_npm_gets_it_once(machine: Callable[..., list[str]]) -> None:
    ran = machine("npm")
    assert azurite.get() == azurite.get()
    assert [command.rpartition(" ")[2] for command in ran] == [azurite.PACKAGE]


@pytest.mark.parametrize("programs", [("npm",), ()])
def test_where_none_can_be_had_it_says_what_to_do(machine: Callable[..., list[str]], programs: Sequence[str]) -> None:
    machine(*programs, works=False)
    with pytest.raises(azurite.NoAzuriteError, match=r"python -m tools\.azurite"):
        azurite.get()
    assert azurite.main() == 1
