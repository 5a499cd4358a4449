"""Which Chromium the tests of pages get, and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tools import chromium, debian


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A machine with these programs, on which the commands that begin with ``works`` put a Chromium; what is run."""
    ran: list[str] = []

    def made(*programs: str, works: str = "nothing", root: bool = True) -> list[str]:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in programs:
            (folder / name).write_text("")
            (folder / name).chmod(0o755)

        def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
            ran.append(" ".join(command))
            if works not in ran[-1]:
                return subprocess.CompletedProcess(command, 1)
            (folder / "chromium").write_text("")
            (folder / "chromium").chmod(0o755)
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.delenv(chromium.VARIABLE, raising=False)
        monkeypatch.setattr(chromium, "_of_playwright", list)
        monkeypatch.setattr(debian.os, "geteuid", lambda: 0 if root else 1000)
        monkeypatch.setattr(chromium.subprocess, "run", run)
        return ran

    return made


def test_the_machines_own_is_found(machine: Callable[..., list[str]]) -> None:
    ran = machine("google-chrome", "chromium")
    assert chromium.get().name == "chromium"
    assert ran == []


def test_a_variable_goes_before_it(
    machine: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("chromium", "mine")
    monkeypatch.setenv(chromium.VARIABLE, str(tmp_path / "bin" / "mine"))
    assert chromium.find().name == "mine"
    monkeypatch.setenv(chromium.VARIABLE, "/nowhere")
    with pytest.raises(chromium.NoChromiumError, match="/nowhere"):
        chromium.find()


def test_root_gets_debians(machine: Callable[..., list[str]]) -> None:
    ran = machine("apt-get", works="chromium-headless-shell")
    assert chromium.get().name == "chromium"
    assert [command.partition(" ")[0] for command in ran] == ["sh"]


def test_anybody_else_gets_playwrights(machine: Callable[..., list[str]]) -> None:
    ran = machine("apt-get", works="playwright install", root=False)
    assert chromium.get().name == "chromium"
    assert len(ran) == 1


def test_where_none_can_be_had_it_says_what_to_do(machine: Callable[..., list[str]]) -> None:
    ran = machine("apt-get")
    with pytest.raises(chromium.NoChromiumError, match=r"python -m tools\.chromium"):
        chromium.get()
    assert len(ran) == 3
    assert chromium.main() == 1


def test_without_playwright_one_sentence_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(chromium.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "playwright", None)
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(chromium.NoChromiumError, match="need playwright; 'make install' brings it"):
        chromium.find()
