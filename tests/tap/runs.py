"""Runs of the tap: in this process where the output is what matters, as a process where its end is."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tap_singerlake.tap import TapSingerlake
from tests.processes import plugins
from tests.processes.signals import signals_kept

V1 = {"type": "object", "properties": {"id": {"type": "integer"}}}
V2 = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}}

COMMAND = (sys.executable, "-c", "from tap_singerlake.tap import main; main()")


@dataclass(frozen=True)
class Output:
    """What a run wrote to standard output."""

    text: bytes

    @property
    def lines(self) -> list[bytes]:
        assert not self.text or self.text.endswith(b"\n")
        return self.text.split(b"\n")[:-1]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line, parse_float=Decimal) for line in self.lines]

    def of(self, kind: str, stream: str | None = None) -> list[dict[str, Any]]:
        """Messages of one type, in order."""
        return [m for m in self.messages if m["type"] == kind and (stream is None or m.get("stream") == stream)]

    def records(self, stream: str | None = None) -> list[dict[str, Any]]:
        return [message["record"] for message in self.of("RECORD", stream)]

    @property
    def state(self) -> dict[str, Any]:
        """The last STATE's value; empty where there is none."""
        states = self.of("STATE")
        return states[-1]["value"] if states else {}


def make_tap(lake: Path | str, *, tap_id: str = "tap-a", catalog: Any = None, state: Any = None, **config: Any):
    """The tap as the SDK constructs it."""
    with signals_kept():
        return TapSingerlake(config={"lake_root": str(lake), "tap_id": tap_id, **config}, catalog=catalog, state=state)


def replay(lake: Path | str, **options: Any) -> Output:
    """One whole run; options as for ``make_tap``. What the tap raises is raised, with ``output`` as it then was."""
    buffer = io.BytesIO()
    stdout = io.TextIOWrapper(buffer, encoding="utf-8")
    with redirect_stdout(stdout):
        try:
            make_tap(lake, **options).sync_all()
        except Exception as error:
            error.output = Output(buffer.getvalue())  # type: ignore[attr-defined]
            raise
    return Output(buffer.getvalue())


def discover(lake: Path | str, **options: Any) -> dict[str, Any]:
    """The catalog that discovery prints."""
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
        return json.loads(make_tap(lake, **options).run_discovery())


def environment(**settings: str) -> dict[str, str]:
    """An environment in which a child imports what this process imports."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **settings}


def command(folder: Path, config: Mapping[str, Any], *arguments: str) -> Sequence[str]:
    """The tap's command line for a configuration, which is written to ``folder``."""
    return [*COMMAND, *configured(folder, config), *arguments]


def configured(folder: Path, config: Mapping[str, Any]) -> Sequence[str]:
    """The arguments that name a configuration, which is written to ``folder``."""
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return ["--config", str(path)]


def run_process(folder: Path, config: Mapping[str, Any], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """One run as a process of its own."""
    return plugins.run("tap", [*configured(folder, config), *arguments], env=environment(), timeout=60)
