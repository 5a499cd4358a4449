"""A lake on S3 read by a real Spark, with no jar added: our own storage does the reading, in the tasks too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from singerlake.lake import Lake
from tests.lakes import build_stream
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server, s3_server

ROOT = "s3://lakes/with/a prefix"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        server.create_bucket("lakes")
        schema = {"properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
        records = [{"id": n, "name": f"é{n}"} for n in range(1000)]
        build_stream(
            Lake.open(ROOT, server.settings()), "tap", "people", schema, records, file_size=600, member_size=50
        )
        yield server


def load(spark: SparkSession, **options: str) -> DataFrame:
    chosen = {"path": ROOT, "tap": "tap", "stream": "people", **options}
    return spark.read.format("singerlake").options(**chosen).load()


def keys(server: S3Server) -> dict[str, str]:
    return {
        "aws_access_key_id": ACCESS_KEY_ID,
        "aws_secret_access_key": SECRET_ACCESS_KEY,
        "aws_region": REGION,
        "s3_endpoint_url": server.endpoint_url,
        "s3_path_style": "true",
    }


def test_with_credentials_in_the_options_every_member_is_read_once(spark: SparkSession, server: S3Server) -> None:
    found = load(spark, **keys(server), partition_bytes="16000")
    assert found.rdd.getNumPartitions() > 2
    assert found.selectExpr("count(*)", "sum(id)", "max(name)").collect() == [(1000, 499500, "é999")]


def test_with_credentials_from_the_workers_own_configuration(
    spark: SparkSession, server: S3Server, aws_config: Path
) -> None:
    aws_config.write_text(
        f"[profile lake]\nregion = {REGION}\naws_access_key_id = {ACCESS_KEY_ID}\n"
        f"aws_secret_access_key = {SECRET_ACCESS_KEY}\n"
    )
    found = load(spark, aws_profile="lake", s3_endpoint_url=server.endpoint_url)
    assert found.count() == 1000


def test_without_credentials_the_driver_says_so(spark: SparkSession, server: S3Server) -> None:
    with pytest.raises(PySparkException, match="AccessDenied"):
        load(spark, s3_endpoint_url=server.endpoint_url, aws_region=REGION)


def test_a_bucket_that_is_not_there_is_named(spark: SparkSession, server: S3Server) -> None:
    with pytest.raises(PySparkException, match="NoSuchBucket"):
        load(spark, **keys(server), path="s3://nowhere/x")


def test_a_reply_cut_short_is_read_again_or_an_error_and_never_fewer_rows(
    spark: SparkSession, server: S3Server
) -> None:
    found = load(spark, **keys(server))
    server.truncate(times=1, key_contains=".singer.gz")
    try:
        assert found.count() == 1000
    finally:
        server.calm()


def test_secrets_stay_out_of_plans_and_errors(
    spark: SparkSession, server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    found = load(spark, **keys(server))
    found.explain(True)
    shown = capsys.readouterr().out + str(found._jdf.queryExecution())
    server.fail("GET", status=403, code="AccessDenied", times=-1, key_contains=".singer.gz")
    try:
        with pytest.raises(PySparkException) as raised:
            found.collect()
    finally:
        server.calm()
    assert "AccessDenied" in str(raised.value)
    assert SECRET_ACCESS_KEY not in shown + str(raised.value)
