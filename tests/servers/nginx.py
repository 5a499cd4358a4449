"""nginx in front of two servers of S3 that are killed in turn, as a load balancer is in front of a cluster.

with balanced(server.endpoint_url, folder) as balancer:
    with balancer.dying_in_turn(within=8) as died:
        ...  # clients use balancer.url
    assert balancer.refused_again

The servers are front ends of one store. nginx does what it does by default: where a server dies before it answers, it
sends the request to the other one, unless its method is POST, LOCK or PATCH (``proxy_next_upstream``).
"""

from __future__ import annotations

import random
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from tests.servers.fault_proxy.proxy import ALWAYS, FaultProxy, http_fault_proxy, wait_until
from tests.servers.ports.place import place, port_of
from tools.nginx import NGINX

# Both servers are tried at any time: by default nginx leaves one that failed alone for 10 s, in which the other could
# not be killed.
_CONFIGURATION = """
daemon off;
master_process off;
error_log {folder}/error.log;
pid {folder}/pid;
events {{ worker_connections 512; }}
http {{
    log_format tried '$request_method|$status|$upstream_addr|$request_uri';
    access_log {folder}/access.log tried;
    client_body_temp_path {folder}/client;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 0;
    upstream store {{
        {servers}
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://store;
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""
# Ends nginx when standard input ends: on leaving the context, and however this process dies.
_SUPERVISOR = '"$@" </dev/null & nginx=$!; cat >/dev/null; kill "$nginx"; wait'


@dataclass
class Front:
    """One of the servers: a process in front of the store, which comes back where it was."""

    store: str
    stack: ExitStack
    proxy: FaultProxy = field(init=False)

    def __post_init__(self) -> None:
        self.proxy = self.stack.enter_context(http_fault_proxy(self.store))

    def die_at_a_write(self, skip: int, over: threading.Event) -> bool:
        """Kill it when the store has done one of its next writes and nobody was told; start it again. False where
        there was no such write before all was ``over``."""
        held = self.proxy.park("^PUT ", after=True, skip=skip, times=ALWAYS)
        while not held.waiting:
            if over.wait(0.005):
                held.release()
                return False
        self.proxy.kill()
        self.proxy = self.stack.enter_context(http_fault_proxy(self.store, port=self.proxy.port))
        return True


@dataclass(frozen=True)
class Tried:
    """One request of a client as nginx answered it, and the servers that it was sent to."""

    method: str
    status: int
    servers: tuple[str, ...]
    target: str


@dataclass(frozen=True)
class Balancer:
    """A running nginx."""

    port: int
    folder: Path
    fronts: list[Front]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def dying_in_turn(self, *, within: int, seed: int = 0) -> Iterator[list[int]]:
        """Kill the one server and the other, each at one of its next writes, of which there are ``within``, until the
        block ends. Gives the ports of those that died, as they do."""
        chance = random.Random(seed)
        over = threading.Event()
        died: list[int] = []

        def kill() -> None:
            for front in cycle(self.fronts):
                if not front.die_at_a_write(chance.randrange(within), over):
                    return
                died.append(front.proxy.port)

        with ThreadPoolExecutor(1) as pool:
            killing = pool.submit(kill)
            try:
                yield died
            finally:
                over.set()
        killing.result()

    @property
    def tried(self) -> list[Tried]:
        """What clients asked so far."""
        lines = (line.split("|", 3) for line in (self.folder / "access.log").read_text().splitlines())
        return [Tried(method, int(status), tuple(at.split(", ")), target) for method, status, at, target in lines]

    @property
    def refused_again(self) -> list[Tried]:
        """Writes that the second server refused, to which they came because the first was gone or died of them."""
        return [each for each in self.tried if each.status == 412 and len(each.servers) > 1]


@contextmanager
def balanced(store: str, folder: Path) -> Iterator[Balancer]:
    """A balancer with two front ends of the store at a URL; ``folder`` is for what nginx writes. It ends with the
    block, or with this process."""
    folder.mkdir()
    with ExitStack() as stack:
        fronts = [Front(store, stack) for _ in range(2)]
        port = port_of(stack.enter_context(place()))
        _start(stack, folder, port, [front.proxy.port for front in fronts])
        yield Balancer(port, folder, fronts)


def _start(stack: ExitStack, folder: Path, port: int, servers: list[int]) -> None:
    configuration = folder / "nginx.conf"
    listed = "\n        ".join(f"server 127.0.0.1:{server} max_fails=0;" for server in servers)
    configuration.write_text(_CONFIGURATION.format(folder=folder, port=port, servers=listed))
    command = [NGINX.get(), "-e", folder / "error.log", "-p", folder, "-c", configuration]
    process = subprocess.Popen(["sh", "-c", _SUPERVISOR, "sh", *command], stdin=subprocess.PIPE)
    stack.callback(process.communicate)
    log = folder / "error.log"
    wait_until(lambda: _listens(port) or (log.exists() and "[emerg]" in log.read_text()), "nginx to start")
    assert "[emerg]" not in log.read_text(), log.read_text()


def _listens(port: int) -> bool:
    with socket.socket() as knocking:
        return knocking.connect_ex(("127.0.0.1", port)) == 0
