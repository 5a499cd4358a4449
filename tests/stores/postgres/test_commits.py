"""Atomic runs in PostgreSQL: one transaction over the rows of all streams, and the decision among them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import msgspec
import pytest

from singerlake.clock import SystemClock
from singerlake.errors import CorruptObjectError, SettingError, UnknownOutcomeError, UnsupportedFormatError
from singerlake.format.decision import Decision
from singerlake.stores.atomic.commit_run import AtomicRun, commit_run
from singerlake.stores.port import Loaded
from singerlake.stores.postgres import schema as postgres_schema
from singerlake.stores.postgres.schema import SchemaState, create_schema
from tests.format.state.test_fold import add, new_file
from tests.servers.fault_proxy.proxy import ALWAYS, FaultProxy, postgres_fault_proxy, wait_until
from tests.stores.atomic.runs import Runs, files
from tests.stores.postgres.place import PostgresPlace, consistent, place, session
from tests.stores.postgres.test_schema import empty
from tests.stores.stores import Place, make_place
from tools.postgres import Server

__all__ = ["empty", "place"]


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> Runs:
    return Runs(make_place("postgres", request))


@pytest.fixture(scope="module")
def proxy_session(postgres: Server) -> Iterator[FaultProxy]:
    with postgres_fault_proxy(postgres.host, postgres.port) as proxy:
        yield proxy


@pytest.fixture
def by_proxy(runs: Runs, proxy_session: FaultProxy, postgres: Server) -> Iterator[tuple[Runs, FaultProxy]]:
    """Runs by a way on which anything can be lost, at the lake of ``runs``."""
    proxy_session.calm()
    url = (runs.place.settings.postgres_url or "").replace(f":{postgres.port}/", f":{proxy_session.port}/")
    there = runs.place
    away = Place("postgres", settings=replace(there.settings, postgres_url=url), clock=there.clock, ids=there.ids)
    away.storage = there.storage
    away.lake = away.opened()
    yield Runs(away), proxy_session
    proxy_session.calm()


def rows(runs: Runs, text: str) -> list[tuple[object, ...]]:
    url, schema = runs.place.settings.postgres_url or "", runs.place.settings.postgres_schema
    with session(url, schema) as connection:
        return connection.execute(text, (runs.place.lake.lake_id() + "/t",)).fetchall()  # type: ignore[arg-type]


def test_a_run_is_rows_of_its_streams_and_one_of_its_decision(runs: Runs) -> None:
    states = runs.run({"a": files("a1"), "b": files("b1")})
    ((name, body),) = rows(runs, "SELECT name, body FROM commits WHERE tap_id = %s")
    assert isinstance(body, str)
    assert msgspec.json.decode(body, type=Decision) == runs.decisions.get(str(name))
    assert rows(runs, "SELECT settled FROM streams WHERE table_id LIKE %s || '/%%'") == [(name,)] * 2
    kinds = rows(runs, "SELECT kind FROM transactions WHERE table_id LIKE %s || '/%%' AND number = 1")
    assert kinds == [("commit_files",)] * 2
    assert {state.settled for state in states.values()} == {name}


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_run_whose_reply_is_lost_is_there_exactly_once(by_proxy: tuple[Runs, FaultProxy], after: bool) -> None:
    runs, proxy = by_proxy
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]
    for part in parts:
        part.writer.open()
    fault = proxy.drop("^COMMIT", after=after)
    runs.commit(parts)
    assert fault.hits == 1
    assert [runs.place.listed(stream) for stream in ("a", "b")] == [["a1"], ["b1"]]
    assert len(rows(runs, "SELECT FROM commits WHERE tap_id = %s")) == 1
    assert runs.decisions.listed().names == tuple(runs.decisions.listed().shown)
    assert runs.viewed() == {"a": 3, "b": 3}


def test_a_run_of_which_it_cannot_be_known_is_an_error_of_its_own_and_is_shown_by_the_next_one(
    by_proxy: tuple[Runs, FaultProxy],
) -> None:
    runs, proxy = by_proxy
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("a", "b")]
    for part in parts:
        part.writer.open()
    proxy.drop("^COMMIT", after=True)
    looks = proxy.error("pg_xact_status|FROM commits", code="57P03", times=ALWAYS)
    with pytest.raises(UnknownOutcomeError, match="is not known whether"):
        runs.commit(parts)
    assert looks.hits > 10
    proxy.calm()
    assert runs.viewed() == {"a": 0, "b": 0}
    runs.append("b", new_file("b2"))
    assert runs.viewed() == {"a": 3, "b": 6}


def test_runs_lock_their_streams_in_one_order_so_that_none_waits_for_one_that_waits_for_it(runs: Runs) -> None:
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in ("b", "a")]
    for part in parts:
        part.writer.open()
    run = AtomicRun(parts, runs.decisions, run_id="w", writer_id="w", clock=runs.place.clock, ids=runs.place.ids)
    object.__setattr__(run, "shares", parts)
    lock = "SELECT FROM streams WHERE table_id = %s FOR UPDATE NOWAIT"
    tap_id = runs.place.lake.lake_id() + "/t/"
    url, schema = runs.place.settings.postgres_url or "", runs.place.settings.postgres_schema
    with session(url, schema) as rival, ThreadPoolExecutor(1) as pool:
        waits = f"SELECT FROM pg_stat_activity WHERE {rival.info.backend_pid} = ANY(pg_blocking_pids(pid))"
        rival.execute("BEGIN")
        rival.execute(lock, (tap_id + "a",))
        outcome = pool.submit(commit_run, run)
        with session(url, schema) as looks:
            wait_until(lambda: outcome.done() or bool(looks.execute(waits).fetchall()), "the run to wait")
            assert not outcome.done()
            assert len(looks.execute(lock, (tap_id + "b",)).fetchall()) == 1
        rival.execute("ROLLBACK")
        assert set(outcome.result()) == {"a", "b"}


@pytest.mark.thorough
def test_runs_of_several_threads_over_the_same_streams_are_all_there(runs: Runs) -> None:
    go, errors = threading.Barrier(4), list[BaseException]()

    def work(name: str, order: tuple[str, ...]) -> None:
        own = Place("postgres", settings=runs.place.settings, ids=runs.place.ids)
        own.storage, own.clock = runs.place.storage, SystemClock()  # type: ignore[assignment]
        own.lake = own.opened()
        mine = Runs(own)
        try:
            for number in range(10):
                parts = [mine.part(stream, *files(f"{stream}-{name}-{number}"), name=name) for stream in order]
                go.wait()
                mine.commit(parts, name)
        except BaseException as error:
            go.abort()
            errors.append(error)

    orders = [("a", "b", "c"), ("c", "b", "a"), ("b", "a"), ("c", "a")]
    threads = [threading.Thread(target=work, args=(f"w{each}", order)) for each, order in enumerate(orders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for stream in ("a", "b", "c"):
        wanted = {f"{stream}-w{each}-{n}" for each, order in enumerate(orders) if stream in order for n in range(10)}
        listed = runs.place.listed(stream)
        assert set(listed) == wanted
        assert len(listed) == len(wanted)
    assert len(runs.decisions.listed().names) == 40
    assert runs.viewed() == {stream: runs.place.state(stream).next_offset for stream in ("a", "b", "c")}


def test_tables_of_version_1_get_what_atomic_runs_need_and_keep_what_they_have(
    empty: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as old:
        old.setattr(postgres_schema, "MIGRATIONS", postgres_schema.MIGRATIONS[:1])
        create_schema(empty.url, empty.schema)
    empty.change(
        "INSERT INTO streams VALUES (%s, 0, 'birth', 1, '\"t\"', '\"s\"', 'l', '2026-01-01T00:00:00Z', 0, '{}', '{}', "
        "'[]', NULL)"
    )
    for act in (lambda: empty.store().load(), lambda: empty.store().trim(keep=0)):
        with pytest.raises(SettingError, match=r"version 1, this version needs 2.*store create"):
            act()
    assert create_schema(empty.url, empty.schema) == SchemaState(before=1, after=len(postgres_schema.MIGRATIONS))
    loaded = empty.store().load()
    assert loaded is not None
    assert loaded.manifest.settled is msgspec.UNSET
    assert isinstance(empty.commit(loaded, add(new_file("a"))), Loaded)
    assert consistent(empty).settled is msgspec.UNSET


@pytest.mark.parametrize("body", ["{}", "[", '{"format": 2}'])
def test_a_decision_that_cannot_be_believed_stops_who_needs_it(runs: Runs, body: str) -> None:
    state = runs.run({"a": files("a1")})["a"]
    assert isinstance(state.settled, str)
    for key in [entry.key for entry in runs.place.storage.list("raw/t/_commits/")]:
        runs.place.storage.delete(key)
    url, schema = runs.place.settings.postgres_url or "", runs.place.settings.postgres_schema
    with session(url, schema) as connection:
        connection.execute("UPDATE commits SET body = %s WHERE name = %s", (body, state.settled))
    with pytest.raises((CorruptObjectError, UnsupportedFormatError), match="commits/"):
        runs.append("a", new_file("a2"))
    assert runs.place.listed("a") == ["a1"]


def test_a_row_that_does_not_know_the_last_commit_stops_a_commit(runs: Runs) -> None:
    base = runs.place.store("a")
    runs.run({"a": files("a1")})
    loaded = base.load()
    assert loaded is not None
    url, schema = runs.place.settings.postgres_url or "", runs.place.settings.postgres_schema
    with session(url, schema) as connection:
        table_id = f"{runs.place.lake.lake_id()}/t/a"
        connection.execute("UPDATE streams SET settled = NULL WHERE table_id = %s", (table_id,))
    with pytest.raises(CorruptObjectError, match="does not fit transaction"):
        runs.place.commit(loaded, add(new_file("a2")), "a")
