"""Memory of a run: files pass through it, and never stand in it whole."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers.s3 import s3_server
from tests.servers.web.https import HttpsServer
from tests.target.attached.files import START, person, rows, settings
from tests.target.support import config, environment, text

MB = 1 << 20
MEASURED = """
import json, sys
sys.modules["numpy"] = None  # An installation of the target alone has none. joblib would import it.
from target_singerlake.target import keep_freed_memory
from target_singerlake.settings import MEMORY_BYTES
from target_singerlake.target import TargetSingerlake
keep_freed_memory(MEMORY_BYTES)
TargetSingerlake(config=json.loads(sys.argv[1])).listen()
[most] = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(int(most.split()[1]) * 1024)
"""


def peak(root: Path | str, source: str | list[str], env: dict[str, str] | None = None, **chosen: Any) -> int:
    """The most bytes of memory that a target takes while it keeps the file at ``source``."""
    argv = [sys.executable, "-c", MEASURED, json.dumps(config(root, **chosen))]
    lines = text([START, person(1, photo=source)])
    done = subprocess.run(argv, input=lines, capture_output=True, env=environment(env), timeout=250)
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout.splitlines()[-1])


def sparse(folder: Path, size: int) -> str:
    with (folder / f"{size}.bin").open("wb") as file:
        file.truncate(size)
    return str(folder / f"{size}.bin")


@pytest.mark.thorough
def test_a_file_of_two_gigabytes_takes_less_than_100_megabytes(tmp_path: Path) -> None:
    assert peak(tmp_path / "lake", sparse(tmp_path, 2048 * MB), **settings(tmp_path)) < 100 * MB
    assert [row.bytes for row in rows(tmp_path / "lake")] == [2048 * MB]


@pytest.mark.soak
def test_so_does_one_that_goes_up_in_parts(tmp_path: Path) -> None:
    # The server holds what it is given in memory, and for as long as it runs.
    with s3_server() as s3:
        root, env = f"s3://{s3.create_bucket('memory')}/lake", s3.environment()
        assert peak(root, sparse(tmp_path, 400 * MB), env, **settings(tmp_path)) < 100 * MB


@pytest.mark.thorough
def test_so_does_one_of_the_web(tmp_path: Path, https: HttpsServer) -> None:
    def endless(connection: ssl.SSLSocket) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (400 * MB))
        for _ in range(400):
            connection.sendall(bytes(MB))
        return True

    https.pages["/a.bin"] = endless
    env = {"SSL_CERT_FILE": str(https.ca_file)}
    chosen = settings(https.url("/"), file_private_addresses=True)
    assert peak(tmp_path / "lake", https.url("/a.bin"), env, **chosen) < 100 * MB


def test_many_files_at_once_take_no_more_than_their_share(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}.bin").write_bytes(number.to_bytes(4) * (MB // 5))
    names = [str(tmp_path / f"{number}.bin") for number in range(200)]
    none = peak(tmp_path / "none", "", on_missing_file="record", **settings(tmp_path))
    many = peak(tmp_path / "many", names, file_threads=32, **settings(tmp_path))
    # A sixth of max_memory_bytes, twice where bytes are joined, and what the C library keeps of that.
    assert many < none + 40 * MB
    assert len(rows(tmp_path / "many")) == 200
