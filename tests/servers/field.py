"""Servers that speak S3 and are not Amazon's, as their makers ship them: each on a folder of its own, on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tests.servers.ports.place import place, port_of
from tests.servers.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server
from tools.servers import RCLONE, SEAWEEDFS, SWIFT

BUCKET = "lakes"
_STARTS_IN = 60.0
_SWIFT_USER = "tests:lakes"
"""Its access keys are the name of an account and that of a user."""
_ROOT = Path(__file__).parents[2]


def _seaweedfs(folder: Path, ports: list[int]) -> list[str]:
    credentials = [{"accessKey": ACCESS_KEY_ID, "secretKey": SECRET_ACCESS_KEY}]
    user = {"name": "tests", "credentials": credentials, "actions": ["Admin", "Read", "Write"]}
    users = folder / "users.json"
    users.write_text(json.dumps({"identities": [user]}))
    flags: dict[str, Any] = {"ip": "127.0.0.1", "ip.bind": "127.0.0.1", "dir": folder, "metricsPort": 0}
    flags |= {"volume.max": 0, "master.volumeSizeLimitMB": 64, "filer": True, "s3": True, "s3.config": users}
    flags |= {"s3.port": ports[0], "s3.port.grpc": ports[1], "s3.port.iceberg": 0, "s3.port.lance": 0}
    flags |= {"master.port": ports[2], "master.port.grpc": ports[3], "volume.port": ports[4]}
    flags |= {"volume.port.grpc": ports[5], "filer.port": ports[6], "filer.port.grpc": ports[7]}
    said = [f"-{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in flags.items()]
    return [str(SEAWEEDFS.find()), "server", *said]


def _rclone(folder: Path, ports: list[int]) -> list[str]:
    key = f"{ACCESS_KEY_ID},{SECRET_ACCESS_KEY}"
    at = f"127.0.0.1:{ports[0]}"
    return [str(RCLONE.find()), "serve", "s3", "--config", "/dev/null", "--addr", at, "--auth-key", key, str(folder)]


def _swift(folder: Path, ports: list[int]) -> list[str]:
    said = [str(folder), _SWIFT_USER, SECRET_ACCESS_KEY, *map(str, ports[:4])]
    packages = SWIFT.find().parents[1]
    return ["env", f"PYTHONPATH={packages}:{_ROOT}", sys.executable, "-W", "ignore", "-m", "tests.servers.swift", *said]


COMMANDS: Mapping[str, Callable[[Path, list[int]], list[str]]] = {
    "SeaweedFS": _seaweedfs,
    "rclone": _rclone,
    "OpenStack Swift": _swift,
}


@contextmanager
def field_server(name: str) -> Iterator[S3Server]:
    """A fresh one of ``COMMANDS`` with an empty bucket ``BUCKET``; it ends with the block. It takes no faults."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        said = stack.enter_context(tempfile.TemporaryFile())
        ports = [port_of(stack.enter_context(place())) for _ in range(8)]
        stack.callback(_remove_sockets, ports)
        process = subprocess.Popen(COMMANDS[name](folder, ports), cwd=folder, stdout=said, stderr=said)
        stack.callback(process.wait)
        stack.callback(process.kill)
        server = S3Server(f"http://127.0.0.1:{ports[0]}", _SWIFT_USER if name == "OpenStack Swift" else ACCESS_KEY_ID)
        deadline = time.monotonic() + _STARTS_IN
        while not _is_ready(server):
            if time.monotonic() > deadline or process.poll() is not None:
                said.seek(0)
                raise AssertionError(f"{name} did not start: {said.read()[-2000:].decode(errors='replace')}")
            time.sleep(0.1)
        yield server


def _remove_sockets(ports: list[int]) -> None:
    """SeaweedFS listens on files in /tmp, too, and leaves them there when it is killed."""
    for port in ports:
        for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            path.unlink()


def _is_ready(server: S3Server) -> bool:
    try:
        server.create_bucket(BUCKET)
    except (BotoCoreError, ClientError):
        return False
    return True
