"""The PostgreSQL store and connections that end at the worst moment: every commit is there once or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.errors import StorageUnavailableError, UnknownOutcomeError
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import Close, CollectFiles, RecordRun, RetireFiles
from singerlake.stores.port import Loaded
from singerlake.stores.postgres import session as postgres_session
from singerlake.stores.postgres.schema import create_schema
from singerlake.stores.postgres.session import WriteResult
from tests.fakes import FakeClock
from tests.format.state.test_fold import add, new_file
from tests.servers.fault_proxy.proxy import ALWAYS, FaultProxy, postgres_fault_proxy, wait_until
from tests.servers.ports.door import Door, door_to
from tests.stores.postgres.place import PostgresPlace, consistent, place, session
from tools.postgres import Server

__all__ = ["place"]


@pytest.fixture(scope="module")
def proxy_session(postgres: Server) -> Iterator[FaultProxy]:
    with postgres_fault_proxy(postgres.host, postgres.port) as proxy:
        yield proxy


@pytest.fixture
def proxy(proxy_session: FaultProxy) -> Iterator[FaultProxy]:
    proxy_session.calm()
    yield proxy_session
    proxy_session.calm()


@pytest.fixture
def by_proxy(place: PostgresPlace, proxy: FaultProxy, postgres: Server) -> PostgresPlace:
    """The stream, by a way on which anything can be lost."""
    return place.but(url=place.url.replace(f":{postgres.port}/", f":{proxy.port}/"), clock=SystemClock())


CHANGES = {
    "files": add(new_file("a")),
    "run": RecordRun(run=Run(id="r", writer="w", started="2026")),
    "end": Close(successor="log"),
}


@pytest.mark.crossed("kind", "times", "after")
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_commit_whose_reply_is_lost_is_there_exactly_once(
    by_proxy: PostgresPlace, place: PostgresPlace, proxy: FaultProxy, after: bool, times: int, kind: str
) -> None:
    base = by_proxy.born()
    fault = proxy.drop("^COMMIT", after=after, times=1 if after else times)
    outcome = by_proxy.store().commit(base, by_proxy.transaction(CHANGES[kind]))
    assert isinstance(outcome, Loaded)
    assert fault.hits == (1 if after else times)
    assert consistent(place) == outcome.manifest
    assert outcome.manifest.transaction.number == 1


def test_reads_that_are_answered_do_not_make_writes_wait_longer(
    place: PostgresPlace, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that ends at each write, and comes back."""
    clock = FakeClock()
    tables = place.but(clock=clock).store()._session
    clock.on_sleep = lambda _: tables.read(lambda connection: None)

    def lost(connection: psycopg.Connection[tuple[Any, ...]]) -> WriteResult[None]:
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return WriteResult(None)

    for _ in range(2):
        with pytest.raises(StorageUnavailableError, match="PostgreSQL failed: terminating connection"):
            tables.write(lost, lambda connection: False)
    assert 60 <= clock.seconds < 62
    assert "waiting for PostgreSQL for 2 s now, since it does not answer: PostgreSQL failed: termin" in caplog.text


def test_commits_that_are_all_lost_are_given_up_as_what_they_are(
    by_proxy: PostgresPlace, place: PostgresPlace, proxy: FaultProxy
) -> None:
    base = by_proxy.born()
    patient = by_proxy.but(clock=FakeClock())
    proxy.drop("^COMMIT", after=False, times=ALWAYS)
    with pytest.raises(StorageUnavailableError, match="it ended the connection at COMMIT"):
        patient.store().commit(base, patient.transaction(CHANGES["files"]))
    assert place.state() == base.manifest


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_birth_whose_reply_is_lost_is_one(
    by_proxy: PostgresPlace, place: PostgresPlace, proxy: FaultProxy, after: bool
) -> None:
    fault = proxy.drop("^COMMIT", after=after)
    born = by_proxy.born()
    assert fault.hits == 1
    assert place.state() == born.manifest


def test_a_step_of_collection_whose_reply_was_lost_is_taken_once(
    by_proxy: PostgresPlace, place: PostgresPlace, proxy: FaultProxy
) -> None:
    base = by_proxy.committed(by_proxy.born(), RetireFiles(files=(("o", "x/o"),)))
    fault = proxy.drop("^COMMIT", after=True)
    by_proxy.committed(base, CollectFiles(shown=("o",)))
    assert fault.hits == 1
    assert consistent(place).transaction.number == 2


def test_a_commit_that_is_still_on_its_way_is_waited_for(
    by_proxy: PostgresPlace, place: PostgresPlace, proxy: FaultProxy
) -> None:
    base = by_proxy.born()
    fault = proxy.late("^COMMIT")
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(lambda: by_proxy.store().commit(base, by_proxy.transaction(add(new_file("a")))))
        looks = proxy.watch("pg_xact_status")
        wait_until(lambda: looks.hits >= 2, "the store to ask what became of its commit")
        assert not outcome.done()
        fault.release()
        loaded = outcome.result()
    assert isinstance(loaded, Loaded)
    assert consistent(place) == loaded.manifest


