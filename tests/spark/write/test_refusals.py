"""What a write refuses, with which words, and that nothing is there afterwards that was not there before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from singerlake.errors import SettingError, SingerlakeError, UnknownNameError
from singerlake.lake import Lake
from singerlake.lock_file import LockSettings
from singerlake.settings import STORAGE_SETTINGS, STORE_SETTINGS
from singerlake.spark.options import REQUIRED
from singerlake.spark.source import SingerlakeDataSource
from singerlake.spark.write import OPTIONAL, json_schema, write_options
from tests.lakes import build_stream
from tests.spark.write.writes import STREAM, TAP, Place, failure

NEEDED = {"path": "s3://b/p", "tap": "t", "stream": "s"}


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, str(tmp_path / "lake"))


def test_options_are_read_in_any_case_and_secrets_are_not_shown() -> None:
    plain = {"s3_path_style": "TRUE", "patience_seconds": "300", "s3_probe_max_wait_seconds": "5"}
    secrets = {name: f"hush-{name}" for name in (*STORAGE_SETTINGS, *STORE_SETTINGS) if name not in plain}
    found = write_options(
        {
            **NEEDED,
            "KEY_PROPERTIES": " a, b",
            "Manifest_Store": "LOG",
            "compression_level": "9",
            "max_file_bytes": "0",
            "max_file_records": "7",
            "spool_dir": " /tmp/x ",
            "lock_max_wait_seconds": "0",
            "lock_stale_after_seconds": "30",
            "lock_refresh_seconds": "5",
            **plain,
            **secrets,
        }
    )
    assert (found.key_properties, found.manifest_store, found.compression_level) == (("a", "b"), "log", 9)
    assert (found.max_file_bytes, found.max_file_records, found.spool_dir) == (0, 7, "/tmp/x")
    assert found.lock == LockSettings(max_wait=0, stale_after=30, refresh=5)
    assert (found.storage["s3_path_style"], found.storage["patience_seconds"]) == (True, 300)
    assert "hush" not in repr(found)


def test_what_is_left_out_is_as_in_the_target() -> None:
    from target_singerlake.settings import PROPERTIES

    found = write_options({**NEEDED, "manifest_store": " "})
    for name in ("compression_level", "max_file_bytes", "max_file_records"):
        assert getattr(found, name) == PROPERTIES[name]["default"]
    assert (found.manifest_store, found.key_properties, found.lock) == (None, (), LockSettings())
    assert set(OPTIONAL) - {"key_properties"} <= set(PROPERTIES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"from_version": "v2"}, "option 'from_version' is not known"),
        ({"mode": "append"}, "option 'mode' is not known"),
        *(({name: " "}, f"option '{name}' is missing") for name in REQUIRED),
        ({"key_properties": "a,a"}, "option 'key_properties' names a column twice"),
        ({"key_properties": "[1]"}, "option 'key_properties' is not a JSON array of strings"),
        ({"manifest_store": "zookeeper"}, "option 'manifest_store' is not one of lockfile"),
        ({"compression_level": "0"}, "option 'compression_level' is not a whole number from 1 to 9"),
        ({"compression_level": "10"}, "option 'compression_level' is not a whole number from 1 to 9"),
        ({"max_file_bytes": "-1"}, "option 'max_file_bytes' is not a whole number of 0 or more"),
        ({"max_file_records": "1e3"}, "option 'max_file_records' is not a whole number"),
        ({"lock_refresh_seconds": "0"}, "option 'lock_refresh_seconds' is not a whole number of 1 or more"),
        ({"lock_refresh_seconds": "50"}, "lock_refresh_seconds is more than half"),
        ({"s3_path_style": "1"}, "option 's3_path_style' is neither true nor false"),
    ],
)
def test_an_option_that_means_nothing_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        write_options({**NEEDED, **options})


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("b BINARY", r"column 'b' is of the type binary, for which JSON .*; write base64\(...\)"),
        ("s STRUCT<x: ARRAY<BINARY>>", r"column 's.x\[\]' is of the type binary"),
        ("m MAP<INT, STRING>", "column 'm' is of the type map<int,string>, .*make its keys strings"),
        ("m MAP<STRING, BINARY>", "column 'm{}' is of the type binary"),
        ("i INTERVAL DAY", "column 'i' is of the type interval day.*cast"),
        ("_rescued_data STRING, a INT", r"column '_rescued_data' has a name .*df.drop\('_rescued_data'\)"),
        ("_singerlake_offset BIGINT", "column '_singerlake_offset' has a name"),
        ("_time_extracted TIMESTAMP", "column '_time_extracted' has a name"),
    ],
)
def test_a_column_that_json_or_a_reader_cannot_hold_is_refused(ddl: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        json_schema(t.StructType.fromDDL(ddl), ())


def test_two_columns_of_one_name_and_none_at_all_are_refused() -> None:
    twice = t.StructType([t.StructField("a", t.IntegerType()), t.StructField("a", t.IntegerType())])
    with pytest.raises(SettingError, match="two columns have the name 'a'"):
        json_schema(twice, ())
    with pytest.raises(SettingError, match=r"two columns have the name 's\.a'"):
        json_schema(t.StructType([t.StructField("s", twice)]), ())
    with pytest.raises(SettingError, match="the DataFrame has no columns"):
        json_schema(t.StructType(), ())


@pytest.mark.usefixtures("spark")
def test_names_that_differ_in_case_only_are_two() -> None:
    assert list(json_schema(t.StructType.fromDDL("a INT, A INT"), ("A",))["properties"]) == ["a", "A"]


@pytest.mark.usefixtures("spark")
def test_a_key_that_is_no_column_is_refused_and_those_there_are_are_listed() -> None:
    with pytest.raises(UnknownNameError, match="key property 'ID' is not a column; there are: id, b"):
        json_schema(t.StructType.fromDDL("id INT, b INT"), ("ID",))


CREATED_BY_NOBODY: dict[str, tuple[str, dict[str, Any], str]] = {
    "an unknown option": ("SELECT 1 a", {"from_version": "v1"}, "option 'from_version' is not known"),
    "a type": ("SELECT X'00' b", {}, "column 'b' is of the type binary"),
    "an unknown key": ("SELECT 1 a", {"key_properties": "b"}, "key property 'b' is not a column"),
    "a store without its settings": ("SELECT 1 a", {"manifest_store": "postgres"}, "postgres_url"),
    "a long name": ("SELECT 1 a", {"stream": "x" * 300}, "NameTooLongError"),
}


@pytest.mark.parametrize("case", CREATED_BY_NOBODY)
def test_what_the_driver_can_know_is_said_before_anything_is_there(place: Place, case: str) -> None:
    sql, options, message = CREATED_BY_NOBODY[case]
    assert message in failure(lambda: place.write(place.spark.sql(sql), **options))
    assert not list(Path(place.root).rglob("manifest.json"))
    assert place.files() == set()


def test_a_lake_keeps_its_manifest_store(place: Place) -> None:
    build_stream(place.lake, TAP, STREAM, {"properties": {}}, [{}])
    said = failure(lambda: place.write(place.spark.range(1), manifest_store="log"))
    assert "manifest_store is 'log', this lake's is 'lockfile'" in said


@pytest.mark.parametrize("mode", ["error", "errorifexists", "ignore", None])
def test_modes_that_spark_does_not_give_to_a_python_source_are_refused_by_spark(place: Place, mode: str | None) -> None:
    writer = place.spark.range(1).write.format("singerlake").options(**place.options())
    said = failure((writer.mode(mode) if mode else writer).save)
    assert "UNSUPPORTED_DATA_SOURCE_SAVE_MODE" in said
    assert not Path(place.root).exists()


def test_overwrite_is_refused_with_the_reason_and_all_that_was_there_still_is(place: Place) -> None:
    build_stream(place.lake, TAP, STREAM, {"properties": {"id": {"type": "integer"}}}, [{"id": 1}])
    before = place.manifest
    frame = place.spark.range(1)
    said = failure(frame.write.format("singerlake").mode("overwrite").options(**place.options()).save)
    assert "a raw lake only ever grows" in said
    assert ".mode('append')" in said
    assert place.manifest == before


VALUES: dict[str, tuple[str, dict[str, Any], str]] = {
    "NaN": ("SELECT id, if(id = 3, double('NaN'), 1D) d FROM range(4)", {}, "column 'd' holds NaN or an infinity"),
    "no UTF-8": ("SELECT CAST(X'ff' AS STRING) s", {}, "column 's' holds text that is not UTF-8"),
    "the year 10000": ("SELECT date_add(date'9999-12-31', int(id)) d FROM range(2)", {}, "column 'd' holds a time"),
    "a null key": ("SELECT nullif(id, 2) id FROM range(4)", {"key_properties": "id"}, "key property 'id' is null in 1"),
}


@pytest.mark.sampled(case=2)
@pytest.mark.parametrize("case", VALUES)
def test_a_value_that_json_cannot_hold_fails_the_write_and_lists_nothing(place: Place, case: str) -> None:
    place.write(place.spark.range(1))
    sql, options, message = VALUES[case]
    said = failure(lambda: place.write(place.spark.sql(sql), **options))
    assert message in said
    assert place.records() == [{"id": 0}]
    assert [run.status for run in place.manifest.runs] == ["finished", "failed"]


def test_secrets_stay_out_of_plans_and_errors(place: Place) -> None:
    secrets = {
        "aws_access_key_id": "hush-id",
        "aws_secret_access_key": "hush-key",
        "aws_session_token": "hush-token",
        "postgres_url": "postgresql://ada:hush-password@127.0.0.1:1/x",
        "patience_seconds": "1",
    }
    place.write(place.spark.range(1), **secrets)
    said = failure(lambda: place.write(place.spark.sql("SELECT double('NaN') d"), **secrets))
    said += failure(lambda: place.write(place.spark.sql("SELECT X'00' b"), **secrets))
    elsewhere = Place(place.spark, place.root + "2")
    said += failure(lambda: elsewhere.write(place.spark.range(1), manifest_store="postgres", **secrets))
    assert "postgres_url" in said
    executions = place.spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = "".join(executions.apply(index).physicalPlanDescription() for index in range(executions.size()))
    assert "AppendData" in plans
    assert "hush" not in said + plans


def reads(source: SingerlakeDataSource) -> None:
    source.reader(t.StructType.fromDDL("a INT"))


def writes(source: SingerlakeDataSource) -> None:
    source.writer(t.StructType.fromDDL("a INT"), False)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("use", "option"), [(reads, "key_properties"), (reads, "manifest_store"), (writes, "columns"), (writes, "metadata")]
)
def test_options_of_the_other_direction_are_refused(
    tmp_path: Path, use: Callable[[SingerlakeDataSource], None], option: str
) -> None:
    source = SingerlakeDataSource({"path": str(tmp_path), "tap": "t", "stream": "s", option: "true"})
    with pytest.raises(SettingError, match=f"option '{option}' is not known"):
        use(source)
    assert not Lake.open(str(tmp_path)).exists()


def test_streaming_writes_are_not_offered(place: Place, tmp_path: Path) -> None:
    rates = place.spark.readStream.format("rate").load()
    writer = rates.writeStream.format("singerlake").options(**place.options(checkpointLocation=str(tmp_path / "c")))
    with pytest.raises((PySparkException, SingerlakeError)):
        writer.start().processAllAvailable()
    assert not Path(place.root).exists()
