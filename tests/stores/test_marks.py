"""Marks of tables in both databases: one text a table, replaced on the condition that it is still what it was."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from singerlake.adapters import open_marks
from singerlake.clock import SystemClock, random_id
from singerlake.errors import CorruptObjectError, SettingError
from singerlake.settings import StoreSettings
from singerlake.stores.dynamodb.client import key_of
from singerlake.stores.postgres.schema import create_schema
from singerlake.tables.state.arbitrated import TableMarks
from tests.servers.dynamodb import DynamoServer

LAKE = "lake"
Open = Callable[[str], TableMarks]


def in_dynamodb(place: tuple[DynamoServer, str]) -> Open:
    server, table = place
    settings = StoreSettings(dynamodb_table=table, dynamodb_endpoint_url=server.endpoint_url)
    return lambda lake: open_marks(
        "dynamodb", settings=settings, s3=server.settings(), lake_id=lake, clock=SystemClock()
    )


def in_postgres(place: tuple[str, str]) -> Open:
    settings = StoreSettings(postgres_url=place[0], postgres_schema=place[1])
    return lambda lake: open_marks("postgres", settings=settings, s3=None, lake_id=lake, clock=SystemClock())


@pytest.fixture(params=["dynamodb", "postgres", pytest.param("dynamodb_local", marks=pytest.mark.thorough)])
def database(request: pytest.FixtureRequest) -> Open:
    """Opens the marks of a lake in a database."""
    if request.param == "postgres":
        return in_postgres(request.getfixturevalue("postgres_schema"))
    return in_dynamodb(request.getfixturevalue(f"{request.param}_table"))


def test_a_mark_is_replaced_where_it_is_what_was_read(database: Open) -> None:
    marks, others = database(random_id()), database(random_id())
    assert marks.read("t") is None
    assert not marks.swap("t", "a", "b")
    assert marks.swap("t", None, "a")
    assert not marks.swap("t", None, "b")
    assert not marks.swap("t", "b", "c")
    assert marks.read("t") == "a"
    assert marks.swap("t", "a", "b")
    assert (marks.read("t"), marks.read("T"), others.read("t")) == ("b", None, None)


def test_a_table_may_have_any_name(database: Open) -> None:
    marks = database(random_id())
    names = ["a/b", "a%2Fb", "ä", "#commit/x", " ", "a" * 180]
    for name in names:
        assert marks.swap(name, None, f"of{names.index(name)}")
    assert [marks.read(name) for name in names] == [f"of{at}" for at in range(len(names))]


@pytest.mark.thorough
@pytest.mark.parametrize("database", ["dynamodb_local", "postgres"], indirect=True)
def test_of_those_that_replace_a_mark_at_once_one_does(database: Open) -> None:
    lake = random_id()

    def climb(_: int) -> list[int]:
        """The numbers that this one was the first to put there."""
        marks, won = database(lake), []
        while (number := int(((mark := marks.read("t")) or "0").partition("-")[0])) < 50:
            if marks.swap("t", mark, f"{number + 1}-{random_id()}"):
                won.append(number + 1)
        return won

    with ThreadPoolExecutor(8) as pool:
        won = [number for each in pool.map(climb, range(8)) for number in each]
    assert sorted(won) == list(range(1, 51))


@pytest.mark.parametrize("fault", ["drop_reply", "drop_request"])
@pytest.mark.parametrize("before", [None, "a"])
def test_a_lost_reply_of_dynamodb_is_looked_up(
    dynamodb_table: tuple[DynamoServer, str], fault: str, before: str | None
) -> None:
    server, _ = dynamodb_table
    marks = in_dynamodb(dynamodb_table)(random_id())
    if before is not None:
        assert marks.swap("t", None, before)
    getattr(server, fault)("TransactWriteItems")
    assert marks.swap("t", before, "b")
    assert marks.read("t") == "b"


def test_a_mark_that_no_singerlake_wrote_is_refused(dynamodb_table: tuple[DynamoServer, str]) -> None:
    server, table = dynamodb_table
    lake = random_id()
    server.client().put_item(TableName=table, Item=key_of(f"{lake}#table/t", 0))
    with pytest.raises(CorruptObjectError, match="restore it"):
        in_dynamodb(dynamodb_table)(lake).read("t")


def test_a_schema_of_an_earlier_release_gets_its_marks_by_store_create(postgres_schema: tuple[str, str]) -> None:
    url, name = postgres_schema[0], f"earlier_{random_id()}"
    create_schema(url, name)
    with psycopg.connect(url) as connection:
        connection.execute(f"DROP TABLE {name}.table_marks")  # type: ignore[call-overload]
    marks = in_postgres((url, name))(random_id())
    with pytest.raises(SettingError, match="singerlake store create"):
        marks.read("t")
    assert create_schema(url, name).before == 2
    assert marks.swap("t", None, "a")
