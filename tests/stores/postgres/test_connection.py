"""Connections to PostgreSQL: none while nothing is done, none of another process's, no word of the URL in any error."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest

from singerlake.clock import random_id
from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError, StorageUnavailableError
from singerlake.stores.port import Loaded
from singerlake.stores.postgres import connection as postgres_connection
from singerlake.stores.postgres.connection import Connections, connect, connections_to
from singerlake.stores.postgres.errors import cannot_connect
from singerlake.stores.postgres.schema import create_schema
from tests.format.state.test_fold import add, new_file
from tests.servers.fault_proxy.proxy import wait_until
from tests.stores.postgres.place import PostgresPlace, place, session
from tools.postgres import Server

__all__ = ["place"]
SECRET = "S3CRET"


def named(url: str) -> tuple[str, str]:
    """``url`` with an application name of its own, and that name."""
    name = f"test {random_id()}"
    return f"{url}?application_name={name.replace(' ', '%20')}", name


def count(url: str, name: str) -> int:
    with session(url, "public") as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (name,)
        ).fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def impatient(postgres: Server) -> Iterator[tuple[Connections, Callable[[], int]]]:
    """Connections that are closed after 0.2 s, and how many the server has."""
    url, name = named(postgres.dsn)
    connections = Connections(url, idle_seconds=0.2)
    yield connections, lambda: count(postgres.dsn, name)
    connections.close()


def test_a_connection_that_is_not_used_is_closed_by_itself(
    impatient: tuple[Connections, Callable[[], int]],
) -> None:
    connections, alive = impatient
    before = len(idle_threads())
    assert alive() == 0
    for _ in range(2):
        with connections.lent() as connection:
            connection.execute("SELECT 1")
        assert alive() == 1
        wait_until(lambda: alive() == 0, "the idle connection to be closed")
    wait_until(lambda: len(idle_threads()) <= before, "the thread that closes to end")


def idle_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "singerlake-postgres-idle"]


def test_a_connection_in_use_is_left_open_however_long(impatient: tuple[Connections, Callable[[], int]]) -> None:
    connections, alive = impatient
    with connections.lent() as connection:
        with connections.lent() as other:
            other.execute("SELECT 1")
        wait_until(lambda: alive() == 1, "the other connection to be closed")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_five_hundred_writers_that_wait_hold_no_connection(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, name = named(place.url)
    monkeypatch.setitem(postgres_connection._registry, url, Connections(url, idle_seconds=0.2))
    stores = [place.but(url=url, table_id=f"lake/t/{random_id()}").store() for _ in range(500)]
    for store in stores:
        assert store.load() is None
    # One after the other, they share one.
    assert count(place.url, name) <= 1
    wait_until(lambda: count(place.url, name) == 0, "the connection to be closed")


def test_a_connection_is_used_again_and_by_one_at_a_time(impatient: tuple[Connections, Callable[[], int]]) -> None:
    connections, alive = impatient
    with connections.lent() as one, connections.lent() as two:
        assert one is not two
    with connections.lent() as again:
        assert again in (one, two)
    connections.close()
    wait_until(lambda: alive() == 0, "close to have closed all")
    with connections.lent() as fresh:
        assert fresh.execute("SELECT 1").fetchone() == (1,)


def test_what_is_left_open_is_rolled_back_before_the_next_one_gets_it(
    impatient: tuple[Connections, Callable[[], int]], place: PostgresPlace
) -> None:
    connections, _ = impatient
    for broken in ("SELECT 1", "SELECT 1/0"):
        with connections.lent() as connection:
            connection.execute("BEGIN")
            with suppress(psycopg.Error):
                connection.execute(broken)
        with connections.lent() as again:
            assert again is connection
            assert again.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


def test_the_store_closes_what_the_process_holds_idle_and_goes_on(place: PostgresPlace) -> None:
    url, name = named(place.url)
    store = place.but(url=url).store()
    store.load()
    store.close()
    wait_until(lambda: count(place.url, name) == 0, "the connection to be closed")
    assert store.load() is None


def test_the_server_sees_who_it_is(place: PostgresPlace) -> None:
    place.store().load()
    assert count(place.url, "singerlake") >= 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_leaves_its_parent_s_connections_alone(place: PostgresPlace) -> None:
    url, _ = named(place.url)
    connections = connections_to(url)
    place = place.but(url=url)
    base = place.born()
    with connections.lent() as connection:
        before = connection.info.backend_pid
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with connections.lent() as connection:
                mine = connection.info.backend_pid
            committed = place.commit(base, add(new_file("child")))
            connections.close()
            code = 0 if mine != before and isinstance(committed, Loaded) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with connections.lent() as connection:
        assert connection.info.backend_pid == before
        assert connection.execute("SELECT 1").fetchone() == (1,)
    place.committed(base, add(new_file("parent")))
    assert place.listed() == ["child", "parent"]


def test_threads_share_connections(impatient: tuple[Connections, Callable[[], int]]) -> None:
    connections, alive = impatient

    def use(_: int) -> int:
        with connections.lent() as connection:
            row = connection.execute("SELECT 1").fetchone()
            return row[0] if row else 0

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(use, range(200))) == 200
    assert alive() <= 8


@pytest.fixture(scope="module")
def nobody() -> Iterator[int]:
    """A port where nobody takes connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


