"""Several DataFrames as one view of their streams, and batches as of a commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from singerlake.errors import LineageChangedError, SettingError, UnknownNameError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.spark import read_streams
from singerlake.spark.lake import in_one_view
from singerlake.spark.options import ReadOptions, read_options
from singerlake.spark.source import SingerlakeDataSource
from singerlake.spark.stream.reader import SingerlakeStreamReader
from singerlake.stream import LakeStream
from singerlake.upkeep.drop import drop_stream
from tests.atomic.lakes import SCHEMA, commit_together, decide_on, numbers
from tests.everywhere.erasing import context_of, vacuum
from tests.lakes import FilesOf, build_stream

TAP = "tap-a"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"))


@pytest.fixture
def runs(lake: Lake) -> list[str]:
    """The commits of two runs over ``items`` and ``orders``; ``late`` comes with the second one."""
    files = FilesOf(SCHEMA, member_size=2)
    return [
        commit_together(lake, TAP, {"orders": numbers(0, 5), "items": numbers(0, 3)}, files=files),
        commit_together(lake, TAP, {"orders": numbers(5, 9), "late": numbers(0, 1)}, files=files),
    ]


def ids(found: dict[str, DataFrame]) -> dict[str, list[int]]:
    return {name: sorted(row.id for row in each.select("id").collect()) for name, each in found.items()}


def options_of(lake: Lake, stream: str, **more: str) -> dict[str, str]:
    return {"path": lake.storage.url, "tap": TAP, "stream": stream, **more}


def viewed(lake: Lake, **given: dict[str, str]) -> dict[str, dict[str, str]]:
    """What a view adds to the options of each stream."""
    each = {name: options_of(lake, name, **more) for name, more in given.items()}
    wanted: ReadOptions = read_options(next(iter(each.values())))
    made = in_one_view(wanted, each)
    return {
        name: {key: value for key, value in found.items() if each[name].get(key) != value}
        for name, found in made.items()
    }


def during(monkeypatch: pytest.MonkeyPatch, lake: Lake, stream: str) -> None:
    """Have a run commit to ``orders`` and ``items`` once, before the state of ``stream`` is loaded."""
    snapshot, left = LakeStream.snapshot, [True]

    def after_commit(self: LakeStream) -> Any:
        if self.name == stream and left:
            left.pop()
            commit_together(lake, TAP, {"orders": numbers(9, 11), "items": numbers(3, 7)})
        return snapshot(self)

    monkeypatch.setattr(LakeStream, "snapshot", after_commit)


@pytest.mark.parametrize("between", ["items", "orders"])
def test_each_stream_ends_where_the_view_does_and_of_its_lineage(
    lake: Lake, runs: list[str], monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    lineages = {name: str(lake.stream(TAP, name).snapshot().lineage) for name in ("items", "orders")}
    during(monkeypatch, lake, between)
    assert viewed(lake, items={}, orders={}) == {
        "items": {"to_offset": "3", "lineage": lineages["items"]},
        "orders": {"to_offset": "9", "lineage": lineages["orders"]},
    }


def test_what_says_where_to_end_is_left_as_it_is(lake: Lake, runs: list[str]) -> None:
    added = viewed(lake, items={"TO_OFFSET": "1"}, late={"As_Of": runs[0]}, orders={"lineage": "x"})
    assert added == {"items": {}, "late": {}, "orders": {"to_offset": "9"}}


def test_an_offset_behind_the_end_of_the_view_gives_nothing_and_no_error(
    lake: Lake, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    during(monkeypatch, lake, "items")
    assert viewed(lake, items={}, orders={"from_offset": "10"})["orders"]["to_offset"] == "10"


def test_a_stream_of_which_all_expired_is_empty_as_it_is_without_a_view(lake: Lake, runs: list[str]) -> None:
    from singerlake.upkeep.gc.expire import Cut, expire_messages

    expire_messages(context_of(lake, TAP, "items"), Cut(before=3), dry_run=False)
    assert viewed(lake, items={}, orders={})["items"]["skip_expired"] == "true"
    assert "skip_expired" not in viewed(lake, items={"from_offset": "0"}, orders={})["items"]


@pytest.mark.parametrize("given", [{"items": {}}, {"items": {"to_offset": "1"}, "orders": {"to_offset": "1"}}])
def test_where_no_view_is_to_be_had_the_lake_is_not_asked(
    lake: Lake, runs: list[str], monkeypatch: pytest.MonkeyPatch, given: dict[str, dict[str, str]]
) -> None:
    monkeypatch.setattr(Lake, "open", None)
    assert viewed(lake, **given) == {name: {} for name in given}


def test_a_tap_without_atomic_runs_keeps_its_options(lake: Lake) -> None:
    for name in ("items", "orders"):
        build_stream(lake, TAP, name, SCHEMA, numbers(0, 3))
    assert viewed(lake, items={}, orders={}) == {"items": {}, "orders": {}}


def test_a_stream_that_is_not_there_is_left_for_the_load_to_refuse(lake: Lake, runs: list[str]) -> None:
    assert viewed(lake, nope={}, orders={})["nope"] == {}


@pytest.mark.parametrize("option", ["as_of", "from_commit"])
def test_a_query_of_a_stream_takes_no_commit(lake: Lake, runs: list[str], option: str) -> None:
    options = read_options(options_of(lake, "orders", **{option: runs[0]}))
    with pytest.raises(SettingError, match=f"option '{option}' is not for streams"):
        SingerlakeStreamReader(options, StructType(), whole=True)


@pytest.mark.parametrize("option", ["as_of", "from_commit"])
def test_a_commit_that_is_not_there_is_refused_when_the_schema_is_asked_for(
    lake: Lake, runs: list[str], option: str
) -> None:
    with pytest.raises(UnknownNameError, match="there is no commit 'x'"):
        SingerlakeDataSource(options_of(lake, "orders", **{option: "x"})).schema()


def test_the_client_of_a_connect_session_does_not_look_for_streams_that_are_named(lake: Lake, runs: list[str]) -> None:
    class Asked(Exception):
        pass

    class OfConnect:
        @property
        def read(self) -> None:
            raise Asked

    session: Any = OfConnect()
    with pytest.raises(Asked):
        read_streams(session, "s3://out-of-reach/lake", TAP, ["items", "orders"])


@pytest.mark.thorough
def test_dataframes_of_one_view(
    spark: SparkSession, lake: Lake, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    vacuum(lake, TAP, "orders")
    expected = {"items": [0, 1, 2], "late": [0], "orders": list(range(9))}
    during(monkeypatch, lake, "orders")
    found = read_streams(spark, lake.storage.url, TAP)
    assert ids(found) == expected
    commit_together(lake, TAP, {"orders": numbers(11, 12), "items": numbers(7, 8)})
    assert ids(found) == expected
    named = read_streams(spark, lake.storage.url, TAP, ["orders", "items"], columns=["id"])
    assert ids(named) == {"orders": list(range(12)), "items": list(range(8))}


@pytest.mark.parametrize("option", ["as_of", "FROM_COMMIT"])
def test_a_stream_that_was_dropped_is_an_error_before_anything_is_loaded(
    lake: Lake, runs: list[str], option: str
) -> None:
    drop_stream(context_of(lake, TAP, "items"), dry_run=False)
    lake.storage.delete(layout.catalogue_key(TAP))
    session = cast("SparkSession", None)
    for value in (runs[0], {"items": runs[1]}):
        with pytest.raises(LineageChangedError, match=f"stream 'items' was dropped after commit {runs[0]}"):
            read_streams(session, lake.storage.url, TAP, **{option: value})


@pytest.mark.thorough
def test_dataframes_as_of_a_commit_and_behind_it(spark: SparkSession, lake: Lake, runs: list[str]) -> None:
    vacuum(lake, TAP, "orders")
    found = read_streams(spark, lake.storage.url, TAP, as_of=runs[0])
    assert ids(found) == {"items": [0, 1, 2], "late": [], "orders": list(range(5))}
    rest = read_streams(spark, lake.storage.url, TAP, from_commit=runs[0])
    assert ids(rest) == {"items": [], "late": [0], "orders": list(range(5, 9))}
    inside = decide_on(lake, TAP, {"orders": (8, 9)})
    one = spark.read.format("singerlake").options(**options_of(lake, "orders", from_commit=runs[0], as_of=inside))
    assert sorted(row.id for row in one.load().collect()) == list(range(5, 9))
    with pytest.raises(PySparkException, match="there is no commit 'x'"):
        read_streams(spark, lake.storage.url, TAP, as_of="x")
