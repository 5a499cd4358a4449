"""A target that is killed at a call: a process of its own, which is gone before or after the call has an effect."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.target.support import config, environment, text

_SCRIPT = """
import importlib, json, os, signal, sys
place, side, calls, files_at_once, config = json.loads(sys.argv[1])
module, _, name = place.partition(":")
owner, (*path, method) = importlib.import_module(module), name.split(".")
for step in path:
    owner = getattr(owner, step)
original, seen = getattr(owner, method), [0]

def fatal(*arguments, **keywords):
    seen[0] += 1
    if seen[0] == calls and side == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = original(*arguments, **keywords)
    if seen[0] == calls and side == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return result

setattr(owner, method, fatal)
from target_singerlake.files import publishing
from target_singerlake.target import TargetSingerlake
publishing.FILES_AT_ONCE = files_at_once or publishing.FILES_AT_ONCE
TargetSingerlake(config=config).listen()
"""


def run_until_killed(
    root: Path | str,
    lines: Iterable[bytes],
    moment: tuple[str, str],
    calls: int,
    *,
    files_at_once: int | None = None,
    **settings: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Run a target that is killed at its call number ``calls``, from 1 on, of what ``moment`` names: ``module:name``,
    and the side of the call, ``before`` or ``after``. A run with fewer calls ends by itself. ``files_at_once``: most
    files of one commit."""
    asked = json.dumps([*moment, calls, files_at_once, config(root, **settings)])
    argv = [sys.executable, "-c", _SCRIPT, asked]
    return subprocess.run(argv, input=text(lines), capture_output=True, env=environment(), timeout=120)
