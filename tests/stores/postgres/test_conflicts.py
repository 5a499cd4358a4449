"""The PostgreSQL store against others at the same rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.errors import TooManyConflictsError
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.stores.port import Loaded
from singerlake.stores.postgres import session as postgres_session
from singerlake.stores.postgres.change import TransactionRow, delta, record_body, write_change
from singerlake.stores.postgres.read import read_head
from singerlake.stores.postgres.schema import create_schema
from tests.fakes import FakeClock
from tests.format.state.test_fold import add, new_file
from tests.processes.forked import FORKED
from tests.servers.fault_proxy.proxy import wait_until
from tests.storage.memory import MemoryStorage
from tests.stores.postgres.place import PostgresPlace, consistent, place, session
from tools.postgres import Server

__all__ = ["place"]
PROCESSES = 8
COMMITS = 20


def work(place: PostgresPlace, go: Any, name: str) -> None:
    storage = MemoryStorage(clock=FakeClock(), ids=random_id)
    place = place.but(clock=SystemClock(), storage=storage)
    base = place.store().load()
    assert base is not None
    go.wait()
    for number in range(COMMITS):
        base = place.committed(base, add(new_file(f"{name}-{number}", 2)))


@pytest.mark.thorough
def test_eight_processes_of_twenty_commits_lose_nothing_and_double_nothing(place: PostgresPlace) -> None:
    place.born()
    go = FORKED.Barrier(PROCESSES)
    # Each process publishes in a storage of its own: these writers agree in the database alone.
    told = PostgresPlace(place.url, place.schema, table_id=place.table_id, storage=None, clock=None)  # type: ignore[arg-type]
    processes = [FORKED.Process(target=work, args=(told, go, f"w{number}")) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    manifest = consistent(place)
    expected = {f"w{process}-{number}" for process in range(PROCESSES) for number in range(COMMITS)}
    assert {file.id for file in manifest.files} == expected
    assert len(manifest.files) == len(expected)
    assert manifest.transaction.number == PROCESSES * COMMITS


def test_births_at_once_are_one(place: PostgresPlace) -> None:
    place = place.but(clock=SystemClock())
    go = threading.Barrier(6)

    def birth() -> Loaded:
        go.wait()
        return place.born()

    with ThreadPoolExecutor(6) as pool:
        born = [future.result() for future in [pool.submit(birth) for _ in range(6)]]
    assert all(each == born[0] for each in born)
    assert place.state() == born[0].manifest


@dataclass
class Rival:
    """Somebody with a transaction open on the stream's rows, and what the store does meanwhile."""

    place: PostgresPlace
    connection: psycopg.Connection[Any]
    pool: ThreadPoolExecutor

    def begin(self, text: str) -> None:
        self.connection.execute("BEGIN")
        self.connection.execute(text, (self.place.table_id,))  # type: ignore[arg-type]

    def meanwhile(self, act: Callable[[], Any]) -> Future[Any]:
        """Start ``act``, and return once it waits for this transaction."""
        future = self.pool.submit(act)
        wait_until(lambda: future.done() or self.somebody_waits(), "the store to wait")
        assert not future.done()
        return future

    def somebody_waits(self) -> bool:
        pid = self.connection.info.backend_pid
        waiting = self.place.query("SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))", pid)
        return waiting != [(0,)]


