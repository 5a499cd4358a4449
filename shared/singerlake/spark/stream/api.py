"""What newer versions of pyspark have for sources of streams: limits on a batch, and ``Trigger.AvailableNow``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singerlake.errors import SettingError
from singerlake.spark.options import Limits

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before pyspark 4.2, which pins the end of such a query by itself
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

__all__ = ["SupportsTriggerAvailableNow", "check_supported", "default_limit", "limits_under"]


def check_supported(limits: Limits) -> None:
    """Raise ``SettingError`` where limits are asked for, and this pyspark has no way to keep them."""
    if limits and SupportsTriggerAvailableNow is object:
        raise SettingError(
            "options 'maxRecordsPerTrigger', 'maxFilesPerTrigger' and 'maxBytesPerTrigger' need pyspark 4.2 or newer",
            hint="leave them out, or upgrade pyspark",
        )


def default_limit(limits: Limits) -> ReadLimit:
    """``limits`` as Spark takes them. It takes one limit only, and gives it back; the others are applied with it."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

    if limits.records is not None:
        return ReadMaxRows(limits.records)
    if limits.files is not None:
        return ReadMaxFiles(limits.files)
    if limits.bytes is not None:
        return ReadMaxBytes(limits.bytes)
    return ReadAllAvailable()


def limits_under(given: ReadLimit | None, own: Limits) -> Limits:
    """The limits of a batch: the query's ``own``, and what Spark says. It says ``ReadAllAvailable``, or with an older
    pyspark nothing, where the trigger means that all there is be read at once."""
    if given is None:
        return Limits()
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

    if isinstance(given, ReadAllAvailable):
        return Limits()
    if isinstance(given, ReadMaxRows):
        return own.within(Limits(records=given.max_rows))
    if isinstance(given, ReadMaxFiles):
        return own.within(Limits(files=given.max_files))
    if isinstance(given, ReadMaxBytes):
        return own.within(Limits(bytes=given.max_bytes))
    return own
