"""The PostgreSQL store behind PgBouncer, which gives its connections to a session, a transaction or a statement."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from singerlake.clock import SystemClock
from singerlake.errors import SettingError
from singerlake.stores.postgres.schema import create_schema
from singerlake.stores.postgres.session import WriteResult
from tests.fakes import FakeClock
from tests.format.state.test_fold import add, new_file
from tests.servers.pgbouncer import pooled
from tests.stores.postgres.place import PostgresPlace, consistent, place
from tools.postgres import Server

__all__ = ["place"]
WRITERS = 8
COMMITS = 24
STATEMENT = "statement pooling mode.*set pool_mode to transaction or session"


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_writers_behind_a_pooler_commit_as_they_do_without(
    place: PostgresPlace, postgres: Server, tmp_path: Path, mode: str
) -> None:
    with pooled(postgres, mode, tmp_path) as url:
        create_schema(url, place.schema)
        pooled_place = place.but(url=url, clock=SystemClock())
        base = pooled_place.born()
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(lambda number: pooled_place.committed(base, add(new_file(f"{number:02}"))), range(COMMITS)))
        pooled_place.store().trim(keep=0, dry_run=False)
        manifest = pooled_place.state()
        pooled_place.store().close()
    assert consistent(place) == manifest
    assert sorted(file.id for file in manifest.files) == [f"{number:02}" for number in range(COMMITS)]


@pytest.mark.thorough
def test_statement_pooling_is_an_error_of_the_setting_at_once(
    place: PostgresPlace, postgres: Server, tmp_path: Path
) -> None:
    base, clock = place.born(), FakeClock()
    with pooled(postgres, "statement", tmp_path) as url:
        pooled_place = place.but(url=url, clock=clock)
        for act in (
            pooled_place.store().load,
            lambda: pooled_place.commit(base, add(new_file("a"))),
            lambda: create_schema(url, place.schema),
        ):
            with pytest.raises(SettingError, match=STATEMENT):
                act()
    assert clock.seconds == 0
    assert place.listed() == []


def test_what_a_pooler_says_of_statement_pooling_is_not_waited_for(place: PostgresPlace) -> None:
    clock = FakeClock()
    tables = place.but(clock=clock).store()._session

    def refused(connection: object) -> WriteResult[None]:
        raise psycopg.errors.ProtocolViolation("transaction blocks not allowed in statement pooling mode")

    for act in (lambda: tables.read(refused), lambda: tables.write(refused, lambda connection: False)):
        with pytest.raises(SettingError, match=STATEMENT):
            act()
    assert clock.seconds == 0
