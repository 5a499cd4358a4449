"""A Java for the tests that start Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from singerlake.spark.java import Java, ensure_java

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for seconds: its better compiler takes longer than what it saves."""
DRIVERS = {"SPARK_LAUNCHER_OPTS": QUICK, "SPARK_SUBMIT_OPTS": QUICK}
"""What the environment says to each driver of Spark."""


@pytest.fixture(scope="session")
def java() -> Iterator[Java]:
    """The Java that Spark finds in this process and in those it starts, until the session ends."""
    environ = dict(os.environ)
    found = ensure_java(environ)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
            patch.setenv(name, environ[name])
        for name, options in DRIVERS.items():
            patch.setenv(name, options)
        yield found
