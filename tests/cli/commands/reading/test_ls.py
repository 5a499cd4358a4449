"""``singerlake ls``: figures from the manifests, on a terminal and off it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from singerlake.lake import Lake
from tests.cli.conftest import Run


def test_names_are_not_cut_short_off_a_terminal(run: Run, lake: Lake) -> None:
    lake.storage.put(f"raw/{'long' * 40}/x/singerlake.lock", b"{}")
    assert "long" * 40 in run("ls", lake.storage.url, env={"COLUMNS": "40"}).stdout


def on_a_terminal(*arguments: str, **env: str) -> str:
    """The output of ``singerlake`` when it writes to a terminal."""
    parent, child = pty.openpty()
    code = "from singerlake.cli.main import main; main(prog_name='singerlake')"
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=child,
        stderr=child,
        env={**plain, "TERM": "xterm-256color", "COLUMNS": "100", **env},
    )
    os.close(child)
    seen = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(parent)
    assert process.wait(60) == 0
    return seen.decode()


def test_a_terminal_gets_styles_unless_no_color_is_set_or_it_is_dumb(lake: Lake) -> None:
    assert "\x1b[1m" in on_a_terminal("ls", lake.storage.url)
    assert "\x1b[3" not in on_a_terminal("ls", lake.storage.url, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal("ls", lake.storage.url, TERM="dumb")


def test_a_terminal_sees_the_progress_of_reading(lake: Lake) -> None:
    seen = on_a_terminal("verify", lake.storage.url)
    assert "t/flights" in seen
    assert "sound: 3 streams" in seen
