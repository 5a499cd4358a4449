"""A capture that somebody looks at: progress on standard error where that is a terminal, and only STATE elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cli.terminals import terminal
from tests.target.support import config, records, schema, state, text


def test_a_capture_on_a_terminal_shows_how_far_it_is(tmp_path: Path) -> None:
    settings = tmp_path / "config.json"
    settings.write_text(json.dumps(config(tmp_path / "lake")))
    lines = text([schema(), *records(*range(1000)), state({"seen": 1000})])
    command = [sys.executable, "-m", "target_singerlake", "--config", str(settings)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}
    with terminal(80) as (theirs, written):
        done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True)
    assert json.loads(done.stdout) == {"seen": 1000}
    shown = written.decode()
    assert "capture  " in shown
    assert "1,000 records" in shown
    # The bar is gone before the last line is written, and nothing comes back after it.
    last = shown.rstrip("\r\n ").splitlines()[-1]
    assert "Stream 'users': 1,000 records in 1 file" in last
    assert "capture" not in last.rpartition("\r")[2]
