"""A DataFrame written into a lake: the same types and values come back, through Spark and through tap-singerlake."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from singerlake.format.state import fold
from singerlake.spark import register
from singerlake.upkeep.rebuild.rebuild import rebuild_manifest
from tests.lakes import build_stream
from tests.spark.write.writes import STREAM, TAP, Place
from tests.tap.runs import Output, environment, replay, run_process

EVERY_TYPE = """
SELECT id, CAST(id AS TINYINT) tiny, CAST(-id AS SMALLINT) small, CAST(id AS INT) int, id % 2 = 0 flag,
    id / 3 double, CAST(0.1 AS FLOAT) float, -0D zero, 1e300D huge, CAST(id AS DECIMAL(20, 18)) exact,
    CAST(-1.5 AS DECIMAL(38, 0)) round, date'0001-01-01' day, timestamp'2026-07-01 00:00:00.123456' at,
    timestamp_ntz'2026-07-01 00:00:00.5' local, 'é"\\n\\\\' text, if(id = 1, NULL, 'x') maybe,
    array(array(1, NULL), NULL, array()) lists,
    named_struct('a"b', id, 'in', if(id = 1, NULL, named_struct('when', date'9999-12-31'))) record,
    map('k"', 1, 'none', NULL) map, NULL nothing, parse_json('{"a":[1,null,"x"]}') variant
