"""A lake read by a real Spark: what comes out, what is pinned, and what each mistake is answered with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from singerlake.format import layout
from singerlake.format.state.model import StreamSchema
from singerlake.lake import Lake
from singerlake.spark import register
from tests.lakes import activate_version_line, build_stream, record_line
from tests.spark.stream.streaming import drop

TAP, STREAM = "tap-a", "orders!"
V1 = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "who": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
V2 = {
    "type": "object",
    "properties": {
        "id": {"type": ["null", "number"]},
        "who": {"type": "object", "properties": {"age": {"type": "integer"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
        'a"b': {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
}
Load = Callable[..., DataFrame]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two versions: ids 0 to 4 in two files of v1, then 5.5 and 6.5 in one of v2."""
    lake = Lake.open(str(tmp_path / "lake"))
    at = "2026-01-01T00:00:00+00:00"
    first = [{"id": n, "at": at, "who": {"name": f"n{n}"}} for n in range(5)]
    build_stream(lake, TAP, STREAM, V1, first, file_size=3, member_size=2)
    second = [
        activate_version_line(STREAM, 7),
        record_line(STREAM, {"id": 5.5, "who": {"age": 9}, "tags": ["x", None]}, time_extracted="2026-01-01T01:00:00Z"),
        b'{"type":"RECORD","stream":"orders!","record":{"id":6.5,"a\\"b":NaN}}',
    ]
    build_stream(lake, TAP, STREAM, V2, second)
    return lake


