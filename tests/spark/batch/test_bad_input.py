"""What a reader can be given that makes no sense, and lakes that others have damaged: each a clear error on the driver,
none a result that is short.

Options and schemas alone are in ``test_options.py`` and ``test_batch.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from singerlake.format import layout
from singerlake.lake import Lake
from tests.lakes import build_stream

TAP, STREAM = "tap", "orders"
V1 = {"properties": {"id": {"type": "integer"}}}
V2 = {"properties": {"id": {"type": "integer"}, "total": {"type": "number"}}}
Load = Callable[..., DataFrame]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Offsets 0 to 2 of v1, 3 of v2."""
    lake = Lake.open(str(tmp_path / "lake"))
    build_stream(lake, TAP, STREAM, V1, [{"id": n} for n in range(3)])
    build_stream(lake, TAP, STREAM, V2, [{"id": 3, "total": 1.5}])
    return lake


@pytest.fixture
def load(spark: SparkSession, lake: Lake) -> Load:
    def load(**options: Any) -> DataFrame:
        given = {"path": lake.storage.url, "tap": TAP, "stream": STREAM, **options}
        return spark.read.format("singerlake").options(**given).load()

    return load


def failure(action: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as raised:
        action()
    return str(raised.value)


@pytest.mark.sampled(name=2)
@pytest.mark.parametrize(
    "name",
    ["..", "../tap", "orders/..", "*", "ord*", "%6frders", "Orders", "orders ", "\x00", "é" * 80, "'; --"],
)
def test_a_name_is_a_name_and_never_a_path_or_a_pattern(load: Load, name: str) -> None:
    assert "UnknownNameError" in failure(lambda: load(stream=name))
    assert "UnknownNameError" in failure(lambda: load(tap=name))


def test_a_lake_whose_streams_have_no_data_yet_says_so(load: Load, lake: Lake) -> None:
    lake.stream(TAP, "void").writer(writer_id="w").open()
    assert "stream 'void' has no data to take a schema from" in failure(lambda: load(stream="void"))
    assert "stream 'void' has no data" in failure(lambda: load(stream="void", columns="id"))
    assert "has no version 'v1'; it has no data yet" in failure(lambda: load(stream="void", from_version="v1"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [("s3://", "s3://bucket/prefix"), ("s3:///prefix", "s3://bucket/prefix"), ("s4://bucket", "scheme")],
)
def test_a_root_that_names_nothing_is_told(load: Load, path: str, expected: str) -> None:
    assert expected in failure(lambda: load(path=path))


@pytest.mark.thorough
def test_a_table_of_the_catalogue_is_told_to_be_a_view(spark: SparkSession, load: Load, lake: Lake) -> None:
    options = f"OPTIONS (path '{lake.storage.url}', tap '{TAP}', stream '{STREAM}')"
    view = "use CREATE TEMPORARY VIEW name USING singerlake OPTIONS"
    assert view in failure(lambda: spark.sql(f"CREATE TABLE made USING singerlake {options}"))
    assert view in failure(
        lambda: spark.catalog.createTable("made", source="singerlake", path=lake.storage.url, tap=TAP)
    )
    spark.sql(f"CREATE TABLE declared (id BIGINT) USING singerlake {options}")
    try:
        assert view in failure(lambda: spark.table("declared").count())
        assert view in failure(lambda: spark.sql("INSERT INTO declared VALUES (1)"))
        assert view in failure(
            lambda: load().select("id").write.format("singerlake").mode("append").saveAsTable("declared")
        )
    finally:
        spark.sql("DROP TABLE declared")


@pytest.mark.parametrize("name", ["file", "folder"])
def test_a_file_and_an_empty_folder_are_no_lake(load: Load, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("{}")
    (tmp_path / "folder" / "raw").mkdir(parents=True)
    assert "nothing here is a lake" in failure(lambda: load(path=str(tmp_path / name)))


def test_a_misspelt_secret_is_named_and_not_shown(load: Load) -> None:
    message = failure(lambda: load(aws_secret_acess_key="hush-hush"))
    assert "option 'aws_secret_acess_key' is not known" in message
    assert "hush" not in message


@pytest.mark.sampled(options=2)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"columns": "_singerlake_offset"}, "no column '_singerlake_offset' in the versions selected"),
        ({"columns": "total", "versions": "v1"}, "no column 'total' in the versions selected; there are: id"),
        ({"columns": "_rescued_data", "mode": "FAILFAST"}, "no column '_rescued_data'"),
        ({"columns": "ID"}, "no column 'ID' in the versions selected; there are: id"),
    ],
)
def test_what_is_not_among_what_was_selected_is_told(load: Load, options: dict[str, str], expected: str) -> None:
    assert expected in failure(lambda: load(**options))


def test_where_nothing_was_selected_the_columns_are_there_without_rows(load: Load) -> None:
    found = load(versions="v1", from_offset="3")
    assert (found.columns, found.collect()) == (["id", "_rescued_data"], [])


def test_a_property_with_a_name_of_the_lakes_own_is_told_with_the_way_round_it(load: Load, lake: Lake) -> None:
    own = {"properties": {"_rescued_data": {"type": "string"}, "_singerlake_offset": {"type": "integer"}}}
    build_stream(lake, TAP, "own", own, [{"_rescued_data": "x", "_singerlake_offset": 9}])
    assert "a property '_rescued_data' of their own; set option 'mode'" in failure(lambda: load(stream="own"))
    found = load(stream="own", mode="FAILFAST")
    assert found.collect() == [("x", 9)]
    message = failure(lambda: load(stream="own", mode="FAILFAST", metadata=True))
    assert "a property '_singerlake_offset' of their own; leave option 'metadata' out" in message


