"""Lakes in Azure and Google Cloud by Spark: written, read, followed, and made tables of, with no jar added."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from singerlake.lake import Lake
from singerlake.settings import storage_settings
from singerlake.spark import read_table
from singerlake.spark.tasks import spark_tasks
from singerlake.tables.declaration.model import Keep, TableDeclaration
from tests.servers.azurite import ACCOUNT, ACCOUNT_KEY, azurite
from tests.servers.gcs.server import gcs_server

pytestmark = pytest.mark.thorough


@contextmanager
def in_azure() -> Iterator[tuple[str, dict[str, str]]]:
    with azurite() as server:
        server.create_container("lakes")
        endpoint = f"{server.url}/{ACCOUNT}"
        yield "az://lakes/a prefix", {"azure_endpoint_url": endpoint, "azure_account_key": ACCOUNT_KEY}


@contextmanager
def in_google() -> Iterator[tuple[str, dict[str, str]]]:
    with gcs_server() as server:
        server.create_bucket("lakes")
        yield "gs://lakes/a prefix", {"gcs_endpoint_url": server.endpoint_url}


@pytest.mark.parametrize("place", [in_azure, pytest.param(in_google, marks=pytest.mark.soak)])
def test_a_stream_is_written_read_followed_and_made_a_table(
    spark: SparkSession, place: type[object], tmp_path: Path
) -> None:
    with place() as (root, options):  # type: ignore[attr-defined]
        where = {"path": root, "tap": "t", "stream": "s.", **options}

        def write(first: int, end: int) -> None:
            rows = spark.range(first, end, 1, 2)
            rows.write.format("singerlake").options(**where).mode("append").save()

        def follow() -> list[int]:
            rows = spark.readStream.format("singerlake").options(**where).load()
            writing = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = writing.trigger(availableNow=True).start(str(tmp_path / "followed"))
            assert query.awaitTermination(120)
            return [row.id for row in spark.read.parquet(str(tmp_path / "followed")).orderBy("id").collect()]

        write(0, 100)
        assert follow() == list(range(100))
        write(100, 150)
        assert follow() == list(range(150))
        read = spark.read.format("singerlake").options(**where).load()
        assert read.selectExpr("count(*)", "sum(id)").collect() == [(150, sum(range(150)))]
        settings = storage_settings(options)
        lake = Lake.open(root, settings)
        with spark_tasks(root, settings) as engine:
            made = lake.table_runner(lambda _: engine).run(
                TableDeclaration(name="rows", tap="t", stream="s.", keep=Keep.APPEND)
            )
        assert made.run is not None
        assert read_table(spark, root, "rows", **options).count() == 150
