"""The commands that a user calls, on a lake in a cloud whose server the tests run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from singerlake.adapters import open_storage
from singerlake.storage.port import Storage
from singerlake.storage.settings import AnySettings
from tests.processes import plugins
from tests.servers.azurite import ACCOUNT_KEY

Message = Mapping[str, Any]

STREAM = "users."
SCHEMA: Message = {
    "type": "SCHEMA",
    "stream": STREAM,
    "schema": {"properties": {"id": {"type": "integer"}}},
    "key_properties": ["id"],
}


def record(number: int) -> dict[str, object]:
    return {"type": "RECORD", "stream": STREAM, "record": {"id": number}}


def state(number: int) -> dict[str, Any]:
    return {"type": "STATE", "value": {"bookmarks": {STREAM: {"id": number}}}}


STATE = state(1)


@dataclass(frozen=True)
class Cloud:
    """``config`` is what plugins and commands are told to reach it, ``environment`` what is set beside that.
    ``settings`` reach it from here, whatever becomes of the others. ``names`` lists the names of all objects as the
    server has them. ``root``: what lakes lie below, where that is not the ``bucket`` named by ``scheme``."""

    scheme: str
    config: Mapping[str, str]
    settings: AnySettings
    names: Callable[[], list[str]] = list
    environment: Mapping[str, str] = field(default_factory=dict)
    bucket: str = "lake"
    root: str = ""


@dataclass(frozen=True)
class Capture:
    """A target at work."""

    process: subprocess.Popen[str]

    def send(self, *messages: Message) -> None:
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def acknowledged(self) -> object:
        """The value of the next STATE that comes out. Raises ``AssertionError`` where none comes."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        return json.loads(line)

    def ended(self) -> tuple[int, list[Any], str]:
        """Wait for the end: exit code, the values of the STATEs that came out meanwhile, and the log."""
        said, log = self.process.communicate()
        return self.process.returncode, [json.loads(line) for line in said.splitlines()], log

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Commands:
    """The commands on a lake of their own in a cloud, with a store for new streams."""

    def __init__(self, cloud: Cloud, store: str, folder: Path) -> None:
        self.root = f"{cloud.root or f'{cloud.scheme}://{cloud.bucket}'}/{folder.name}"
        self.config = folder / "config.json"
        self.config.write_text(json.dumps({"lake_root": self.root, "tap_id": "t", **cloud.config}))
        self.environment = {**os.environ, "TARGET_SINGERLAKE_MANIFEST_STORE": store, "SINGERLAKE_LAKE_ROOT": self.root}
        self.environment |= {f"SINGERLAKE_{name.upper()}": value for name, value in cloud.config.items()}
        self.environment |= cloud.environment
        self.storage: Storage = open_storage(self.root, cloud.settings)

    def set(self, **settings: object) -> None:
        """Change settings of the plugins."""
        self.config.write_text(json.dumps({**json.loads(self.config.read_text()), **settings}))

    def run(self, command: str, *words: str, lines: str = "") -> str:
        """What a command writes, which must succeed."""
        code, said, log = self.outcome(command, *words, lines=lines)
        assert code == 0, log
        return said

    def outcome(self, command: str, *words: str, lines: str = "") -> tuple[int, str, str]:
        """The exit code of a command, what it writes, and its log."""
        ran = plugins.run(command.removesuffix("-singerlake"), words, lines.encode(), env=self.environment)
        said, log = ran.stdout.decode(), ran.stderr.decode()
        assert ACCOUNT_KEY not in said + log
        return ran.returncode, said, log

    def capture(self, messages: list[dict[str, object]], *, options: tuple[str, ...] = ()) -> str:
        lines = "".join(json.dumps(each) + "\n" for each in (SCHEMA, *messages, STATE))
        return self.run("target-singerlake", "--config", str(self.config), "--config=ENV", *options, lines=lines)

    def capturing(self) -> Capture:
        """A target that waits for messages."""
        argv = self._argv("target-singerlake", ("--config", str(self.config), "--config=ENV"))
        pipe = subprocess.PIPE
        return Capture(subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=self.environment))

    def replayed(self) -> list[dict[str, object]]:
        lines = self.run("tap-singerlake", "--config", str(self.config)).splitlines()
        return [json.loads(line) for line in lines if "RECORD" in line]

    @staticmethod
    def _argv(command: str, words: tuple[str, ...]) -> list[str]:
        return [str(Path(sys.executable).parent / command), *words]