URLS: dict[str, tuple[str, type[SingerlakeError], str]] = {
    "wrong password": ("postgresql://{user}:S3CRET@{at}/postgres", AccessDeniedError, "password"),
    "no password": ("postgresql://{user}@{at}/postgres", AccessDeniedError, "password"),
    "unknown user": ("postgresql://S3CRETuser:S3CRET@{at}/postgres", AccessDeniedError, "user"),
    "unknown database": ("{url}S3CRET", SettingError, "database"),
    "nobody there": (
        "postgresql://u:S3CRET@127.0.0.1:{nobody}/postgres",
        StorageUnavailableError,
        "check that it runs",
    ),
    "unknown host": ("postgresql://u:S3CRET@no.such.host.invalid/postgres", SettingError, "no address"),
    "an @ in the password": ("postgresql://u:x@S3CRET@{at}/postgres", SettingError, "%40"),
    "a / in the password": ("postgresql://S3CRET:S3CRET/x@{at}/postgres", SettingError, "%2F"),
    "a broken escape": ("postgresql://u:S3CRET%zz@{at}/postgres", SettingError, "libpq"),
    "an unknown option": ("{url}?S3CRET=1", SettingError, "libpq"),
    "an option of another server": ("{url}?options=-c%20S3CRET%3D1", SettingError, "options"),
    "a wrong sslmode": ("{url}?sslmode=S3CRET", SettingError, "options"),
    "no TLS": ("{url}?sslmode=require", SettingError, "TLS"),
    "another scheme": ("http://u:S3CRET@{at}/", SettingError, "libpq"),
    "no URL": ("S3CRET", SettingError, "libpq"),
    "NUL": ("postgresql://u:S3CRET\0@{at}/postgres", SettingError, "libpq"),
    "empty": ("", SettingError, "libpq"),
}


