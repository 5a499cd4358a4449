"""Running the target, in this process and in one of its own, and looking at what it left in the lake."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import select
from singerlake.lake import Lake
from target_singerlake.target import TargetSingerlake
from tests.processes import plugins

TAP = "tap-test"
USERS = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}}
WIDER = {"type": "object", "properties": {**USERS["properties"], "age": {"type": ["null", "integer"]}}}  # type: ignore[dict-item]


def schema(stream: str = "users", schema: Any = USERS, keys: Iterable[str] = ("id",), **more: Any) -> bytes:
    """A SCHEMA message."""
    return _line({"type": "SCHEMA", "stream": stream, "schema": schema, "key_properties": list(keys), **more})


def record(id: int, stream: str = "users", **more: Any) -> bytes:
    """A RECORD message of ``users``."""
    return _line({"type": "RECORD", "stream": stream, "record": {"id": id, "name": f"user {id}"}, **more})


def records(*ids: int, stream: str = "users") -> list[bytes]:
    """RECORD messages of ``users``."""
    return [record(id, stream) for id in ids]


def state(value: Any) -> bytes:
    """A STATE message."""
    return _line({"type": "STATE", "value": value})


def activate(version: int, stream: str = "users") -> bytes:
    """An ACTIVATE_VERSION message."""
    return _line({"type": "ACTIVATE_VERSION", "stream": stream, "version": version})


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode()


def text(lines: Iterable[bytes]) -> bytes:
    """Lines as they stand in a pipe."""
    return b"".join(line + b"\n" for line in lines)


def config(root: Path | str, **settings: Any) -> dict[str, Any]:
    """The target's settings for a lake."""
    return {"lake_root": str(root), "tap_id": TAP, **settings}


def ingest(root: Path | str, lines: Iterable[bytes] | bytes, **settings: Any) -> list[str]:
    """Run the target in this process, as singer-sdk's own tests do; the STATE lines it emitted."""
    data = lines if isinstance(lines, bytes) else text(lines)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(out):
        TargetSingerlake(config=config(root, **settings)).listen(io.BytesIO(data))
    out.seek(0)
    return out.read().splitlines()


@dataclass(frozen=True)
class Finished:
    """A target process that ended."""

    code: int
    states: list[str]
    log: str

    @property
    def last_state(self) -> Any:
        """The last STATE's value."""
        return json.loads(self.states[-1])

    @property
    def errors(self) -> list[str]:
        """What the log says at level ERROR."""
        return [line.split(" | ")[-1] for line in self.log.splitlines() if "| ERROR" in line]


def command(root: Path | str, folder: Path, **settings: Any) -> list[str]:
    """The command line of a target, with its settings in a file below ``folder``."""
    return [sys.executable, "-m", "target_singerlake.target", *configured(root, folder, **settings)]


def configured(root: Path | str, folder: Path, **settings: Any) -> list[str]:
    """The arguments that name a target's settings, which are written to a file below ``folder``."""
    file = folder / "config.json"
    file.write_text(json.dumps(config(root, **settings)))
    return ["--config", str(file)]


def run(
    root: Path | str,
    folder: Path,
    lines: Iterable[bytes] | bytes,
    *,
    env: Mapping[str, str] | None = None,
    **settings: Any,
) -> Finished:
    """Run the target as a process of its own to its end."""
    data = lines if isinstance(lines, bytes) else text(lines)
    done = plugins.run("target", configured(root, folder, **settings), data, env=environment(env))
    return Finished(done.returncode, done.stdout.decode().splitlines(), done.stderr.decode())


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment, with the modules it can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **(more or {})}


def manifest(root: Path | str, stream: str = "users", tap: str = TAP) -> Manifest:
    """A stream's state."""
    return Lake.open(str(root)).existing_stream(tap, stream).snapshot()


def kept(root: Path | str, stream: str = "users", tap: str = TAP) -> list[bytes]:
    """All messages of a stream in offset order, read and checked as readers do it, without their newlines."""
    found = Lake.open(str(root)).existing_stream(tap, stream)
    blocks = (block for part in select(found.snapshot()) for block in found.read(part))
    return [line for block in blocks for line in block.data.split(b"\n")[:-1]]


def kept_ids(root: Path | str, stream: str = "users") -> list[int]:
    """The ``id`` of every record of a stream."""
    return [json.loads(line)["record"]["id"] for line in kept(root, stream) if b'"RECORD"' in line]