def test_an_outcome_that_cannot_be_known_is_an_error_of_its_own(
    by_proxy: PostgresPlace, place: PostgresPlace, proxy: FaultProxy
) -> None:
    clock = FakeClock()
    patient = by_proxy.but(clock=clock)
    base = patient.born()
    proxy.drop("^COMMIT", after=True)
    looks = proxy.error("pg_xact_status|FROM transactions", code="57P03", times=ALWAYS)
    with pytest.raises(UnknownOutcomeError, match="is not known whether"):
        patient.store().commit(base, patient.transaction(add(new_file("a"))))
    assert looks.hits > 10
    assert clock.seconds == pytest.approx(60)
    assert place.listed() == ["a"]


def test_a_number_that_another_transaction_bears_after_a_failover_proves_nothing(
    by_proxy: PostgresPlace, place: PostgresPlace, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    (committed,) = place.query("SELECT xmin::text FROM schema_version")[0]
    original = postgres_session.Session._took_effect
    monkeypatch.setattr(
        postgres_session.Session, "_took_effect", lambda self, xid, proof: original(self, committed, proof)
    )
    patient = by_proxy.but(clock=FakeClock())
    base = patient.born()
    proxy.drop("^COMMIT", after=False)
    with pytest.raises(UnknownOutcomeError):
        patient.store().commit(base, patient.transaction(add(new_file("a"))))
    assert place.listed() == []


@pytest.mark.parametrize("statement", ["^BEGIN", "FOR UPDATE", "INSERT INTO transactions"])
def test_a_connection_lost_before_the_commit_is_replaced(
    by_proxy: PostgresPlace, place: PostgresPlace, proxy: FaultProxy, statement: str
) -> None:
    base = by_proxy.born()
    fault = proxy.drop(statement, after=True)
    assert isinstance(by_proxy.store().commit(base, by_proxy.transaction(add(new_file("a")))), Loaded)
    assert fault.hits == 1
    assert consistent(place).transaction.number == 1


def test_a_server_that_keeps_hanging_up_is_said_to_be_unavailable(
    by_proxy: PostgresPlace, place: PostgresPlace, proxy: FaultProxy
) -> None:
    patient = by_proxy.but(clock=FakeClock())
    base = patient.born()
    proxy.drop("FOR UPDATE", after=True, times=ALWAYS)
    with pytest.raises(StorageUnavailableError, match="connection was lost"):
        patient.store().commit(base, patient.transaction(add(new_file("a"))))
    assert place.listed() == []


@pytest.fixture
def door(postgres: Server) -> Iterator[Door]:
    with door_to(f"postgresql://{postgres.host}:{postgres.port}") as door:
        yield door


def test_a_server_that_restarts_is_waited_for(place: PostgresPlace, postgres: Server, door: Door) -> None:
    clock = FakeClock()
    patient = place.but(url=place.url.replace(f":{postgres.port}/", f":{door.port}/"), clock=clock)
    door.open()
    base, store = patient.born(), patient.store()
    door.shut()
    clock.on_sleep = lambda _: door.open() if clock.seconds >= 40 else None
    assert isinstance(store.commit(base, patient.transaction(add(new_file("a")))), Loaded)
    assert 40 <= clock.seconds < 50
    clock.on_sleep = lambda _: None
    door.shut()
    with pytest.raises(
        StorageUnavailableError, match=r"answered before.*patience_seconds.*waited_seconds=60"
    ) as raised:
        store.load()
    assert postgres.password not in str(raised.value)
    before = clock.seconds
    with pytest.raises(StorageUnavailableError):
        store.load()
    assert clock.seconds - before < 1


@pytest.mark.usefixtures("first_contact")
def test_a_server_that_never_answered_is_given_up_sooner(postgres: Server, door: Door) -> None:
    clock = FakeClock()
    url = postgres.dsn.replace(f":{postgres.port}/", f":{door.port}/")
    with pytest.raises(StorageUnavailableError, match=r"no connection.*check that it runs.*waited_seconds=15"):
        PostgresPlace(url, "s", clock=clock).store().load()
    assert 15 <= clock.seconds < 16


def test_sessions_that_the_server_ended_while_they_were_idle_are_replaced(place: PostgresPlace) -> None:
    base = place.born()
    place.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'singerlake' AND pid <> pg_backend_pid()"
    )
    assert isinstance(place.commit(base, add(new_file(random_id()))), Loaded)


WAIT_AT_COMMIT = """
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON transactions DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.number = 1) EXECUTE FUNCTION wait();
"""


def test_a_session_that_the_server_ends_during_its_commit_is_looked_up(postgres: Server) -> None:
    schema = f"ended_{random_id()}"
    create_schema(postgres.dsn, schema)
    place = PostgresPlace(postgres.dsn, schema, clock=SystemClock())
    base = place.born()
    with session(postgres.dsn, schema) as connection, ThreadPoolExecutor(1) as pool:
        connection.execute(WAIT_AT_COMMIT)
        connection.execute("SELECT pg_advisory_lock(7)")
        outcome = pool.submit(place.commit, base, add(new_file("a")))
        waiting = "SELECT pid FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        wait_until(lambda: connection.execute(waiting).fetchone() is not None, "the commit to wait")
        connection.execute("SELECT pg_terminate_backend(pid) FROM (" + waiting + ") AS waiting")
        connection.execute("SELECT pg_advisory_unlock(7)")
        loaded = outcome.result()
    assert isinstance(loaded, Loaded)
    assert consistent(place) == loaded.manifest
    assert loaded.manifest.transaction.number == 1