def test_names_that_spark_takes_for_one_are_read_one_at_a_time(load: Load, lake: Lake) -> None:
    twins = {"properties": {"id": {"type": "integer"}, "ID": {"type": "integer"}}}
    build_stream(lake, TAP, "twins", twins, [{"id": 1, "ID": 2}])
    assert load(stream="twins", columns="id").collect() == [(1,)]
    assert load(stream="twins", columns="ID").collect() == [(2,)]


@pytest.mark.sampled(name=2)
@pytest.mark.parametrize("name", ["a.b", "a`b", "a b", "ünï", "select", "a,b", "x\ny", "_c", "a:b", "${x}", "*"])
def test_a_column_of_any_name_is_read_and_chosen(load: Load, lake: Lake, name: str) -> None:
    build_stream(lake, TAP, "named", {"properties": {name: {"type": "integer"}, "z": {"type": "string"}}}, [{name: 7}])
    found = load(stream="named", columns=json.dumps([name]))
    assert found.columns == [name]
    assert found.collect() == [(7,)]


def damaged(lake: Lake, change: Callable[[dict[str, Any]], object]) -> None:
    path = Path(lake.storage.url) / layout.manifest_key(TAP, STREAM)
    manifest = json.loads(path.read_bytes())
    change(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda manifest: manifest.update(format=99), "UnsupportedFormatError"),
        (lambda manifest: manifest.update(stream="other"), "ForeignManifestError"),
        (lambda manifest: manifest.update(tap="other"), "ForeignManifestError"),
        (lambda manifest: manifest.pop("files"), "CorruptObjectError"),
        (lambda manifest: manifest["files"][0].update(messages="many"), "CorruptObjectError"),
    ],
)
def test_a_manifest_that_cannot_be_trusted_is_not_read(
    load: Load, lake: Lake, change: Callable[[dict[str, Any]], object], expected: str
) -> None:
    damaged(lake, change)
    message = failure(load)
    assert expected in message
    assert "manifest.json" in message


@pytest.mark.sampled(body=2)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_a_manifest_that_is_none_is_told_and_not_taken_for_missing(load: Load, lake: Lake, body: bytes) -> None:
    (Path(lake.storage.url) / layout.manifest_key(TAP, STREAM)).write_bytes(body)
    assert "CorruptObjectError" in failure(load)


@pytest.mark.sampled(change=2)
@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.update(messages=file["messages"] + 1, members=[[file["members"][0][0], 4]]),
        lambda file: file.update(bytes=file["bytes"] + 10),
        lambda file: file.update(bytes=file["bytes"] - 10),
        lambda file: file.update(members=[[file["members"][0][0] + 5, 3]]),
        lambda file: file.update(sha256="0" * 64),
        lambda file: file.update(sha256=""),
        lambda file: file.update(sha256="not hexadecimal"),
    ],
    ids=["count", "longer", "shorter", "member", "checksum", "no checksum", "none that is one"],
)
def test_a_manifest_that_says_something_else_of_a_file_than_the_file_fails_the_read(
    load: Load, lake: Lake, change: Callable[[dict[str, Any]], object]
) -> None:
    damaged(lake, lambda manifest: change(manifest["files"][-1]))
    message = failure(lambda: load().collect())
    assert "BrokenFileError" in message or "CorruptObjectError" in message


@pytest.mark.sampled(change=3)
@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.update(next_offset=2),
        lambda manifest: manifest.update(next_offset=7),
        lambda manifest: manifest["files"].append(manifest["files"][-1]),
        lambda manifest: manifest["files"].insert(0, manifest["files"][0]),
        lambda manifest: manifest["files"].pop(0),
        lambda manifest: manifest["files"].pop(1),
        lambda manifest: manifest["files"].reverse(),
        lambda manifest: manifest["files"][0].update(offset=-2),
        lambda manifest: manifest["files"][1].update(offset=2),
        lambda manifest: manifest["files"][0].update(messages=2),
        lambda manifest: manifest["files"][1].update(messages=2),
        lambda manifest: manifest.update(files=[]),
    ],
)
def test_a_manifest_that_contradicts_itself_is_told_and_never_read_short_or_twice(
    load: Load, lake: Lake, change: Callable[[dict[str, Any]], object]
) -> None:
    build_stream(lake, TAP, STREAM, V2, [{"id": 4}, {"id": 5}])
    damaged(lake, change)
    message = failure(lambda: load().collect())
    assert "the manifest contradicts itself" in message
    assert "run 'singerlake verify'" in message


def test_a_path_in_a_manifest_cannot_leave_the_lake(load: Load, lake: Lake, tmp_path: Path) -> None:
    manifest = lake.stream(TAP, STREAM).snapshot()
    inside = Path(lake.storage.url) / layout.stream_prefix(TAP, STREAM) / manifest.files[-1].path
    inside.rename(tmp_path / "outside.singer.gz")
    damaged(lake, lambda found: found["files"][-1].update(path="../../../../outside.singer.gz"))
    assert "outside" in failure(lambda: load().collect())


def test_a_stream_is_not_written_as_one_and_the_error_says_how(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load()
    writing = rows.writeStream.format("singerlake").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(PySparkException, match="write each batch of it with foreachBatch"):
        writing.option("path", lake.storage.url).option("tap", TAP).option("stream", "rate").start().awaitTermination(
            60
        )
