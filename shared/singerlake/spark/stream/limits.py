"""How much of what is new one batch of a streaming query takes. Pure: offsets and the manifest's own figures."""

from __future__ import annotations

from collections.abc import Iterable

from singerlake.arrow.plan.splits import runs
from singerlake.errors import SettingError
from singerlake.format.state.files.data_file import DataFile
from singerlake.spark.options import Limits


def no_limits_in_batch(limits: Limits) -> None:
    """Raise ``SettingError`` for limits on a read that has no triggers: it would read more than was meant."""
    if limits:
        raise SettingError(
            "options 'maxRecordsPerTrigger', 'maxFilesPerTrigger' and 'maxBytesPerTrigger' are for streams",
            hint="use spark.readStream, or 'from_offset' and 'to_offset'",
        )


def admitted(files: Iterable[DataFile], first: int, stop: int, limits: Limits) -> int:
    """The offset at which a batch from ``first`` on ends, ``stop`` at most. ``files`` are those that hold what the
    query selects of [first, stop), in offset order; what lies between them counts for nothing.

    There is at least one message in a batch, however large, so that no limit brings a query to a stand.
    """
    end, records, budget = first, limits.records, limits.bytes
    for count, file in enumerate(files):
        begin, whole = max(file.offset, first), min(file.end, stop)
        close = whole
        if count == limits.files:
            return end
        if records is not None:
            close = min(close, begin + records)
        cost = 0
        if budget is not None:
            close, cost = _affordable(file, begin, close, budget)
        if count == 0:
            close = max(close, begin + 1)
        if close < whole:
            return close if close > begin else end
        end = close
        if records is not None:
            records -= close - begin
        if budget is not None:
            budget = max(0, budget - cost)
    return stop


def _affordable(file: DataFile, first: int, stop: int, budget: int) -> tuple[int, int]:
    """How far into [first, stop) of a file ``budget`` raw bytes reach, and what that costs. Whole members as long as
    they do, since the rest of a member is decompressed twice; a part of the first one where it alone is too large."""
    end, cost = first, 0
    for run in runs((file,), first, stop, 1):
        price = -(-run.raw_bytes * (run.stop - run.first) // run.messages)
        if cost + price > budget:
            if end == first:
                end += budget * run.messages // run.raw_bytes
            break
        end, cost = run.stop, cost + price
    return end, cost
