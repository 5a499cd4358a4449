"""The column of attached files, and their bytes, in a real Spark."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql import datasource as filters

from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.spark import file_bytes
from singerlake.spark.file_reader import FileReader
from singerlake.spark.source import SingerlakeDataSource
from tests.attached.lakes import attach, sha256
from tests.everywhere.erasing import erase
from tests.lakes import build_stream
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from tests.spark.stream.streaming import reader as stream_reader
from tests.spark.stream.streaming import rows as stream_rows

FILES = "_singerlake_files"
BODIES = [b"0", b"1" * 1000, b""]
ATTACHED = [[0], [1, 0], [], [None], [2]]
KIND = "array<struct<property:string,source:string,sha256:string,bytes:bigint,media_type:string,path:string>>"
Load = Callable[..., DataFrame]


def fill(lake: Lake, tap: str = "t", stream: str = "s") -> None:
    files = [[None if number is None else BODIES[number] for number in numbers] for numbers in ATTACHED]
    attach(lake, tap, stream, files, file_size=3, member_size=1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    fill(lake)
    return lake


@pytest.fixture
def load(spark: SparkSession, lake: Lake) -> Load:
    def load(schema: str | None = None, **options: Any) -> DataFrame:
        given = {"path": lake.storage.url, "tap": "t", "stream": "s", "files": "true", **options}
        reader = spark.read.format("singerlake").options(**given)
        return (reader.schema(schema) if schema else reader).load()

    return load


def exploded(found: DataFrame) -> DataFrame:
    return found.select("id", functions.explode(FILES).alias("file"))


def sums(found: DataFrame) -> list[tuple[int, str | None]]:
    return sorted((row.id, row.sha256) for row in exploded(found).select("id", "file.sha256").collect())


ALL = sorted(
    ((id, None if n is None else sha256(BODIES[n])) for id, numbers in enumerate(ATTACHED) for n in numbers), key=str
)


def test_each_row_has_the_files_of_its_record(load: Load) -> None:
    found = load(partition_bytes=1)
    assert found.schema[FILES].dataType.simpleString() == KIND
    assert found.columns == ["id", "n", "photo", FILES, "_rescued_data"]
    assert sorted(sums(found), key=str) == ALL
    assert found.where(f"{FILES} IS NULL OR exists({FILES}, file -> file IS NULL)").count() == 0
    assert [len(row[FILES]) for row in found.orderBy("id").collect()] == list(map(len, ATTACHED))


@pytest.mark.parametrize("files", [None, "false"])
def test_without_the_option_nothing_is_added(spark: SparkSession, lake: Lake, files: str | None) -> None:
    given = {"path": lake.storage.url, "tap": "t", "stream": "s", **({"files": files} if files else {})}
    assert spark.read.format("singerlake").options(**given).load().columns == ["id", "n", "photo", "_rescued_data"]


@pytest.mark.skipif(not hasattr(filters.DataSourceReader, "pushFilters"), reason="this Spark pushes no filters")
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("_singerlake_offset >= 1 and _singerlake_offset < 4", [1, 1, 3]),
        (f"size({FILES}) > 1", [1, 1]),
        (f"_singerlake_offset > 0 and get({FILES}, 0).bytes = 0", [4]),
    ],
)
def test_filters_that_are_pushed_down_leave_the_right_files(
    spark: SparkSession, load: Load, where: str, ids: list[int]
) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found = load(metadata="true", pushdown="true").where(where)
        assert [id for id, _ in sums(found)] == ids
        assert set(sums(found)) <= set(ALL)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_schema_may_name_the_column_whole_or_in_part(load: Load) -> None:
    assert sums(load(f"id BIGINT, {FILES} {KIND}")) == sums(load())
    part = load(f"{FILES} ARRAY<STRUCT<path: STRING, bytes: BIGINT>>, id BIGINT")
    assert sorted(len(row[FILES]) for row in part.collect()) == [0, 1, 1, 1, 2]
    assert part.selectExpr(f"sum(aggregate({FILES}, 0L, (a, f) -> a + coalesce(f.bytes, 0)))").collect() == [(1002,)]


@pytest.mark.parametrize(
    "kind", ["STRING", "ARRAY<STRING>", "ARRAY<STRUCT<more: STRING>>", "ARRAY<STRUCT<bytes: INT>>"]
)
def test_another_type_for_the_column_is_refused(load: Load, kind: str) -> None:
    with pytest.raises(PySparkException, match=r"is the lake's own.*write it as: _singerlake_files ARRAY<STRUCT<"):
        load(f"id BIGINT, {FILES} {kind}").collect()


def test_wrong_options_are_refused(lake: Lake) -> None:
    given = {"path": lake.storage.url, "tap": "t", "stream": "s"}
    with pytest.raises(SettingError, match="option 'files' is neither true nor false"):
        SingerlakeDataSource({**given, "files": "yes"}).schema()
    with pytest.raises(SettingError, match="option 'files' is not known for a table"):
        SingerlakeDataSource({"path": lake.storage.url, "table": "x", "files": "true"}).schema()


def test_a_property_of_that_name_excludes_the_option(load: Load, lake: Lake) -> None:
    build_stream(lake, "t", "own", {"properties": {FILES: {"type": "string"}}}, [{FILES: "mine"}])
    assert load(stream="own", files="false").first()[FILES] == "mine"
    with pytest.raises(PySparkException, match="of their own; leave option 'files' out"):
        load(stream="own")


def test_a_frame_with_the_column_is_not_written_back(load: Load, lake: Lake) -> None:
    given = {"path": lake.storage.url, "tap": "t", "stream": "copy"}
    with pytest.raises(PySparkException, match=f"column '{FILES}' has a name that reading a lake gives"):
        load().drop("_rescued_data").write.format("singerlake").options(**given).mode("append").save()


@pytest.mark.thorough
def test_a_stream_gives_the_files_of_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "streamed"))
    fill(lake, "tap-a", "orders!")
    made = stream_reader(lake, files=True)
    start, end = made.initialOffset(), made.latestOffset()
    found = {row["id"]: [file["sha256"] for file in row[FILES]] for row in stream_rows(made, start, end)}
    assert found == {
        id: [None if n is None else sha256(BODIES[n]) for n in numbers] for id, numbers in enumerate(ATTACHED)
    }
    attach(lake, "tap-a", "orders!", [[b"more"]], first_id=5)
    later = stream_rows(made, end, made.latestOffset())
    assert [[file["sha256"] for file in row[FILES]] for row in later] == [[sha256(b"more")]]

    seen: list[Any] = []
    given = {"path": lake.storage.url, "tap": "tap-a", "stream": "orders!", "files": "true"}
    query = (
        spark.readStream.format("singerlake")
        .options(**given)
        .load()
        .withColumn(
            "content", file_bytes(functions.get(functions.col(FILES), functions.lit(0))["path"], lake.storage.url)
        )
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(lambda batch, _: seen.extend(batch.select("id", "content").collect()))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert {row.id: None if row.content is None else bytes(row.content) for row in seen} == {
        0: BODIES[0],
        1: BODIES[1],
        2: None,
        3: None,
        4: BODIES[2],
        5: b"more",
    }


def contents(found: DataFrame, path: str, **options: Any) -> list[tuple[int, bytes | None]]:
    read = exploded(found).withColumn("content", file_bytes("file.path", path, **options))
    return [
        (row.id, None if row.content is None else bytes(row.content))
        for row in read.orderBy("id", functions.length("content")).select("id", "content").collect()
    ]


EXPECTED = [(0, BODIES[0]), (1, BODIES[0]), (1, BODIES[1]), (3, None), (4, BODIES[2])]


def test_tasks_read_the_bytes(load: Load, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert contents(load(), lake.storage.url) == EXPECTED
    monkeypatch.chdir(Path(lake.storage.url).parent)
    assert contents(load(), "lake") == EXPECTED
    assert contents(load().repartition(3), f"file://{lake.storage.url}/") == EXPECTED


def test_more_files_than_one_answer_holds_keep_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "many"))
    bodies = [str(number).encode() for number in range(2500)]
    attach(lake, "t", "s", [[body] for body in bodies], file_size=5000)
    given = {"path": lake.storage.url, "tap": "t", "stream": "s", "files": "true"}
    found = spark.read.format("singerlake").options(**given).load()
    assert contents(found, lake.storage.url) == sorted(enumerate(bodies), key=lambda each: each[0])


def test_the_options_reach_a_lake_in_s3(spark: SparkSession, s3: S3Server) -> None:
    root = f"s3://{s3.create_bucket(f'bytes-{uuid.uuid4().hex[:12]}')}/a lake"
    fill(Lake.open(root, s3.settings()))
    options = {
        "aws_access_key_id": ACCESS_KEY_ID,
        "aws_secret_access_key": SECRET_ACCESS_KEY,
        "aws_region": REGION,
        "s3_endpoint_url": s3.endpoint_url,
        "s3_path_style": True,
    }
    given = {"path": root, "tap": "t", "stream": "s", "files": "true", **options, "s3_path_style": "true"}
    found = spark.read.format("singerlake").options(**given).load()
    assert exploded(found).first().file.path.startswith(f"{root}/raw/t/s/_files/")
    assert contents(found, root, **options) == EXPECTED


def failure(found: DataFrame, lake: Lake) -> str:
    with pytest.raises(PySparkException) as raised:
        contents(found, lake.storage.url)
    return str(raised.value)


def test_files_that_are_gone_or_damaged_fail_the_job(load: Load, lake: Lake) -> None:
    found = load()
    key = f"raw/t/s/_files/{sha256(BODIES[1])[:2]}/{sha256(BODIES[1])}"
    lake.storage.put(key, b"x" * 1000)
    assert "BrokenFileError: its bytes are not those that were attached; run 'singerlake verify'" in failure(
        found, lake
    )
    lake.storage.delete(key)
    told = failure(found, lake)
    assert "MissingFileError: an attached file is gone: this DataFrame was loaded before gc" in told
    assert key in told


@pytest.mark.parametrize(
    "path",
    [
        "{lake}/raw/t/s/manifest.json",
        "{lake}/raw/t/s/_files/ab/../../manifest.json",
        "{lake}/../../../etc/passwd",
        "{lake}-other/raw/t/s/_files/{two}/{sum}",
        "{lake}/raw/t/s/_files/{two}/{sum}/more",
        "{lake}/raw/../t/_files/{two}/{sum}",
        "raw/t/s/_files/{two}/{sum}",
        "/etc/passwd",
        "",
    ],
)
def test_nothing_else_of_a_machine_is_read(lake: Lake, path: str) -> None:
    digest = sha256(BODIES[0])
    given = path.format(lake=lake.storage.url, two=digest[:2], sum=digest)
    read = FileReader(lake.storage.url, ())
    with pytest.raises(SettingError, match="this is not a path of an attached file of the lake"):
        list(read(iter([pa.array([given])])))


def test_another_column_than_one_of_paths_is_refused(load: Load, lake: Lake) -> None:
    frame = load().where("size(_singerlake_files) > 0").limit(1).withColumn("file", functions.col(FILES)[0])
    with pytest.raises(PySparkException, match="SettingError: this is not a path of an attached file of the lake"):
        frame.select(file_bytes("file", lake.storage.url)).collect()


def test_files_of_erased_records_are_no_rows(load: Load, lake: Lake) -> None:
    erase(lake, "t", "s", [1, 4])
    assert contents(load(), lake.storage.url) == [(0, BODIES[0]), (3, None)]


def test_wrong_options_of_file_bytes_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="option 'tap' is not known; use one of: aws_access_key_id"):
        file_bytes("path", "lake", tap="t")
    with pytest.raises(SettingError, match="path has an unknown scheme"):
        file_bytes("path", "ftp://host/lake")
    monkeypatch.delattr(functions, "arrow_udf")
    with pytest.raises(SettingError, match=r"file_bytes needs pyspark 4\.1 or newer; upgrade pyspark"):
        file_bytes("path", "lake")


def test_what_reads_files_in_tasks_shows_no_secret() -> None:
    assert "hunter2" not in repr(FileReader("s3://bucket/lake", (("aws_secret_access_key", "hunter2"),)))
