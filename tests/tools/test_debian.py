"""Which servers the tests get, and what is said where there is none."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tools import debian
from tools.debian import NoProgramError, Program
from tools.nginx import NGINX
from tools.pgbouncer import PGBOUNCER

PROGRAMS = (NGINX, PGBOUNCER)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A machine with these programs, on which Debian's tools put the one of the package, or do not; what is run."""
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
                install(command[-1].partition("-")[0])
            return subprocess.CompletedProcess(command, 0 if works else 1)

        for name in programs:
            install(name)
        monkeypatch.setenv("PATH", str(folder))
        for program in PROGRAMS:
            monkeypatch.delenv(program.variable, raising=False)
        monkeypatch.setattr(debian, "SYSTEM", ())
        monkeypatch.setattr(debian.subprocess, "run", run)
        monkeypatch.setattr(debian.os, "geteuid", lambda: 0 if root else 1000)
        return ran

    return made


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_machines_own_is_found(machine: Callable[..., list[str]], program: Program) -> None:
    ran = machine(program.name, "apt-get")
    assert program.get().name == program.name
    assert ran == []


def test_a_variable_goes_before_it(
    machine: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("nginx", "mine")
    monkeypatch.setenv(NGINX.variable, str(tmp_path / "bin" / "mine"))
    assert NGINX.find().name == "mine"
    monkeypatch.setenv(NGINX.variable, "/nowhere")
    with pytest.raises(NoProgramError, match="/nowhere"):
        NGINX.get()


@pytest.mark.parametrize("program", PROGRAMS)
def test_root_gets_debians(machine: Callable[..., list[str]], program: Program) -> None:
    ran = machine("apt-get")
    assert program.get().name == program.name
    assert [command.rpartition(" ")[2] for command in ran] == [program.package]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("programs", "root"), [(("apt-get",), False), ((), True), (("apt-get",), True)])
def test_where_none_can_be_had_it_says_what_to_do(
    machine: Callable[..., list[str]], program: Program, programs: Sequence[str], root: bool
) -> None:
    machine(*programs, works=False, root=root)
    with pytest.raises(NoProgramError, match=rf"python -m tools\.{program.name}"):
        program.get()
    assert program.main() == 1
