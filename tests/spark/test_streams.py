"""Several streams of a tap in one call."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from singerlake.errors import NotALakeError, SettingError, SingerlakeError, UnknownNameError
from singerlake.lake import Lake
from singerlake.spark import read_streams
from tests.lakes import build_stream

TAP = "tap-a"
V1 = {"properties": {"id": {"type": "integer"}}}
V2 = {"properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
ODD = "a,b %*"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Streams ``a,b %*`` and ``orders`` of two versions, ``users`` of one, and ``void`` that was only born."""
    lake = Lake.open(str(tmp_path / "lake"))
    for stream in ("orders", ODD):
        build_stream(lake, TAP, stream, V1, [{"id": n} for n in range(3)])
        build_stream(lake, TAP, stream, V2, [{"id": 7, "name": "x"}])
    build_stream(lake, TAP, "users", V1, [{"id": 9}])
    lake.stream(TAP, "void").writer(writer_id="w").open()
    return lake


def ids(found: dict[str, DataFrame]) -> dict[str, list[int]]:
    return {name: sorted(row.id for row in each.select("id").collect()) for name, each in found.items()}


def test_all_streams_with_data_are_read_and_those_without_are_named(
    spark: SparkSession, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "singerlake.spark"):
        found = read_streams(spark, lake.storage.url, TAP)
    assert ids(found) == {ODD: [0, 1, 2, 7], "orders": [0, 1, 2, 7], "users": [9]}
    assert list(found) == sorted(found)
    assert found["orders"].columns == ["id", "name", "_rescued_data"]
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("singerlake.spark")]
    assert warning == "tap 'tap-a': left out, since they have no data yet: 'void'"


def test_a_stream_that_the_catalogue_lost_is_read_all_the_same(spark: SparkSession, lake: Lake) -> None:
    (Path(lake.storage.url) / "raw" / TAP / "catalogue.json").unlink()
    assert list(read_streams(spark, lake.storage.url, TAP)) == [ODD, "orders", "users"]


def test_streams_are_read_as_named_and_each_with_options_of_its_own(spark: SparkSession, lake: Lake) -> None:
    found = read_streams(
        spark,
        lake.storage.url,
        TAP,
        ["users", "orders", ODD, "users"],
        from_version={"users": "v1", ODD: None},
        versions={ODD: ["v1"]},
        columns=["id"],
        metadata=False,
        to_offset={"orders": 3, "users": 1},
        Mode="FAILFAST",
    )
    assert list(found) == ["users", "orders", ODD]
    assert ids(found) == {"users": [9], "orders": [0, 1, 2], ODD: [0, 1, 2]}
    assert {each.columns[0] for each in found.values()} == {"id"}


def test_each_is_a_snapshot_like_any_other(spark: SparkSession, lake: Lake) -> None:
    found = read_streams(spark, lake.storage.url, TAP, {"orders", "users"})
    build_stream(lake, TAP, "orders", V1, [{"id": 100}])
    assert ids(found) == {"orders": [0, 1, 2, 7], "users": [9]}


@pytest.mark.parametrize(
    ("arguments", "kind", "expected"),
    [
        ({"tap": "nope"}, UnknownNameError, "no tap 'nope' in this lake; it has: tap-a"),
        ({"path": "/nowhere/at/all"}, NotALakeError, "nothing here is a lake"),
        ({"streams": []}, SettingError, "streams names nothing; name at least one, or leave it out"),
        ({"streams": "orders"}, SettingError, "streams is one text; give a list of names, as ['orders']"),
        ({"from_version": {"ordres": "v2"}}, SettingError, "'ordres', which is not read; read are: a,b %*, orders"),
        ({"streams": ["users"], "versions": {"orders": "v1"}}, SettingError, "'orders', which is not read"),
        ({"from_verison": "v1"}, SettingError, "option 'from_verison' is not known; use one of: path"),
        ({"STREAM": "users"}, SettingError, "option 'STREAM' is given twice"),
        ({"metadata": "maybe"}, SettingError, "option 'metadata' is neither true nor false"),
        ({"columns": []}, SettingError, "option 'columns' names nothing"),
        ({"from_version": "v1", "from_offset": {"users": 0}}, SettingError, "exclude each other"),
    ],
)
def test_what_makes_no_sense_is_told_before_spark_is_asked(
    lake: Lake, arguments: dict[str, Any], kind: type[SingerlakeError], expected: str
) -> None:
    class NoSpark:
        @property
        def read(self) -> None:
            raise AssertionError("asked Spark")

    session: Any = NoSpark()
    with pytest.raises(kind) as raised:
        read_streams(session, **{"path": lake.storage.url, "tap": TAP, **arguments})
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"streams": ["users", "nope"]}, "tap 'tap-a' has no stream 'nope'; it has: a,b %*, orders, users, void"),
        ({"streams": ["users", "void"]}, "stream 'void' has no data to take a schema from"),
        ({"streams": ["*"]}, "has no stream '*'; it has:"),
        ({"from_version": "v2"}, "stream 'users' has no version 'v2'; it has: v1"),
    ],
)
def test_one_stream_that_cannot_be_loaded_fails_the_call(
    spark: SparkSession, lake: Lake, arguments: dict[str, Any], expected: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        read_streams(spark, lake.storage.url, TAP, **arguments)
    assert expected in str(raised.value)
