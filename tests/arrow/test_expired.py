"""``to_arrow`` of a stream whose first messages expired."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.errors import ExpiredMessagesError, MissingFileError, SettingError
from singerlake.lake import Lake
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.gc.expire import Cut, expire_messages
from tests.lakes import build_stream
from tests.tables.tables import memory_lake

TAP, STREAM = "t", "s"
V1 = {"type": "object", "properties": {"id": {"type": "integer"}}}
V2 = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}


@pytest.fixture
def lake() -> Lake:
    """Ids 0 to 9 as v1 and 10 to 19 as v2, five a file."""
    lake = memory_lake()
    for schema, numbers in ((V1, range(10)), (V2, range(10, 20))):
        build_stream(lake, TAP, STREAM, schema, [{"id": n} for n in numbers], file_size=5, member_size=2)
    return lake


def expire(lake: Lake, before: int, *, now: bool = False) -> None:
    context = StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, lake.stream(TAP, STREAM).store())
    done = expire_messages(context, Cut(before=before), dry_run=False)
    if now:
        collect_now(context, frozenset(done.ids))


def read(lake: Lake, **options: Any) -> list[int]:
    return lake.stream(TAP, STREAM).to_arrow(**options).read_all()["id"].to_pylist()


def test_what_is_left_is_read_with_its_offsets(lake: Lake) -> None:
    expire(lake, 7)
    found = lake.stream(TAP, STREAM).to_arrow(metadata=True).read_all()
    assert found["id"].to_pylist() == found["_singerlake_offset"].to_pylist() == list(range(5, 20))
    assert read(lake, from_version="v1") == list(range(5, 20))
    assert read(lake, from_offset=6, to_offset=12) == list(range(6, 12))
    assert read(lake, versions=["v1"]) == list(range(5, 10))


def test_the_columns_of_a_version_without_files_are_its_own(lake: Lake) -> None:
    expire(lake, 10)
    assert read(lake, from_version="v1") == list(range(10, 20))
    assert lake.stream(TAP, STREAM).to_arrow(versions=["v1"]).read_all().num_rows == 0
    expire(lake, 20)
    empty = lake.stream(TAP, STREAM).to_arrow()
    assert {"id", "name"} <= set(empty.schema.names)
    assert empty.read_all().num_rows == 0


def test_an_offset_below_the_floor_is_an_error_unless_it_may_be_skipped(lake: Lake) -> None:
    expire(lake, 10)
    for options in ({"from_offset": 0}, {"from_offset": 9}, {"to_offset": 10}):
        with pytest.raises(ExpiredMessagesError, match="expired before they were read; set skip_expired"):
            read(lake, **options)
    assert read(lake, from_offset=0, skip_expired=True) == list(range(10, 20))
    assert read(lake, to_offset=10, skip_expired=True) == []


@pytest.mark.parametrize("given", ["true", 1, None])
def test_skip_expired_is_true_or_false(lake: Lake, given: Any) -> None:
    with pytest.raises(SettingError, match="skip_expired is neither True nor False"):
        read(lake, skip_expired=given)


def test_a_reader_that_is_at_work_reads_on_until_the_files_are_gone(lake: Lake) -> None:
    begun = lake.stream(TAP, STREAM).to_arrow()
    expire(lake, 10)
    assert begun.read_all()["id"].to_pylist() == list(range(20))
    again = lake.stream(TAP, STREAM).to_arrow()
    expire(lake, 15, now=True)
    with pytest.raises(MissingFileError):
        again.read_all()
    assert read(lake) == list(range(15, 20))