@pytest.fixture
def load(spark: SparkSession, lake: Lake) -> Load:
    """Load with the options given, the required ones filled in."""

    def load(schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("singerlake")
        for name, value in {"path": lake.storage.url, "tap": TAP, "stream": STREAM, **options}.items():
            reader = reader.option(name, value)
        return (reader.schema(schema) if schema else reader).load()

    return load


def data_files(lake: Lake) -> list[Path]:
    manifest = lake.stream(TAP, STREAM).snapshot()
    return [Path(lake.storage.url) / layout.stream_prefix(TAP, STREAM) / file.path for file in manifest.files]


def failure(action: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as raised:
        action()
    return str(raised.value)


def test_all_versions_are_read_with_their_columns_united_and_no_registration(load: Load) -> None:
    found = load()
    assert found.schema.simpleString() == (
        'struct<id:double,at:timestamp,who:struct<name:string,age:bigint>,tags:array<string>,a"b:string,'
        "_rescued_data:string>"
    )
    rows = found.selectExpr("id", "unix_seconds(at)", "who.name", "who.age", "tags", '`a"b`').orderBy("id").collect()
    start = 1767225600
    assert [tuple(row) for row in rows] == [
        *((float(n), start, f"n{n}", None, None, None) for n in range(5)),
        (5.5, None, None, 9, ["x", None], None),
        (6.5, None, None, None, None, "NaN"),
    ]


def test_a_stream_known_by_its_schema_alone_is_an_empty_frame_with_its_columns(load: Load, lake: Lake) -> None:
    writer = lake.stream(TAP, "later").writer(writer_id="w")
    lake.announce(writer.keep_schema(StreamSchema(schema=V1, key_properties=("id",)), "a run"))
    for options in ({}, {"from_version": "v1"}, {"versions": "v1"}, {"mode": "FAILFAST"}, {"metadata": True}):
        found = load(stream="later", **options)
        assert found.schema["id"].dataType.simpleString() == "bigint"
        assert found.schema["who"].dataType.simpleString() == "struct<name:string>"
        assert found.filter("id > 1").collect() == []
    assert "no version 'v2'; it has: v1" in failure(lambda: load(stream="later", from_version="v2"))
    build_stream(lake, TAP, "later", V1, [{"id": 1}])
    assert load(stream="later").select("id").collect() == [(1,)]


def test_sql_reads_from_a_version_on_and_the_view_is_a_fixed_snapshot(spark: SparkSession, lake: Lake) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW seen USING singerlake OPTIONS "
        f"(PATH '{lake.storage.url}', Tap '{TAP}', stream '{STREAM}', FROM_VERSION 'v2')"
    )
    assert spark.sql("SELECT id FROM seen ORDER BY id").collect() == [(5.5,), (6.5,)]
    build_stream(lake, TAP, STREAM, V1, [{"id": 100}])
    assert spark.sql("SELECT count(*) FROM seen").first() == (2,)


def test_a_version_is_named_by_label_hash_or_segment_and_what_comes_back_later_is_kept(load: Load, lake: Lake) -> None:
    build_stream(lake, TAP, STREAM, V1, [{"id": 100}])
    (v1, v2) = lake.stream(TAP, STREAM).snapshot().versions
    for name in ("v2", v2, layout.to_segment(v2)):
        found = load(from_version=name)
        assert sorted(row.id for row in found.select("id").collect()) == [5.5, 6.5, 100.0]
        assert found.columns == ["id", "who", "tags", 'a"b', "at", "_rescued_data"]
    assert load(versions=f" {v1}, ").columns == ["id", "at", "who", "_rescued_data"]
    assert sorted(row.id for row in load(versions="v1,").select("id").collect()) == [0, 1, 2, 3, 4, 100]
    assert [row.id for row in load(versions="v1", from_version="v2").select("id").collect()] == [100]


def test_metadata_says_where_each_row_comes_from(load: Load, lake: Lake) -> None:
    manifest = lake.stream(TAP, STREAM).snapshot()
    rows = (
        load(metadata=True).selectExpr("id", "_singerlake_offset", "_singerlake_version", "_singerlake_file").collect()
    )
    by_offset = {row._singerlake_offset: row for row in rows}
    assert sorted(by_offset) == [0, 1, 2, 3, 4, 6, 7]
    for file in manifest.files:
        for offset in range(file.offset, file.end):
            if offset in by_offset:
                assert by_offset[offset]._singerlake_version == file.version
                assert by_offset[offset]._singerlake_file == file.path
    times = load(metadata=True).selectExpr("id", "unix_seconds(_time_extracted) AS t").where("t IS NOT NULL").collect()
    assert times == [(5.5, 1767229200)]


def test_a_dataframe_reads_the_same_rows_however_the_lake_grows(load: Load, lake: Lake) -> None:
    before = load()
    build_stream(lake, TAP, STREAM, V1, [{"id": 100}])
    assert before.count() == 7
    build_stream(lake, TAP, STREAM, V1, [{"id": 101}])
    assert before.count() == 7
    assert load().count() == 9


def test_with_a_schema_of_ones_own_a_dataframe_is_fixed_from_its_first_use_on(load: Load, lake: Lake) -> None:
    found = load("id DOUBLE")
    build_stream(lake, TAP, STREAM, V1, [{"id": 100}])
    assert found.count() == 8
    build_stream(lake, TAP, STREAM, V1, [{"id": 101}])
    assert found.count() == 8
    assert found.where("id > 5").count() == 3


def test_a_schema_of_ones_own_chooses_columns_and_types(load: Load) -> None:
    found = load("who STRING, id DECIMAL(9,1), at STRING")
    rows = found.orderBy("id").collect()
    assert [str(row.id) for row in rows] == ["0.0", "1.0", "2.0", "3.0", "4.0", "5.5", "6.5"]
    assert rows[0].at == "2026-01-01T00:00:00+00:00"
    assert json.loads(rows[0].who) == {"name": "n0"}
    assert json.loads(rows[5].who) == {"age": 9}
    assert rows[6].who is None
    assert load("_singerlake_offset INT, id DOUBLE", metadata=True).columns == ["_singerlake_offset", "id"]


def test_columns_are_chosen_in_the_order_wanted_and_agree_with_a_schema(load: Load) -> None:
    found = load(columns="tags, id")
    assert found.columns == ["tags", "id"]
    assert found.where("id = 5.5").collect() == [(["x", None], 5.5)]
    assert load(columns='["a\\"b","_rescued_data"]').columns == ['a"b', "_rescued_data"]
    assert load(columns="id,_singerlake_offset", metadata=True).columns == ["id", "_singerlake_offset"]
    assert load("id DOUBLE", columns="id").count() == 7
    assert "option 'columns' and .schema(...) name different columns" in failure(load("id DOUBLE", columns="at").count)


def test_a_range_of_offsets_is_read_again_exactly_whatever_came_after(load: Load, lake: Lake) -> None:
    def offsets(**options: int) -> list[int]:
        found = load(metadata=True, columns="_singerlake_offset", **options)
        return sorted(row[0] for row in found.collect())

    assert offsets(from_offset=2, to_offset=7) == [2, 3, 4, 6]
    build_stream(lake, TAP, STREAM, V1, [{"id": 100}])
    assert offsets(from_offset=2, to_offset=7) == [2, 3, 4, 6]
    assert offsets(from_offset=6) == [6, 7, 8]
    assert offsets(to_offset=1) == [0]
    assert load(from_offset=2, to_offset=4).columns == ["id", "at", "who", "_rescued_data"]
    assert load("id DOUBLE", from_offset=3, to_offset=3).collect() == []


def test_one_file_is_read_by_many_tasks_and_each_record_once(spark: SparkSession, lake: Lake, load: Load) -> None:
    lines = [record_line("big", {"id": n}) for n in range(2000)]
    build_stream(lake, TAP, "big", V1, lines, file_size=2000, member_size=100)
    found = load(stream="big", partition_bytes=12 * len(b"".join(lines)) // 100, metadata=True)
    assert 5 <= found.rdd.getNumPartitions() <= 15
    assert found.selectExpr(
        "count(*)", "sum(id)", "count(DISTINCT _singerlake_offset)", "max(id - _singerlake_offset)"
    ).collect() == [(2000, 1999000, 2000, 0)]
    assert load(stream="big").rdd.getNumPartitions() == 1


def test_no_core_is_left_without_work(lake: Lake, load: Load) -> None:
    text = {"properties": {"text": {"type": "string"}}}
    build_stream(lake, TAP, "wide", text, [{"text": "x" * (1 << 20)} for _ in range(52)], file_size=52, member_size=2)
    assert load(stream="wide", cores=1).rdd.getNumPartitions() == 1
    found = load(stream="wide", cores=3)
    assert found.rdd.getNumPartitions() == 3
    assert found.selectExpr("count(*)", "sum(length(text))").collect() == [(52, 52 << 20)]


def test_registering_by_hand_reads_the_same(spark: SparkSession, load: Load) -> None:
    register(spark)
    assert load().count() == 7


def test_without_a_manifest_the_files_themselves_are_read(load: Load, lake: Lake) -> None:
    (Path(lake.storage.url) / layout.manifest_key(TAP, STREAM)).unlink()
    found = load(metadata=True)
    assert found.selectExpr("count(*)", "max(_singerlake_offset)").collect() == [(7, 7)]
    later = load()
    data_files(lake)[0].unlink()
    assert "was rebuilt or dropped after this DataFrame or table was made; load it again" in failure(later.count)


def test_what_was_loaded_before_a_drop_is_read_and_nothing_is_found_after_it(load: Load, lake: Lake) -> None:
    before = load()
    assert before.count() == 7
    drop(lake)
    assert before.count() == 7
    assert f"stream {STREAM!r} has no data to take a schema from" in failure(load)
    assert load("id BIGINT").collect() == []


def test_an_empty_stream_needs_a_schema_and_then_has_no_rows(load: Load, lake: Lake) -> None:
    lake.stream(TAP, "empty").writer(writer_id="w").open()
    assert "stream 'empty' has no data to take a schema from; capture it first" in failure(lambda: load(stream="empty"))
    assert load("id BIGINT, x STRING", stream="empty").collect() == []


def test_a_stream_whose_schemas_name_nothing_is_read_for_its_metadata(load: Load, lake: Lake) -> None:
    build_stream(lake, TAP, "bare", {"properties": {}}, [{"a": 1}, {"a": 2}])
    assert "name no properties" in failure(lambda: load(stream="bare"))
    assert load(stream="bare", metadata=True).selectExpr("max(_singerlake_offset)").collect() == [(1,)]


@pytest.mark.sampled(options=3)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"stream": "nope"}, "tap 'tap-a' has no stream 'nope'; it has: orders!"),
        ({"tap": "nope"}, "no tap 'nope' in this lake; it has: tap-a"),
        ({"mode": "lenient"}, "option 'mode' is not one of PERMISSIVE, FAILFAST, DROPMALFORMED"),
        ({"columns": "id,nope"}, "no column 'nope' in the versions selected; there are: id, at, who, tags"),
        ({"columns": "id,id"}, "option 'columns' names 'id' twice"),
        ({"from_offset": "9"}, "option 'from_offset' is 9, the stream ends at 8"),
        ({"to_offset": "9"}, "option 'to_offset' is 9, the stream ends at 8"),
        ({"to_offset": "2", "from_offset": "3"}, "option 'to_offset' (2) is below 'from_offset' (3)"),
        ({"from_offset": "0", "from_version": "v1"}, "'from_version' and 'from_offset' exclude each other"),
        ({"from_version": "v9"}, "has no version 'v9'; it has: v1 ("),
        ({"versions": "v1,v9"}, "has no version 'v9'; it has: v1 ("),
        ({"path": "/nowhere/at/all"}, "nothing here is a lake; check path"),
        ({"path": "r2://x/y"}, "an unknown scheme"),
        ({"path": " "}, "option 'path' is missing"),
        ({"from_verison": "v2"}, "option 'from_verison' is not known; use one of: path, tap, stream, from_version"),
        ({"aws_secret_access_key": "hush-hush"}, "aws_secret_access_key is set without"),
    ],
)
def test_a_wrong_option_is_told_when_loading(load: Load, options: dict[str, str], expected: str) -> None:
    message = failure(lambda: load(**options))
    assert expected in message
    assert "hush-hush" not in message


