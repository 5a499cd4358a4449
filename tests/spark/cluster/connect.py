"""A Spark Connect server in a process of its own on 127.0.0.1, and clients in theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.servers.ports.place import place, port_of
from tests.spark.cluster.processes import ROOT, environment, said, tied

PRELUDE = """
import json
import sys
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from singerlake.spark import read_streams, register
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
def load(**more):
    options = {"path": sys.argv[2], "tap": "tap", "stream": "orders", **more}
    return spark.read.format("singerlake").options(**options).load()
"""


@dataclass(frozen=True)
class ConnectServer:
    """``log`` is the file of what it logs, ``events`` the folder of Spark's event log."""

    url: str
    log: Path
    events: Path

    def client(self, code: str, path: str) -> str:
        """What ``code`` prints after the prelude above, in a process without a Java and with ``path`` as the lake's."""
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + code, self.url, path],
            cwd=ROOT,
            env={name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextmanager
def connect_server(folder: Path, java_home: Path) -> Iterator[ConnectServer]:
    """Start one with two cores, and wait until it answers."""
    held = place()
    port = port_of(held)
    (folder / "events").mkdir()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[2]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]
    log = folder / "log"
    with held, tied(command, environment(folder, java_home), log) as process:
        said(process, log, r"Spark Connect server started at: (\S+)")
        yield ConnectServer(f"sc://127.0.0.1:{port}", log, folder / "events")
