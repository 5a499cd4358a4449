"""One Spark session for all tests of this folder, in a time zone that is not UTC: nothing may depend on it.

Its workers look for AWS credentials in files of the tests' own, never in those of whoever runs them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from singerlake.spark.java import Java


@pytest.fixture(scope="session")
def aws_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The AWS configuration file of Spark's workers; a test may write it."""
    return tmp_path_factory.mktemp("aws") / "config"


@pytest.fixture(scope="session")
def spark(java: Java, aws_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two cores."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        # Workers inherit the environment of the Java that starts them, which is the one of this moment.
        patch.setenv("AWS_CONFIG_FILE", str(aws_config))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(aws_config.with_name("credentials")))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "preload"), prepend=os.pathsep)
        session = _session(folder)
    yield session
    session.stop()


def _session(folder: Path) -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder))
        .getOrCreate()
    )