@pytest.mark.sampled(schema=2)
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("id DOUBLE, nmae STRING", "no column 'nmae' in the versions selected; there are: id, at, who, tags, a"),
        ("who STRUCT<nmae: STRING>", "no column 'who.nmae' in the versions selected; there are: name, age"),
        ("_singerlake_offset BIGINT", "no column '_singerlake_offset'"),
        ("id FLOAT", "column 'id' cannot be read as float; use boolean"),
        ("id BIGINT, id BIGINT", "names column 'id' twice"),
        ("id BIGINT, _rescued_data STRING NOT NULL", "write it as: _rescued_data STRING"),
        ("id BIGINT, _rescued_data INT", "write it as: _rescued_data STRING"),
        ("tags ARRAY<BINARY>", "column 'tags[]' cannot be read as binary"),
    ],
)
def test_a_schema_that_asks_for_what_is_not_there_is_told_before_any_task(
    load: Load, schema: str, expected: str
) -> None:
    assert expected in failure(lambda: load(schema).collect())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"stream": "nope"}, "UnknownNameError: tap 'tap-a' has no stream 'nope'"),
        ({"path": "/nowhere/at/all"}, "NotALakeError: nothing here is a lake; check path"),
        ({"from_version": "v9"}, "UnknownNameError"),
        ({"colums": "id"}, "SettingError: option 'colums' is not known"),
    ],
)
def test_under_a_schema_of_ones_own_what_is_wrong_is_told_as_plainly(
    load: Load, options: dict[str, str], expected: str
) -> None:
    frame = load("id BIGINT", **options)
    for _ in range(2):
        message = failure(lambda: frame.collect())
        assert expected in message
        assert "Pickl" not in message


