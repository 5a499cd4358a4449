"""Processes of Spark beside the tests' own: they end with their block, or when this process does, however it ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.servers.java import DRIVERS, QUICK

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[3]
# A group of its own, killed when the standard input ends: Spark's processes would outlive a parent that was killed.
_TIED = '{ "$@" </dev/null; kill -9 0; } & cat; kill -9 0'


def environment(folder: Path, java_home: Path) -> dict[str, str]:
    """That of a machine of Spark's: this Python and a Java, and no credentials."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH") if name in os.environ}
    return {
        **kept,
        **DRIVERS,
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "AWS_CONFIG_FILE": str(folder / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "aws-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def tied(command: list[str], environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command and all that it starts until the block ends; ``log`` gets what they print."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _TIED, "sh", *command],
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def said(process: subprocess.Popen[bytes], log: Path, pattern: str, within: float = 240) -> str:
    """What a log says of itself, once it does; the longest wait is in seconds."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        assert process.poll() is None, log.read_text(errors="replace")
        time.sleep(0.05)
    raise AssertionError(f"not ready within {within} s:\n" + log.read_text(errors="replace"))
