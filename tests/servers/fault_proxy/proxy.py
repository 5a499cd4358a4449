"""Proxies that lose, delay, damage and refuse what passes, each in a process of its own.

with http_fault_proxy("http://127.0.0.1:9000") as proxy:
    fault = proxy.drop(r"PUT .*/manifest\\.json", after=True)
    ...
    assert fault.hits == 1
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ALWAYS = -1
"""As ``times``: until ``calm``."""
DEADLINE = 30.0


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = DEADLINE) -> None:
    """Look until a condition holds. Raises ``AssertionError``, which says what was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.005)


@dataclass(frozen=True)
class Fault:
    """A fault in force."""

    proxy: FaultProxy
    rule: int

    @property
    def hits(self) -> int:
        """Requests that met it."""
        return self._look("hits")

    @property
    def done(self) -> int:
        """Requests that met it and that the server has answered, or that were refused in its place."""
        return self._look("done")

    @property
    def waiting(self) -> int:
        """Requests that are held."""
        return self._look("waiting")

    def wait_for(self, waiting: int = 1) -> None:
        """Return once so many requests are held."""
        wait_until(lambda: self.waiting >= waiting, f"{waiting} requests to be held")

    def release(self) -> None:
        """Let what is held go, now and later."""
        self.proxy.command("release", rule=self.rule)

    def _look(self, what: str) -> int:
        return int(self.proxy.command("look", rule=self.rule)[what])


@dataclass(frozen=True)
class FaultProxy:
    """A running proxy. ``matches`` is a regular expression for what a request is described as, see the processes'
    modules; options of every fault are ``skip``, ``times``, ``probability`` and ``seed``."""

    host: str
    port: int
    _process: subprocess.Popen[str] = field(repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def drop(self, matches: str, *, after: bool, **options: Any) -> Fault:
        """Reset the client's connection instead of the effect, or ``after`` it: the reply is lost."""
        return self._add("drop", matches, after=after, **options)

    def error(self, matches: str, *, status: int = 0, code: str, after: bool = False, **options: Any) -> Fault:
        """Answer with an error: ``code`` is S3's, DynamoDB's, Azure's or an SQLSTATE. ``headers`` go with it (HTTP)."""
        return self._add("error", matches, status=status, code=code, after=after, **options)

    def late(self, matches: str, **options: Any) -> Fault:
        """Reset the client's connection at once, and send the request on when it is released."""
        return self._add("late", matches, **options)

    def park(self, matches: str, *, after: bool = False, gather: int = 0, **options: Any) -> Fault:
        """Hold the request, or with ``after`` the reply, until released, or until ``gather`` are held."""
        return self._add("park", matches, after=after, gather=gather, **options)

    def cut_request(self, matches: str, **options: Any) -> Fault:
        """Send half of the body to the server, then reset both connections."""
        return self._add("cut_request", matches, **options)

    def cut_reply(self, matches: str, **options: Any) -> Fault:
        """Let it take effect and close before the reply's last byte."""
        return self._add("cut_reply", matches, **options)

    def truncate(self, matches: str, **options: Any) -> Fault:
        """Have the server take the first half of the body for all of it."""
        return self._add("truncate", matches, **options)

    def twice(self, matches: str, **options: Any) -> Fault:
        """Send the request to the server twice, as balancers do whose server died; the client gets the second answer,
        a refusal perhaps by its own success. HTTP only."""
        return self._add("twice", matches, **options)

    def act_as(self, *quirks: str) -> None:
        """Have the server seem to be another one until ``calm``: ``tests.servers.fault_proxy.quirks``. Beside that,
        requests meet faults. HTTP only."""
        self.command("act_as", quirks=quirks)

    def shut(self, seconds: float | None = None) -> None:
        """Refuse connections and reset those there are, as if the server were gone: for so many seconds, or until
        ``open`` or ``calm``."""
        self.command("shut", seconds=seconds)

    def open(self) -> None:
        """Take connections again."""
        self.command("open")

    def kill(self) -> None:
        """End the process as SIGKILL does. What it has sent to the server takes effect; its clients get no reply."""
        self._process.kill()
        self._process.wait()

    def watch(self, matches: str) -> Fault:
        """Do nothing to the requests, but count them."""
        return self._add("none", matches, times=ALWAYS)

    def seen(self) -> list[str]:
        """What requests were described as since the last call, oldest first, shortened."""
        return list(self.command("seen"))

    def calm(self) -> None:
        """End all faults, let everything held go, forget what was seen, take connections."""
        self.command("calm")

    def command(self, do: str, **arguments: Any) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            stdin.flush()
            answer = stdout.readline()
        assert answer, "the proxy ended; its own error output says why"
        return json.loads(answer)

    def _add(self, effect: str, matches: str, **options: Any) -> Fault:
        return Fault(self, self.command("add", effect=effect, matches=matches, **options))


def http_fault_proxy(url: str, *, port: int = 0, since: float = 0, factor: float = 1) -> Any:
    """A context with a proxy in front of an HTTP server such as ``http://127.0.0.1:9000``, at ``port`` or a free one.
    With ``factor`` the server's clock seems to run that much faster from ``since`` on, in seconds since 1970."""
    parts = urlsplit(url)
    return _proxy("http", parts.hostname or "", parts.port or 80, port, *((since, factor) if factor != 1 else ()))


def postgres_fault_proxy(host: str, port: int) -> Any:
    """A context with a proxy in front of a PostgreSQL server."""
    return _proxy("postgres", host, port)


@contextmanager
def _proxy(protocol: str, *arguments: object) -> Iterator[FaultProxy]:
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.servers.fault_proxy.{protocol}", *map(str, arguments)],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        listening = process.stdout.readline().strip()
        assert listening.isdigit(), "the proxy did not start; its own error output says why"
        yield FaultProxy("127.0.0.1", int(listening), process)
    finally:
        process.kill()
        process.communicate()
