"""What commands show on a terminal, without one, and when they are told to be quiet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.cli.commands.upkeep.test_vacuum import path_of, small_files
from tests.cli.conftest import Run
from tests.cli.terminals import on_a_terminal, screen, terminal

COMMAND = [sys.executable, "-c", "from singerlake.cli.main import main; main()"]
COLOUR = "\x1b[3"
WORKING = [
    ("verify",),
    ("rebuild", "--yes"),
    ("vacuum", "--yes"),
    ("gc",),
    ("store", "trim"),
    ("store", "migrate", "--yes", "--to", "log"),
]


def beside_a_terminal(*arguments: object, **environment: str) -> tuple[str, str]:
    """What a process writes to standard output, which is a pipe, and to standard error, which is a terminal."""
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    with terminal(80) as (theirs, written):
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**known, "TERM": "xterm-256color", **environment},
        )
    assert done.returncode == 0, written
    return done.stdout.decode(), written.decode()


def test_progress_is_shown_on_a_terminal_in_colours_unless_they_are_not_wanted(root: Path) -> None:
    small_files(root)
    result, with_colours = beside_a_terminal("verify", root)
    assert result.startswith("sound: 1 stream, ")
    assert "t/s" in with_colours
    assert COLOUR in with_colours
    _, without = beside_a_terminal("verify", root, NO_COLOR="1")
    assert "t/s" in without
    assert COLOUR not in without
    assert beside_a_terminal("verify", root, "--quiet") == ("", "")


@pytest.mark.sampled(command=2)
@pytest.mark.parametrize(
    "command",
    [
        ("verify", "LAKE"),
        ("rebuild", "LAKE", "--discard-manifest", "--dry-run"),
        ("project", "run", "LAKE", "--all", "--full-refresh", "--engine", "processes"),
        ("docs", "build", "LAKE", "-o", "SITE"),
    ],
    ids=" ".join,
)
def test_a_bar_leaves_nothing_on_the_terminal_but_the_result(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    small_files(root)
    arguments = [each.replace("LAKE", str(root)).replace("SITE", str(tmp_path / "site")) for each in command]
    run(*arguments)
    expected = run(*arguments).stdout
    assert expected
    written = on_a_terminal(monkeypatch, 80, *arguments)
    assert "\r" in written, "there was a bar"
    assert screen(written) == expected.splitlines()
    result, seen = beside_a_terminal(*arguments)
    assert result == expected
    assert screen(seen) == []


@pytest.mark.parametrize("command", WORKING, ids=" ".join)
def test_without_a_terminal_there_is_no_progress_and_no_escape(run: Run, root: Path, command: tuple[str, ...]) -> None:
    small_files(root)
    result = run(*command, root)
    assert result.exit_code == 0
    assert "t/s" in result.stdout or "sound" in result.stdout
    assert result.stderr == ""
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("command", WORKING, ids=" ".join)
def test_a_quiet_command_says_nothing_where_all_is_well(run: Run, root: Path, command: tuple[str, ...]) -> None:
    small_files(root)
    result = run(*command, root, "-q")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    told = run(*command, root, "--json", "--quiet")
    assert json.loads(told.stdout)


@pytest.mark.parametrize("command", [("verify",), ("vacuum", "--yes")], ids=" ".join)
def test_a_quiet_command_says_what_is_wrong(run: Run, root: Path, command: tuple[str, ...]) -> None:
    lake = small_files(root)
    path_of(lake, 0).unlink()
    result = run(*command, root, "--quiet")
    assert result.exit_code == 1
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["missing"]


def test_a_quiet_migration_says_what_could_not_be_moved(run: Run, root: Path) -> None:
    small_files(root)
    key = Lake.open(str(root)).stream("t", "s").prefix + "manifest.json"
    (root / key).write_text("{")
    result = run("store", "migrate", "--yes", root, "--to", "log", "--quiet")
    assert result.exit_code == 1
    assert "t/s: not moved" in result.stdout


def test_errors_are_said_all_the_same(run: Run, root: Path) -> None:
    result = run("verify", root, "--quiet")
    assert result.exit_code == 2
    assert "nothing here is a lake" in result.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full is Linux's")
@pytest.mark.parametrize("arguments", [("ls",), ("export",), ("verify", "--json")])
def test_an_output_that_is_full_is_one_line(lake: Lake, arguments: tuple[str, ...]) -> None:
    name, *rest = arguments
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [*COMMAND, name, lake.storage.url, *rest], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 1
    assert ended.stderr == "error: the output cannot be written: no space left on device\n"


def test_an_output_that_is_closed_is_written_nowhere(lake: Lake) -> None:
    line = f'exec "$@" {lake.storage.url} >&-'
    ended = subprocess.run(["sh", "-c", line, "sh", *COMMAND, "ls"], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
