"""Where Spark finds the format ``singerlake``: it imports every top-level module named ``pyspark_*`` and looks for
``DefaultSource`` in it (pyspark 4.0 and newer). Without pyspark there is none, and nothing fails."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    from singerlake.spark.source import SingerlakeDataSource as DefaultSource  # noqa: F401
