"""What a benchmark says of a process is that process's own, however large the one is that measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.measure import Command, run

LARGE = 400 << 20


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_the_peak_is_the_command_s_own_and_not_that_of_who_measures() -> None:
    large = bytearray(b"x") * LARGE
    assert run(Command(python("pass"))).peak_mb < 100 < len(large) / (1 << 20)


def test_the_peak_is_all_that_the_command_takes() -> None:
    assert 200 < run(Command(python("bytearray(b'x') * (200 << 20)"))).peak_mb < 300


def test_processor_time_is_that_of_the_command_and_wall_is_no_less_than_its_sleep() -> None:
    done = run(Command(python("import time; time.sleep(0.2)")))
    assert done.wall >= 0.2
    assert done.cpu < done.wall


def test_files_and_environment_are_the_command_s(tmp_path: Path) -> None:
    source, result = tmp_path / "in", tmp_path / "out"
    source.write_text("given ")
    shown = python("import os, sys; print(sys.stdin.read() + os.environ['BESIDE'])")
    run(Command(shown, stdin=source, stdout=result, env={"BESIDE": "beside"}, setup=lambda: result.unlink(True)))
    assert result.read_text() == "given beside\n"


@pytest.mark.parametrize("argv", [python("raise SystemExit(3)"), ["/no/such/command"]])
def test_a_command_that_fails_is_an_error_that_names_it(argv: list[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(Command(argv))
    assert failed.value.cmd == argv
    assert failed.value.returncode
