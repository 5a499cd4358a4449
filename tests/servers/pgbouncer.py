"""PgBouncer in front of a PostgreSQL.

with pooled(server, "transaction", folder) as url:
    ...
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.servers.fault_proxy.proxy import wait_until
from tests.servers.ports.place import place, port_of
from tools.pgbouncer import PGBOUNCER
from tools.postgres import Server

# It logs everybody in as the server's superuser.
_CONFIGURATION = """
[databases]
{server.database} = host={server.host} port={server.port} user={server.user} password={server.password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 4
"""
# Ends PgBouncer when standard input ends: on leaving the context, and however this process dies.
_SUPERVISOR = '"$@" </dev/null 2>&1 & pooler=$!; cat >/dev/null; kill "$pooler"; wait'


@contextmanager
def pooled(server: Server, mode: str, folder: Path) -> Iterator[str]:
    """The URL of a pooler with four connections, of one kind of pooling. ``folder`` is for its configuration."""
    with place() as held:
        port = port_of(held)
        configuration = folder / "pgbouncer.ini"
        configuration.write_text(_CONFIGURATION.format(server=server, port=port, mode=mode))
        command: list[str | Path] = [PGBOUNCER.get(), "-q", configuration]
        if os.geteuid() == 0:
            command[1:1] = ["-u", "nobody"]
        with (folder / "pgbouncer.log").open("wb") as log:
            process = subprocess.Popen(["sh", "-c", _SUPERVISOR, "sh", *command], stdin=subprocess.PIPE, stdout=log)
        url = f"postgresql://{server.user}@127.0.0.1:{port}/{server.database}"
        try:
            wait_until(lambda: _answers(url), "PgBouncer to start")
            yield url
        finally:
            process.communicate()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