FROM range(4)
"""


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, str(tmp_path / "lake"))


def test_every_type_comes_back_as_it_was_in_the_order_of_the_rows(spark: SparkSession, place: Place) -> None:
    frame = spark.sql(EVERY_TYPE).repartitionByRange(3, "id")
    place.write(frame, key_properties="id")
    found = place.read()
    assert found.schema.simpleString() == (
        "struct<id:bigint,tiny:bigint,small:bigint,int:bigint,flag:boolean,double:double,float:double,zero:double,"
        "huge:double,exact:decimal(20,18),round:decimal(38,0),day:date,at:timestamp,local:timestamp,text:string,"
        'maybe:string,lists:array<array<bigint>>,record:struct<a"b:bigint,in:struct<when:date>>,map:string,'
        "nothing:string,variant:string>"
    )
    as_json = ["map", "nothing", "variant"]
    expected = frame.drop("local", *as_json).selectExpr("*", "CAST(float AS DOUBLE) f").drop("float")
    same = found.drop("local", *as_json).withColumnRenamed("float", "f").select(expected.columns)
    assert same.orderBy("id").collect() == expected.orderBy("id").collect()
    assert found.select(*as_json).distinct().collect() == [('{"k\\"":1,"none":null}', None, '{"a":[1,null,"x"]}')]
    assert found.selectExpr("CAST(zero AS STRING)").distinct().collect() == [("-0.0",)]
    assert [record["id"] for record in place.records()] == [0, 1, 2, 3]
    place.check()


def test_a_time_without_zone_comes_back_as_one_under_a_schema(spark: SparkSession, place: Place) -> None:
    place.write(spark.sql("SELECT timestamp_ntz'2026-03-08 02:30:00.000001' local"))
    assert place.read("local TIMESTAMP_NTZ").collect() == [(datetime(2026, 3, 8, 2, 30, 0, 1),)]
    assert place.records() == [{"local": "2026-03-08T02:30:00.000001"}]


def test_what_spark_wrote_spark_takes_as_its_own_types_under_the_frames_schema(
    spark: SparkSession, place: Place
) -> None:
    schema = "id INT, price DECIMAL(7,2), tags ARRAY<STRING>, who STRUCT<age: SMALLINT>, small TINYINT"
    rows = [
        (1, Decimal("-12345.67"), ["a", None], (7,), -128),
        (2, None, [], None, 127),
        (3, Decimal(0), None, None, 0),
    ]
    place.write(spark.createDataFrame(rows, schema))
    found = place.read(schema)
    assert found.schema == t.StructType.fromDDL(schema)
    assert sorted(map(tuple, found.collect())) == rows


def test_the_tap_replays_it(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    before = datetime.now(UTC)
    place.write(
        spark.createDataFrame(
            [(1, Decimal("1.50"), date(2026, 1, 1), {"a": 1.0}), (2, None, None, None)],
            "id BIGINT, price DECIMAL(9,2), day DATE, extra MAP<STRING, DOUBLE>",
        ).coalesce(1),
        key_properties="id",
    )
    done = run_process(tmp_path, {"lake_root": place.root, "tap_id": TAP})
    assert done.returncode == 0, done.stderr
    output = Output(done.stdout)
    (schema,) = output.of("SCHEMA")
    assert schema == {
        "type": "SCHEMA",
        "stream": STREAM,
        "key_properties": ["id"],
        "schema": {
            "type": "object",
            "properties": {
                "id": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
                "price": {"type": ["null", "string"], "format": "singer.decimal", "precision": 9, "scale": 2},
                "day": {"type": ["null", "string"], "format": "date"},
                "extra": {"type": ["null", "object"], "additionalProperties": {"type": ["null", "number"]}},
            },
        },
    }
    assert output.records() == [
        {"id": 1, "price": "1.50", "day": "2026-01-01", "extra": {"a": 1}},
        {"id": 2, "price": None, "day": None, "extra": None},
    ]
    (moment,) = {record["time_extracted"] for record in output.of("RECORD")}
    assert before <= datetime.fromisoformat(moment.replace("Z", "+00:00")) <= datetime.now(UTC)
    assert all(file.first == file.last == moment for file in place.manifest.files)


def test_a_second_write_goes_on_and_is_a_run_of_its_own(spark: SparkSession, place: Place) -> None:
    for start in (0, 5):
        place.write(spark.range(start, start + 5, 1, 2))
    assert [record["id"] for record in place.records()] == list(range(10))
    found = place.read(metadata="true", columns="id,_singerlake_offset")
    assert sorted(map(tuple, found.collect())) == [(n, n) for n in range(10)]
    manifest = place.manifest
    assert list(manifest.versions.values()) == ["v1"]
    assert [(run.status, run.files, run.records) for run in manifest.runs] == [("finished", 2, 5)] * 2
    assert len({run.id for run in manifest.runs}) == 2
    place.check()


def test_all_tasks_files_are_one_transaction(spark: SparkSession, place: Place) -> None:
    place.write(spark.range(0, 8, 1, 4))
    assert len(place.manifest.files) == 4
    assert place.manifest.transaction.number == 1


def test_another_schema_is_another_version_and_the_first_comes_back(spark: SparkSession, place: Place) -> None:
    one, two = spark.sql("SELECT 1L id"), spark.sql("SELECT 2L id, 'Ada' name")
    for frame in (one, two, one):
        place.write(frame)
    manifest = place.manifest
    assert [manifest.versions[file.version] for file in manifest.files] == ["v1", "v2", "v1"]
    assert sorted(map(tuple, place.read(from_version="v2").collect()), key=str) == [(1, None), (2, "Ada")]


def test_other_keys_are_no_other_version_but_are_what_the_catalogue_says(spark: SparkSession, place: Place) -> None:
    frame = spark.sql("SELECT 1L id, 2L other")
    place.write(frame)
    place.write(frame, key_properties='["other"]')
    assert list(place.manifest.versions.values()) == ["v1"]
    (entry,) = place.lake.catalogue(TAP)["streams"]
    assert entry["key_properties"] == ["other"]
    metadata = place.lake.root_metadata()
    assert metadata is not None
    assert list(metadata.taps) == [TAP]


def test_a_key_is_declared_never_null_though_its_column_could_be(spark: SparkSession, place: Place) -> None:
    place.write(spark.createDataFrame([(1, 2)], "id INT, other INT"), key_properties="id")
    (schema,) = place.manifest.schemas.values()
    kinds = {name: described["type"] for name, described in schema.schema["properties"].items()}
    assert kinds == {"id": "integer", "other": ["null", "integer"]}


def test_it_follows_what_a_target_wrote(spark: SparkSession, place: Place) -> None:
    build_stream(place.lake, TAP, STREAM, {"properties": {"id": {"type": "integer"}}}, [{"id": n} for n in range(3)])
    place.write(spark.range(3, 5))
    assert sorted(row.id for row in place.read().collect()) == [0, 1, 2, 3, 4]
    assert place.manifest.next_offset == 5


@pytest.mark.parametrize("partitions", [0, 1, 3])
def test_a_frame_without_rows_commits_no_file(spark: SparkSession, place: Place, partitions: int) -> None:
    empty = spark.range(0, 0, 1, partitions) if partitions else spark.createDataFrame([], "id BIGINT")
    place.write(empty, key_properties="id")
    assert place.files() == set()
    assert place.manifest.next_offset == 0
    assert [(run.status, run.files) for run in place.manifest.runs] == [("finished", 0)]
    assert (place.read().schema.simpleString(), place.read().collect()) == ("struct<id:bigint>", [])
    (emitted,) = replay(place.root, tap_id=TAP).messages
    assert (emitted["type"], emitted["stream"], emitted["key_properties"]) == ("SCHEMA", STREAM, ["id"])
    anew = place.lake.stream(TAP, STREAM).rebuilt(lineage="x")
    assert list(anew.versions.items()) == list(place.manifest.versions.items())
    place.write(spark.range(2), key_properties="id")
    assert place.read().count() == 2
    assert list(place.manifest.versions.values()) == ["v1"]


def test_partitions_without_rows_make_no_files(spark: SparkSession, place: Place) -> None:
    place.write(spark.range(0, 4, 1, 4).filter("id IN (0, 3)"))
    assert [record["id"] for record in place.records()] == [0, 3]
    assert len(place.manifest.files) == 2


@pytest.mark.sampled(stream=2)
@pytest.mark.parametrize(
    "stream", ["../../etc/passwd", 'a"b\\c', "x\ny", "manifest.json", "%2E", "ünï/çode 🦄", "SCHEMA", "s=1/*"]
)
def test_any_name_of_a_stream_stays_in_its_folder_and_its_lines(
    spark: SparkSession, tmp_path: Path, stream: str
) -> None:
    place = Place(spark, str(tmp_path / "lake"), stream)
    place.write(spark.range(2))
    assert {line["stream"] for line in place.lines()} == {stream}
    assert place.lake.streams(TAP) == [stream]
    assert place.read().count() == 2
    assert {path.name for path in tmp_path.iterdir()} == {"lake"}
    place.check()


def test_names_of_columns_are_any_text(spark: SparkSession, place: Place) -> None:
    names = ['a"b', "c\\d", "new\nline", "ü.ï", "type", "SCHEMA"]
    place.write(spark.createDataFrame([tuple(range(6))], names))
    assert place.records() == [dict(zip(names, range(6), strict=True))]
    assert place.read().columns == names
    place.check()


def test_limits_close_files_and_the_rows_stay_in_order(spark: SparkSession, place: Place) -> None:
    place.write(spark.range(0, 25, 1, 2), max_file_records=5, compression_level=9)
    assert [file.records for file in place.manifest.files] == [5, 5, 2, 5, 5, 3]
    assert [record["id"] for record in place.records()] == list(range(25))
    place.check()


def test_files_of_limited_bytes(spark: SparkSession, place: Place) -> None:
    place.write(spark.range(0, 20000, 1, 1).selectExpr("id", "sha2(string(id), 512) noise"), max_file_bytes=200_000)
    sizes = [file.bytes for file in place.manifest.files]
    assert len(sizes) > 3
    assert max(sizes) < 2 * 200_000
    assert place.read().selectExpr("count(*)", "sum(id)").collect() == [(20000, 199990000)]
    place.check()


def test_rebuilt_from_its_files_alone_the_stream_is_in_the_same_order(spark: SparkSession, place: Place) -> None:
    for start in (0, 20):
        place.write(spark.range(start, start + 20, 1, 4), max_file_records=2)
    lake = place.lake
    birth = fold.empty(tap=TAP, stream=STREAM, store="lockfile", lineage="l", created="2026", transaction_id="t")
    rebuilt = rebuild_manifest(lake.storage, birth).manifest
    assert [file.id for file in rebuilt.files] == [file.id for file in place.manifest.files]


def test_a_stream_read_by_spark_can_be_written_to_another(spark: SparkSession, place: Place) -> None:
    place.write(spark.range(0, 10, 1, 2))
    other = Place(spark, place.root, "copy")
    other.write(place.read().filter("id > 4"))
    assert sorted(row.id for row in other.read().collect()) == [5, 6, 7, 8, 9]


def test_text_of_json_is_written_as_text_and_a_variant_as_json(spark: SparkSession, place: Place) -> None:
    place.write(spark.sql("""SELECT '{"a": 1}' text, parse_json('{"a": 1}') json, array(parse_json('[1.5]')) more"""))
    assert place.records() == [{"text": '{"a": 1}', "json": {"a": 1}, "more": [[1.5]]}]


def test_rows_far_larger_than_a_block_are_written_whole(spark: SparkSession, place: Place) -> None:
    place.write(spark.sql("SELECT id, repeat('é\"', 1000000) text FROM range(3)").coalesce(1))
    found = place.read().selectExpr("count(*)", "min(length(text))", "max(length(text))").collect()
    assert found == [(3, 2000000, 2000000)]
    place.check()


def test_streams_are_written_from_threads_each_of_which_knows_the_session(spark: SparkSession, place: Place) -> None:
    def one(name: str) -> int:
        register(spark)
        there = replace(place, stream=name)
        there.write(spark.range(3))
        return len(there.records())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, [f"s{number}" for number in range(6)])) == [3] * 6


def test_singerlake_status_shows_the_run(spark: SparkSession, place: Place) -> None:
    place.write(spark.range(3))
    code = "from singerlake.cli.main import main; main()"
    command = [sys.executable, "-c", code, "status", place.root]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=True)
    assert "completed" in done.stdout
