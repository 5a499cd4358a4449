"""What Spark's processes of Python import before they are forked. Spark starts a daemon for each kind of work and
forks a process from it for each plan and task, which otherwise imports for longer than it works.

Python imports this module by its name when it starts. In other processes it does nothing."""

import importlib
import sys

NEEDED = (
    "pandas",
    "pyarrow.compute",
    "pyspark.sql.worker.plan_data_source_read",
    "singerlake.arrow.scan",
    "singerlake.spark.batch.plan",
    "singerlake.spark.batch.reader",
    "singerlake.spark.lake",
    "singerlake.spark.source",
    "singerlake.spark.stream.reader",
    "singerlake.spark.write",
)

if "pyspark.daemon" in sys.orig_argv:
    for name in NEEDED:
        importlib.import_module(name)