@pytest.mark.sampled(column=1)
@pytest.mark.parametrize(
    "column", ["_singerlake_offset STRING", "_singerlake_offset DECIMAL(20,0)", "_singerlake_version BIGINT"]
)
def test_the_lakes_own_columns_are_read_as_what_they_are(load: Load, column: str) -> None:
    name = column.partition(" ")[0]
    message = failure(lambda: load(column, metadata=True, mode="FAILFAST").collect())
    assert f"column '{name}' is the lake's own" in message


def test_an_object_without_fields_is_one_row_each(load: Load, lake: Lake) -> None:
    schema = {"properties": {"id": {"type": "integer"}, "e": {"type": "object"}}}
    build_stream(lake, TAP, "bare objects", schema, [{"id": 1, "e": {"a": 1}}, {"id": 2, "e": {}}, {"id": 3}])
    found = load("id BIGINT, e STRUCT<>", stream="bare objects").selectExpr("id", "e IS NULL").orderBy("id")
    assert found.collect() == [(1, False), (2, False), (3, True)]
    assert load("e STRUCT<>", stream="bare objects").count() == 3


def test_a_value_that_does_not_fit_becomes_what_the_mode_says(load: Load, lake: Lake) -> None:
    build_stream(lake, TAP, "odd", V1, [{"id": 1}, {"id": "31337"}, {"id": 3}])
    assert [(row.id, row._rescued_data) for row in load(stream="odd").collect()] == [
        (1, None),
        (None, '{"id":"31337"}'),
        (3, None),
    ]
    assert load(stream="odd", mode="permissive").where("_rescued_data IS NOT NULL").count() == 1
    assert [row.id for row in load("id BIGINT", stream="odd").collect()] == [1, None, 3]
    assert load("id BIGINT, _rescued_data STRING", stream="odd").where("_rescued_data IS NULL").count() == 2
    dropping = load(stream="odd", mode="DROPMALFORMED")
    assert dropping.columns == ["id", "at", "who"]
    assert [row.id for row in dropping.collect()] == [1, 3]
    message = failure(load(stream="odd", mode="FAILFAST").collect)
    assert "column 'id' is an integer of 64 bits, and a record holds a string: \"31337\"" in message
    assert "line=3, offset=1" in message
    assert ".singer.gz" in message
    assert load("at TIMESTAMP", stream="odd", mode="FAILFAST").count() == 3
    assert [row.id for row in load("id STRING", stream="odd").orderBy("id").collect()] == ['"31337"', "1", "3"]


