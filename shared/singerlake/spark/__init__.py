"""Spark reads a lake: ``spark.read.format("singerlake")``.

Spark finds the format by itself (see ``pyspark_singerlake``); ``register`` is for when it does not. ``read_streams``
reads several streams of a tap in one call, ``read_table`` a table, and ``create_views`` makes SQL views of all tables.
``file_bytes`` gives the bytes of files that are attached to records.
``spark_engine`` lets a session do the work of ``Lake.project``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from singerlake.spark.files import file_bytes
from singerlake.spark.streams import read_streams
from singerlake.spark.tables.views import create_views, read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from singerlake.lake import Lake
    from singerlake.work.engine import Engine

__all__ = ["create_views", "file_bytes", "read_streams", "read_table", "register", "spark_engine"]


def register(spark: SparkSession) -> None:
    """Make the format ``singerlake`` known to one session: with Spark Connect, whose server looks in its own
    environment, or where the discovery of data sources failed. Where it is known already, nothing changes.

    Make that session the one of this thread, too: a write looks for its format in the thread's session, which pyspark
    sets in the thread that made it and in no other."""
    from pyspark.errors import AnalysisException

    from singerlake.spark.source import SingerlakeDataSource

    try:
        spark.dataSource.register(SingerlakeDataSource)
    except AnalysisException as error:
        # Only pyspark 4.0 refuses to register what it found by itself; later ones replace it.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    # Of all that pyspark offers, this makes the session the thread's.
    spark.createDataFrame([], "nothing INT")


def spark_engine(spark: SparkSession, lake: Lake) -> Engine:
    """What lets tasks of a session, classic or Connect, do the work of ``lake.project(..., engine=...)``. They read and
    write the lake themselves, so its root has to mean the same place to all workers."""
    from singerlake.spark.tasks import ALL_AT_ONCE, SparkTasks

    return SparkTasks(spark, lake.storage.url, lake.settings, ALL_AT_ONCE)
