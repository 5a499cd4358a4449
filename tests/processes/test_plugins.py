"""A plugin that is forked ready is a process as any other one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.processes import plugins
from tests.processes.plugins import Plugin


@pytest.mark.parametrize("name", ["tap", "target"])
def test_its_output_and_its_code_come_back(name: str) -> None:
    done = plugins.run(name, ["--version"], env=os.environ)
    assert (done.returncode, done.stdout.startswith(f"{name}-singerlake v".encode())) == (0, True)
    assert plugins.run(name, ["--no-such-option"], env=os.environ).returncode == 2


def test_it_has_the_environment_and_the_folder_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "TARGET_SINGERLAKE_LAKE_ROOT": "lake", "TARGET_SINGERLAKE_TAP_ID": "t"}
    schema = b'{"type": "SCHEMA", "stream": "s", "schema": {"properties": {}}, "key_properties": []}\n'
    assert plugins.run("target", ["--config=ENV"], schema, env=environment).returncode == 0
    assert (tmp_path / "lake/raw/t/s/manifest.json").exists()


def test_a_signal_ends_it_and_is_told() -> None:
    process = Plugin(
        "target", ["--config=ENV"], env={"TARGET_SINGERLAKE_LAKE_ROOT": "x", "TARGET_SINGERLAKE_TAP_ID": "t"}
    )
    assert process.poll() is None
    process.kill()
    assert process.wait(30) == -signal.SIGKILL
    process.kill()
    assert process.communicate()[0] == b""