def test_a_file_that_went_away_says_to_load_again(load: Load, lake: Lake) -> None:
    found = load()
    gone = data_files(lake)[1]
    gone.unlink()
    message = failure(found.collect)
    assert "this DataFrame or table was loaded before gc; load it again" in message
    assert gone.name in message


@pytest.mark.parametrize("damage", ["cut", "altered", "empty"])
def test_a_broken_file_is_an_error_with_its_name_and_never_fewer_rows(load: Load, lake: Lake, damage: str) -> None:
    path = data_files(lake)[0]
    body = path.read_bytes()
    altered = body[:-30] + bytes(255 - byte for byte in body[-30:-20]) + body[-20:]
    path.write_bytes({"cut": body[:-10], "altered": altered, "empty": b""}[damage])
    message = failure(load().collect)
    assert "BrokenFileError" in message
    assert path.name in message


def test_after_a_rebuild_a_dataframe_says_so(load: Load, lake: Lake) -> None:
    found = load()
    path = Path(lake.storage.url) / layout.manifest_key(TAP, STREAM)
    manifest = json.loads(path.read_bytes())
    path.write_text(json.dumps({**manifest, "lineage": "another"}))
    assert "was rebuilt or dropped after this DataFrame or table was made; load it again" in failure(found.collect)
    assert load().count() == 7


def test_secrets_stay_out_of_every_plan(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    found = load(aws_access_key_id="AKIASHOWN", aws_secret_access_key="hush-hush", aws_session_token="hush-too")
    found.explain("formatted")
    found.explain(True)
    shown = capsys.readouterr().out + str(found._jdf.queryExecution()) + repr(found)
    assert "singerlake" in shown
    assert "hush" not in shown
