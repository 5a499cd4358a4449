"""A plugin or a command that is killed at one of its calls, as a program of ``tests.processes.template``."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

import singerlake.cli.main
import tap_singerlake.tap
from target_singerlake.files import publishing
from target_singerlake.target import TargetSingerlake
from tests.faults.support.haste import Haste, hasten
from tests.processes import plugins

NAME = "killed"
COMMANDS: Mapping[str, Callable[[], object]] = {"tap": tap_singerlake.tap.main, "singerlake": singerlake.cli.main.main}


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """A target with the settings ``config``, or one of ``COMMANDS`` with ``arguments``, kills itself when ``place``,
    ``module:name``, is called for the time ``calls``, on that ``side`` of the call, "before" or "after". It ends by
    itself if it never comes there. With ``about`` only calls count that have an argument with this in it.

    ``files_at_once`` is how many files it commits together, if not as many as a target does by itself; ``haste`` is how
    fast its time runs."""

    place: str
    side: str
    calls: int
    config: Mapping[str, Any] = {}
    command: str = ""
    arguments: Sequence[str] = ()
    about: str = ""
    files_at_once: int = publishing.FILES_AT_ONCE
    haste: Haste | None = None

    def run(self, given: bytes = b"", *, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end."""
        return plugins.run(NAME, [msgspec.json.encode(self).decode()], given, env=env)


def main() -> None:
    """What the process does."""
    asked = msgspec.json.decode(sys.argv[1], type=Killed)
    module, _, name = asked.place.partition(":")
    owner, (*path, method) = importlib.import_module(module), name.split(".")
    for step in path:
        owner = getattr(owner, step)
    original, seen = getattr(owner, method), 0

    def fatal(*arguments: Any, **keywords: Any) -> Any:
        nonlocal seen
        counts = not asked.about or any(asked.about in str(argument) for argument in arguments)
        seen += counts
        here = counts and seen == asked.calls
        if here and asked.side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **keywords)
        if here and asked.side == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, fatal)
    publishing.FILES_AT_ONCE = asked.files_at_once
    if asked.haste is not None:
        hasten(pytest.MonkeyPatch(), asked.haste)
    if asked.command:
        sys.argv = [asked.command, *asked.arguments]
        COMMANDS[asked.command]()
    else:
        TargetSingerlake(config=dict(asked.config)).listen()