@pytest.fixture
def rival(place: PostgresPlace) -> Iterator[Rival]:
    with session(place.url, place.schema) as connection, ThreadPoolExecutor(1) as pool:
        yield Rival(place.but(clock=FakeClock()), connection, pool)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The SQLSTATEs that the store saw as a reason to try again."""
    states: list[str | None] = []
    original = postgres_session.errors.is_contended

    def noting(error: psycopg.Error) -> bool:
        states.append(error.sqlstate)
        return original(error)

    monkeypatch.setattr(postgres_session.errors, "is_contended", noting)
    return states


def test_a_serialization_failure_is_tried_again_as_a_whole(rival: Rival, seen: list[str | None]) -> None:
    base = rival.place.born()
    rival.begin("UPDATE streams SET runs = runs WHERE table_id = %s")
    outcome = rival.meanwhile(lambda: rival.place.commit(base, add(new_file("a"))))
    rival.connection.execute("COMMIT")
    assert isinstance(outcome.result(), Loaded)
    assert seen == ["40001"]
    assert consistent(rival.place).transaction.number == 1


def test_a_rival_that_gives_up_costs_nothing(rival: Rival, seen: list[str | None]) -> None:
    base = rival.place.born()
    rival.begin("UPDATE streams SET runs = runs WHERE table_id = %s")
    outcome = rival.meanwhile(lambda: rival.place.commit(base, add(new_file("a"))))
    rival.connection.execute("ROLLBACK")
    assert isinstance(outcome.result(), Loaded)
    assert seen == []


def test_a_deadlock_is_tried_again_as_a_whole(rival: Rival, seen: list[str | None]) -> None:
    base = rival.place.born()
    rival.connection.execute("SET deadlock_timeout TO '1h'")
    impatient = rival.place.but(url=rival.place.url + "?options=-c%20deadlock_timeout%3D2s")
    rival.begin("INSERT INTO files (table_id, file_id, path, \"offset\") VALUES (%s, 'a', 'x', 0)")
    outcome = rival.meanwhile(lambda: impatient.commit(base, add(new_file("a"))))
    # Now each waits for the other, until the server ends the store's transaction.
    rival.connection.execute("UPDATE streams SET runs = runs WHERE table_id = %s", (rival.place.table_id,))
    rival.connection.execute("ROLLBACK")
    assert isinstance(outcome.result(), Loaded)
    assert seen[0] == "40P01"
    assert consistent(rival.place).transaction.number == 1


def test_a_lock_that_is_never_given_up_ends_in_an_error_with_nothing_done(
    rival: Rival, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, sleeps = rival.place.born(), list[float]()
    assert isinstance(rival.place.clock, FakeClock)
    rival.place.clock.on_sleep = sleeps.append
    monkeypatch.setattr(postgres_session, "_WRITE", postgres_session._WRITE.replace("'10s'", "'50ms'"))
    rival.begin("UPDATE streams SET runs = runs WHERE table_id = %s")
    with pytest.raises(TooManyConflictsError, match="held a lock too long"):
        rival.place.commit(base, add(new_file("a")))
    rival.connection.execute("ROLLBACK")
    assert len(sleeps) == postgres_session._WAITS - 1
    assert rival.place.listed() == []


def test_a_writer_that_loses_every_race_gives_up_with_nothing_committed(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = place.born()
    monkeypatch.setattr(postgres_session, "ATTEMPTS", 3)
    begin = postgres_session.Session._begin

    def late(self: postgres_session.Session, connection: Any, text: str) -> None:
        begin(self, connection, text)
        if "SERIALIZABLE" in text:
            place.change("UPDATE streams SET runs = runs WHERE table_id = %s")

    monkeypatch.setattr(postgres_session.Session, "_begin", late)
    with pytest.raises(TooManyConflictsError, match="kept changing the same rows first"):
        place.commit(base, add(new_file("a")))
    assert place.listed() == []


def test_streams_that_have_nothing_to_do_with_one_another_do_not_conflict(postgres: Server) -> None:
    schema = f"apart_{random_id()}"
    create_schema(postgres.dsn, schema)
    one, two = (PostgresPlace(postgres.dsn, schema) for _ in range(2))
    bases = {one: one.born(), two: two.born()}
    with session(postgres.dsn, schema) as first, session(postgres.dsn, schema) as second:
        # Only now the server knows how small the table is, and would rather read all of it.
        first.execute("ANALYZE streams")
        at = {one: first, two: second}
        for place, connection in at.items():
            place.store()._session._begin(connection, postgres_session._WRITE)
            assert read_head(connection, place.table_id, lock=True) is not None
        for place, connection in at.items():
            before, transaction = bases[place].manifest, place.transaction(add(new_file("a")))
            after = apply(before, transaction)
            assert isinstance(after, Manifest)
            entry = TransactionRow(transaction.id, transaction.at, "add_files", record_body(before, transaction))
            changed = delta(before, after, transaction.change)
            write_change(connection, place.table_id, before, after, changed, entry)
        for connection in at.values():
            assert connection.execute("COMMIT").statusmessage == "COMMIT"
    assert [consistent(place).transaction.number for place in at] == [1, 1]


def test_a_writer_stopped_in_the_middle_does_not_hold_up_the_others_for_good(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = place.born()
    monkeypatch.setattr(postgres_session, "_WRITE", postgres_session._WRITE.replace("'60s'", "'300ms'"))
    with session(place.url, place.schema) as connection:
        place.store()._session._begin(connection, postgres_session._WRITE)
        read_head(connection, place.table_id, lock=True)
        assert isinstance(place.commit(base, add(new_file("a"))), Loaded)
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            connection.execute("COMMIT")
    assert place.listed() == ["a"]


@pytest.mark.parametrize(("default", "during"), [("off", "on"), ("remote_apply", "remote_apply"), ("local", "local")])
def test_what_is_acknowledged_outlives_a_crash_of_the_server(place: PostgresPlace, default: str, during: str) -> None:
    with session(place.url, place.schema) as connection:
        connection.execute(f"SET synchronous_commit TO {default}")  # type: ignore[call-overload]
        place.store()._session._begin(connection, postgres_session._WRITE)
        assert connection.execute("SHOW synchronous_commit").fetchone() == (during,)
