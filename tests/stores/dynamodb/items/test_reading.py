"""Readers ask for the entries they need, and read segments for whatever the table does not give as it should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from singerlake.errors import AccessDeniedError, SettingError
from singerlake.follow.state import FollowedState
from singerlake.format.exact_json import encode
from tests.format.state.test_fold import add, data_file, new_file
from tests.servers.dynamodb import DynamoServer
from tests.servers.s3 import ALWAYS
from tests.stores.dynamodb.items.places import (
    SegmentsRead,
    Table,
    filled,
    ids_of,
    named,
    operations,
    store_of,
    without_items,
)
from tests.stores.stores import Place

MANY = 8


def test_a_reader_sees_what_the_table_has_after_what_is_published(place: Place) -> None:
    base = filled(place, MANY)
    place.committed(base, add(new_file("new")))
    assert ids_of(place.lake.stream("t", "s").snapshot().files)[-1] == "new"
    assert "new" not in ids_of(without_items(place).lake.stream("t", "s").snapshot().files)


def test_a_table_that_lost_the_newest_transactions_takes_nothing_from_a_reader(
    place: Place, server: DynamoServer
) -> None:
    base = filled(place, MANY)
    base = filled(place, 1, base)
    table = Table(server, place)
    key = {"table_id": {"S": table.registry.removesuffix("#files")}}
    table.delete({**key, "number": {"N": str(base.manifest.transaction.number)}})
    assert len(place.listed()) == MANY
    assert len(place.lake.stream("t", "s").snapshot().files) == MANY + 1
    assert len(FollowedState(place.lake.stream("t", "s")).newest().files) == MANY + 1


def test_one_who_follows_sees_it_too(place: Place) -> None:
    base = filled(place, MANY)
    followed = FollowedState(place.lake.stream("t", "s"))
    assert len(followed.newest().files) == MANY
    place.committed(base, add(new_file("new")))
    assert ids_of(followed.newest().files)[-1] == "new"


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 1), (1, 5), (4, 9), (5, None), (10, 12), (17, None), (0, None), (7, 7)]
)
def test_a_part_is_the_same_as_of_the_segments(place: Place, start: int, stop: int | None) -> None:
    loaded = filled(place, MANY)
    state = place.lake.stream("t", "s").snapshot()
    assert state.files.segments
    assert list(state.files_from(start, stop)) == [
        file for file in loaded.manifest.files if file.end > start and (stop is None or file.offset < stop)
    ]


def test_the_end_of_a_long_stream_takes_a_handful_of_requests_and_no_segment(
    place: Place, server: DynamoServer
) -> None:
    loaded = filled(place, 60)
    last = loaded.manifest.next_offset
    read = SegmentsRead(place)
    server.requests()
    state = place.lake.stream("t", "s").snapshot()
    assert len(state.files.segments) >= 19
    opened = operations(server)
    found = state.files_from(last - 10)
    assert ids_of(list(found)) == ids_of([file for file in loaded.manifest.files if file.end > last - 10])
    asked = operations(server)
    assert read.keys == []
    assert len(opened) <= 6, opened
    assert set(asked) == {"Query"}
    assert len(asked) <= 4


def test_many_segments_are_read_from_storage(place: Place, server: DynamoServer) -> None:
    filled(place, 24)
    state = place.lake.stream("t", "s").snapshot()
    read = SegmentsRead(place)
    server.requests()
    assert len(list(state.files)) == 24
    assert len(read.keys) == len(state.files.segments)
    assert operations(server) == []


def test_a_check_looks_at_the_segments_themselves(place: Place) -> None:
    filled(place, MANY)
    state = place.lake.stream("t", "s").snapshot()
    read = SegmentsRead(place)
    state.files.check()
    assert len(read.keys) == len(state.files.segments)


Damage = Callable[[Table, list[dict[str, Any]]], None]


def _deleted(at: int) -> Damage:
    return lambda table, rows: table.delete(rows[at])


def _replaced(place: int, **attributes: dict[str, str] | None) -> Damage:
    def put(table: Table, rows: list[dict[str, Any]]) -> None:
        row = {**rows[place], **attributes}
        table.put({name: value for name, value in row.items() if value is not None})

    return put


def _longer(table: Table, rows: list[dict[str, Any]]) -> None:
    offset = int(rows[-1]["number"]["N"])
    table.put({**rows[-1], "body": {"S": encode(data_file("x", 9, offset)).decode()}})


DAMAGES: dict[str, Damage] = {
    "the first is gone": _deleted(0),
    "one in the midst is gone": _deleted(1),
    "the last is gone": _deleted(-1),
    "a body is gone": _replaced(1, body=None),
    "a place is gone": _replaced(1, at=None),
    "a body is no JSON": _replaced(1, body={"S": "{"}),
    "a body is no text": _replaced(1, body={"N": "7"}),
    "a body is of another file": _replaced(1, body={"S": encode(data_file("x", 3, 0)).decode()}),
    "a place is another": _replaced(1, at={"N": "7"}),
    "a foreign one is between": lambda table, rows: table.put(
        {**rows[1], "number": {"N": str(int(rows[1]["number"]["N"]) + 1)}}
    ),
    "the last is longer": _longer,
    "all are gone": lambda table, rows: [table.delete(row) for row in rows] and None,
}


@pytest.mark.sampled(damage=4)
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_does_not_fit_is_read_from_the_segment(place: Place, server: DynamoServer, damage: str) -> None:
    loaded = filled(place, MANY)
    table, segment = Table(server, place), named(place)[0]
    assert segment.files == 3
    DAMAGES[damage](table, table.rows(segment.name))
    state, files = place.lake.stream("t", "s").snapshot(), list(loaded.manifest.files)
    for start in (0, 2, 4, 8):
        for stop in (start + 1, 7, segment.end, None):
            expected = [file for file in files if file.end > start and (stop is None or file.offset < stop)]
            assert list(state.files_from(start, stop)) == expected, (start, stop)
    assert list(state.files) == files
    assert state.files[1] == files[1]


def test_a_whole_segment_is_taken_by_its_checksum(place: Place, server: DynamoServer) -> None:
    loaded = filled(place, MANY)
    table, segment = Table(server, place), named(place)[0]
    row = table.rows(segment.name)[1]
    # Fits in every other way.
    table.put({**row, "body": {"S": row["body"]["S"].replace("f001", "f999")}})
    state = place.lake.stream("t", "s").snapshot()
    assert state.files[1] == loaded.manifest.files[1]


@pytest.mark.parametrize("code", ["AccessDeniedException", "ProvisionedThroughputExceededException", "500 Internal"])
def test_a_table_that_fails_is_no_obstacle_once_the_state_is_there(
    place: Place, server: DynamoServer, code: str
) -> None:
    loaded = filled(place, MANY)
    state = place.lake.stream("t", "s").snapshot()
    server.fail("Query", code=code, times=ALWAYS)
    assert list(state.files_from(4, 9)) == list(loaded.manifest.files_from(4, 9))
    assert list(state.files) == list(loaded.manifest.files)


def test_a_reader_that_may_not_is_told_which_setting_asks_for_it(place: Place, server: DynamoServer) -> None:
    filled(place, MANY)
    server.fail("GetItem,Query", code="AccessDeniedException", times=ALWAYS, message="not authorized: dynamodb:GetItem")
    with pytest.raises(AccessDeniedError, match=r"or set dynamodb_query_items to false.*dynamodb:GetItem"):
        place.lake.stream("t", "s").snapshot()
    assert without_items(place).lake.stream("t", "s").snapshot().files


def test_a_reader_with_the_name_of_no_table_is_told_so(place: Place, server: DynamoServer) -> None:
    filled(place, MANY)
    server.fail("GetItem,Query", code="ResourceNotFoundException", times=ALWAYS)
    with pytest.raises(SettingError, match=r"check dynamodb_table.*or set dynamodb_query_items to false"):
        place.lake.stream("t", "s").snapshot()


def test_writers_ask_for_entries_too(place: Place) -> None:
    filled(place, 24)
    read = SegmentsRead(place)
    loaded = store_of(place).load()
    assert loaded is not None
    assert loaded.manifest.files[4].id == "f004"
    assert read.keys == []