@pytest.mark.parametrize("case", URLS)
def test_a_url_that_leads_nowhere_is_told_without_a_word_of_it(
    case: str, postgres: Server, nobody: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    caplog.set_level(logging.DEBUG)
    template, kind, said = URLS[case]
    url = template.format(url=postgres.dsn, user=postgres.user, at=f"{postgres.host}:{postgres.port}", nobody=nobody)
    for act in (lambda: PostgresPlace(url, "s").store().load(), lambda: create_schema(url, "s")):
        with pytest.raises(kind, match="postgres_url") as raised:
            act()
        told = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + caplog.text
        assert said in str(raised.value)
        assert raised.value.__context__ is None or SECRET not in repr(raised.value.__context__)
        for secret in (SECRET, postgres.password, postgres.user + ":"):
            # Source lines of this very file may show; the templates are not among them.
            assert secret not in told


AT = 'connection to server at "10.0.0.1", port 5432 failed: '
HBA = 'FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "u", database "d", '
REFUSALS: dict[str, tuple[str, type[SingerlakeError], str]] = {
    "hostssl alone": (f"{AT}{HBA}no encryption", AccessDeniedError, "without TLS .*; set sslmode=require"),
    "hostssl alone, PostgreSQL 13": (f"{AT}{HBA}SSL off", AccessDeniedError, "without TLS .*; set sslmode=require"),
    "hostnossl alone": (f"{AT}{HBA}SSL encryption", AccessDeniedError, "with TLS .*hostssl"),
    "neither": (f"{AT}{HBA}SSL encryption\n{AT}{HBA}no encryption", AccessDeniedError, "connections from this machine"),
    "a line with reject": (
        f'{AT}FATAL:  pg_hba.conf rejects connection for host "10.0.0.2", user "u", database "d", no encryption',
        AccessDeniedError,
        "does not allow",
    ),
    "no sslrootcert": (
        f'{AT}root certificate file "/nowhere/ca.crt" does not exist\nEither provide the file, use the system\'s '
        "trusted roots with sslrootcert=system, or change sslmode to disable server certificate verification.",
        SettingError,
        "the file of sslrootcert is missing",
    ),
    "sslrootcert without a certificate": (
        f'{AT}could not read root certificate file "/etc/hostname": no certificate or crl found',
        SettingError,
        "the file of sslrootcert .* holds no certificate",
    ),
    "another authority": (f"{AT}SSL error: certificate verify failed", SettingError, "another authority"),
    "another host name": (
        f'{AT}server certificate for "other.example" does not match host name "10.0.0.1"',
        SettingError,
        "another host name",
    ),
    "no key": (
        f'{AT}certificate present, but not private key file "/nowhere/c.key"',
        SettingError,
        "sslcert and sslkey",
    ),
    "a key for all to read": (
        f'{AT}private key file "/c.key" has group or world access; file must have permissions u=rw (0600) or less',
        SettingError,
        "only its owner may read",
    ),
    "a client certificate": (
        f"{AT}FATAL:  connection requires a valid client certificate",
        AccessDeniedError,
        "set sslcert and sslkey",
    ),
    "PgBouncer, no database": (f"{AT}FATAL:  no such database: d", SettingError, "no database of that name"),
    "PgBouncer, an option": (
        f"{AT}FATAL:  unsupported startup parameter: options",
        SettingError,
        "cannot take an option",
    ),
    "PgBouncer, a password": (f"{AT}FATAL:  SASL authentication failed", AccessDeniedError, "user or the password"),
    "PgBouncer, no server": (
        f"{AT}FATAL:  server login has been failing, try again later (server_login_retry)",
        StorageUnavailableError,
        "a pooler that does not reach its PostgreSQL",
    ),
    "PgBouncer, full": (
        f"{AT}FATAL:  no more connections allowed (max_client_conn)",
        StorageUnavailableError,
        "no free connection",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_libpq_says_becomes_an_error_that_says_what_it_is(case: str) -> None:
    said, kind, told = REFUSALS[case]
    error = cannot_connect(f"connection failed: {said}")
    assert isinstance(error, kind)
    assert re.search(told, str(error))


def test_a_silent_server_is_given_up_on() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"postgresql://u:S3CRET@127.0.0.1:{listening.getsockname()[1]}/d?connect_timeout=2"
        with pytest.raises(StorageUnavailableError, match="in time") as raised:
            connect(url)
    assert SECRET not in str(raised.value)


def test_something_that_is_no_postgresql_is_told(postgres: Server) -> None:
    with socket.socket() as listening, ThreadPoolExecutor(1) as pool:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answered = pool.submit(answer)
        with pytest.raises(SettingError, match="is not PostgreSQL"):
            connect(f"postgresql://u:S3CRET@127.0.0.1:{listening.getsockname()[1]}/d")
        answered.result()


def test_the_url_is_in_no_text_of_the_store(place: PostgresPlace, postgres: Server) -> None:
    store = place.store()
    for thing in (store, store._session, store._session._connections, connections_to(place.url)):
        assert postgres.password not in repr(thing)


def test_a_missing_driver_is_told_with_the_command_that_installs_it(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for act in (place.store, lambda: create_schema(place.url, "s")):
        with pytest.raises(SettingError, match=r"pip install 'singerlake\[postgres\]'"):
            act()


def test_a_server_too_old_is_refused(place: PostgresPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", property(lambda _: 120022))
    with pytest.raises(SettingError, match="PostgreSQL 13"):
        connect(place.url)
