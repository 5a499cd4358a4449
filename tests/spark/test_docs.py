"""The examples of the pages on Spark, run as somebody would who has such a lake: they differ from what is printed only
in where the lake and the results lie."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from singerlake.lake import Lake
from tests.attached.lakes import attach
from tests.lakes import activate_version_line, build_stream, record_line
from tests.spark.stream.streaming import needs_limits

DOCS = Path(__file__).parents[2] / "docs/how-to"
V1 = {"properties": {"id": {"type": "integer"}, "user_id": {"type": "integer"}}}
V2 = {"properties": {**V1["properties"], "total": {"type": "number"}}}


SCANS = {"properties": {"name": {"type": "string"}}}


def a_scan(stream: str, number: int) -> bytes:
    return record_line(stream, {"name": f"{number}.pdf"})


def examples(page: str, language: str, where: Path) -> list[str]:
    text = (DOCS / page).read_text().replace("s3://bucket/", f"{where}/")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    build_stream(lake, "tap-shop", "orders", V1, [{"id": n, "user_id": n % 2} for n in range(3)])
    build_stream(lake, "tap-shop", "orders", V2, [{"id": n, "user_id": n % 2, "total": 0.5} for n in range(3, 7)])
    build_stream(lake, "tap-shop", "users", V1, [{"id": n, "user_id": n} for n in range(2)])
    attach(lake, "office", "scans", [[b"a", b"b"], []], schema=SCANS, line=a_scan)
    stock = [record_line("stock", {"id": n % 3}, version=n // 3) for n in range(5)]
    build_stream(lake, "tap-shop", "stock", V1, [*stock, activate_version_line("stock", 1), *stock[:1]])
    return lake


def run(spark: SparkSession, page: str, where: Path, **names: object) -> dict[str, object]:
    """All Python of a page, from top to bottom."""
    known: dict[str, object] = {"spark": spark, **names}
    found = examples(page, "python", where)
    assert found
    for example in found:
        exec(compile(example, page, "exec"), known)
    return known


def test_the_page_on_batches(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    made = run(spark, "spark.md", tmp_path)
    orders, left = made["orders"], made["left"]
    assert isinstance(orders, DataFrame)
    assert orders.count() == 4
    assert isinstance(left, DataFrame)
    assert sorted(left.select("_singerlake_offset").collect()) == [(3,), (4,), (6,)]
    contents = made["contents"]
    assert isinstance(contents, DataFrame)
    assert [(row.name, bytes(row.content)) for row in contents.orderBy("file.bytes", "content").collect()] == [
        ("0.pdf", b"a"),
        ("0.pdf", b"b"),
    ]
    (statement,) = examples("spark.md", "sql", tmp_path)
    spark.sql(statement.rstrip().rstrip(";"))
    try:
        assert spark.sql("SELECT sum(total) FROM orders").collect() == [(2.0,)]
    finally:
        spark.catalog.dropTempView("orders")
        spark.catalog.dropTempView("stock")


@pytest.mark.thorough
@needs_limits
def test_the_page_on_streams(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    run(spark, "spark-streaming.md", tmp_path)
    wider = {"properties": {**V2["properties"], "user_id": {"type": "string"}, "more": {"type": "string"}}}
    build_stream(lake, "tap-shop", "orders", wider, [{"id": 7, "user_id": "A", "more": "b", "other": 1}, {"id": 8}])
    run(spark, "spark-streaming.md", tmp_path)
    found = spark.read.parquet(str(tmp_path / "orders"))
    assert found.columns == ["id", "user_id", "total", "_rescued_data"]
    assert [row.id for row in found.orderBy("id").collect()] == list(range(9))
    assert found.where("_rescued_data IS NOT NULL").collect() == [(7, None, None, '{"user_id":"A","other":1}')]


def test_the_page_on_writing(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    run(spark, "spark-writing.md", tmp_path, frame=spark.sql("SELECT id, id / 2 AS score FROM range(5)"))
    scores = lake.existing_stream("spark-scores", "scores")
    assert scores.to_arrow().read_all().column("score").to_pylist() == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_the_page_on_clusters(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    frames = run(spark, "spark-cluster.md", tmp_path)["frames"]
    assert isinstance(frames, dict)
    assert {name: frame.count() for name, frame in frames.items()} == {"orders": 4, "users": 2}
