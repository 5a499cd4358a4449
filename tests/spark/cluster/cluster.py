"""A real standalone cluster on 127.0.0.1: one master, two workers of one core each, and drivers that use it.

Every part is a process of its own with an environment of its own: what a worker lacks is really missing there.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.servers.java import QUICK
from tests.spark.cluster.processes import ROOT, environment, said, tied

PAGE = ROOT / "docs/how-to/spark-cluster.md"
# It would listen on a port of its own that is always the same.
NO_REST = "-Dspark.master.rest.enabled=false"


@dataclass(frozen=True)
class Cluster:
    """``master`` is its URL; ``environment`` that of its machines, without credentials; ``folder`` its own."""

    master: str
    environment: Mapping[str, str]
    folder: Path

    @contextmanager
    def driver(
        self, conf: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
    ) -> Iterator[Driver]:
        """An application with both cores; ``environ`` is added to the driver's environment alone."""
        settings = {
            "spark.master": self.master,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "480m",
            "spark.executor.extraJavaOptions": QUICK,
            "spark.local.dir": str(self.folder),
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            # Both workers take part from the first task on.
            "spark.cores.max": "2",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            **conf,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.cluster.driver", json.dumps(settings)],
            cwd=ROOT,
            env={**self.environment, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield Driver(process)
        finally:
            process.communicate()


@dataclass(frozen=True)
class Driver:
    """One application, which does what it is asked, one thing after the other."""

    process: subprocess.Popen[str]

    def totals(self, options: Mapping[str, str], **arguments: str) -> list[int]:
        """See ``driver.totals``. ``Failed`` with the error's text where it raises."""
        return self._done(job="totals", options=options, **arguments)

    def files(self, options: Mapping[str, str]) -> list[int]:
        """See ``driver.files``. ``Failed`` as well."""
        return self._done(job="files", options=options)

    def _done(self, **job: Any) -> list[int]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the driver died"
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return list(answer["result"])


class Failed(Exception):
    """A read raised an error of Spark; this has its text."""


def printed_commands() -> list[list[str]]:
    """How the page on clusters starts a master and a worker. Of an option that is given again the last one counts."""
    (block,) = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for line in block.splitlines()]
    assert [command[0] for command in commands] == ["spark-class"] * 2
    # The one that pip put beside this Python.
    return [[str(Path(sys.executable).parent / "spark-class"), *command[1:]] for command in commands]


@contextmanager
def cluster(folder: Path, java_home: Path) -> Iterator[Cluster]:
    """Start a master and two workers, and wait until they know each other."""
    machine = {
        **environment(folder, java_home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{NO_REST} {QUICK}",
    }
    with ExitStack() as stack:

        def start(name: str, command: list[str]) -> Callable[[str], str]:
            log = folder / f"{name}.log"
            found = {name: value for name, value in machine.items() if name != "SPARK_HOME"}
            return partial(said, stack.enter_context(tied(command, found, log)), log)

        master_s, worker_s = printed_commands()
        here = ["--host", "127.0.0.1", "--webui-port", "0"]
        master = start("master", [*master_s, *here, "--port", "0"])(r"Starting Spark master at (spark://\S+)")
        small = ["--cores", "1", "--memory", "1g"]
        assert worker_s.pop().startswith("spark://")
        workers = [
            start(name, [*worker_s, *here, *small, "--work-dir", str(folder / name), master])
            for name in ("worker-0", "worker-1")
        ]
        for ready in workers:
            ready(r"Successfully registered with master (\S+)")
        yield Cluster(master, machine, folder)
