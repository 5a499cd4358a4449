"""Which nginx the tests get, and what is said where there is none."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tools import debian, nginx


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A machine with these programs, on which Debian's tools put an nginx, or do not; what is run."""
    ran: list[str] = []

    def made(*programs: str, works: bool = True, root: bool = True) -> list[str]:
        folder = tmp_path / "bin"
        folder.mkdir()

        def install(name: str) -> None:
            (folder / name).write_text("")
            (folder / name).chmod(0o755)

        def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
            ran.append(" ".join(command))
            if works:
                install("nginx")
            return subprocess.CompletedProcess(command, 0 if works else 1)

        for name in programs:
            install(name)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.delenv(nginx.VARIABLE, raising=False)
        monkeypatch.setattr(nginx, "SYSTEM", ())
        monkeypatch.setattr(nginx.subprocess, "run", run)
        monkeypatch.setattr(debian.os, "geteuid", lambda: 0 if root else 1000)
        return ran

    return made


def test_the_machines_own_is_found(machine: Callable[..., list[str]]) -> None:
    ran = machine("nginx", "apt-get")
    assert nginx.get().name == "nginx"
    assert ran == []


def test_a_variable_goes_before_it(
    machine: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("nginx", "mine")
    monkeypatch.setenv(nginx.VARIABLE, str(tmp_path / "bin" / "mine"))
    assert nginx.find().name == "mine"
    monkeypatch.setenv(nginx.VARIABLE, "/nowhere")
    with pytest.raises(nginx.NoNginxError, match="/nowhere"):
        nginx.get()


def test_root_gets_debians(machine: Callable[..., list[str]]) -> None:
    ran = machine("apt-get")
    assert nginx.get().name == "nginx"
    assert [command.rpartition(" ")[2] for command in ran] == ["nginx-light"]


@pytest.mark.parametrize(("programs", "root"), [(("apt-get",), False), ((), True), (("apt-get",), True)])
def test_where_none_can_be_had_it_says_what_to_do(
    machine: Callable[..., list[str]], programs: Sequence[str], root: bool
) -> None:
    machine(*programs, works=False, root=root)
    with pytest.raises(nginx.NoNginxError, match=r"python -m tools\.nginx"):
        nginx.get()
    assert nginx.main() == 1
