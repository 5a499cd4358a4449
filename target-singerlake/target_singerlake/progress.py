"""How far a run is, in log lines and on a terminal, and its summary for a person and for Meltano."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from singer_sdk.metrics import Counter, record_counter

from singerlake.humanize import counted, size
from singerlake.terminal import Bar
from target_singerlake.files.publishing import Committed

EVERY_SECONDS = 25.0
"""Between two lines of progress; the promise is thirty at most, and a long block may come between."""


@dataclass
class _StreamCounts:
    counter: Counter
    records: int = 0
    counted: int = 0
    files: int = 0
    committed: int = 0
    bytes: int = 0
    versions: dict[str, None] = field(default_factory=dict)


class Progress:
    """Counts per stream, and in singer-sdk's counters. ``bar`` is there while somebody looks on a terminal."""

    bar: Bar | None = None

    def __init__(self, logger: logging.Logger, monotonic: float) -> None:
        self._logger = logger
        self._tallies: dict[str, _StreamCounts] = {}
        self._began = monotonic
        self._said = monotonic
        self._raw_bytes = 0
        self._files = 0

    def seen(self, stream: str) -> None:
        if stream not in self._tallies:
            self._tallies[stream] = _StreamCounts(record_counter(stream))

    def read(self, raw_bytes: int) -> None:
        self._raw_bytes += raw_bytes

    def records(self, stream: str, count: int) -> None:
        self._tallies[stream].records += count

    def committed(self, committed: Committed) -> None:
        tally = self._tallies[committed.growing.schema.stream]
        tally.files += 1
        tally.committed += committed.file.records
        tally.bytes += committed.file.bytes
        tally.versions[committed.manifest.versions.get(committed.file.version, committed.file.version)] = None
        self._files += 1

    def next_line(self) -> float:
        """When, on the monotonic clock, the next line of progress is due."""
        return self._said + EVERY_SECONDS

    def tick(self, monotonic: float) -> None:
        """Show how far it is, and log it if it is time."""
        if self.bar is not None:
            self.bar.show("capture", self._raw_bytes, None)
            self.bar.note = f"{counted(self._records(), 'record')}, {counted(self._files, 'file')}"
        if monotonic < self.next_line():
            return
        self._said = monotonic
        self._count()
        self._logger.info(
            "%s read (%s, %d s), %s committed",
            counted(self._records(), "record"),
            size(self._raw_bytes),
            monotonic - self._began,
            counted(self._files, "file"),
        )

    def summary(self) -> None:
        """One line per stream, and the last values of singer-sdk's counters."""
        self._count()
        for stream, tally in self._tallies.items():
            tally.counter.exit()
            self._logger.info(
                "Stream %r: %s in %s, %s, versions %s%s",
                stream,
                counted(tally.committed, "record"),
                counted(tally.files, "file"),
                size(tally.bytes),
                ", ".join(tally.versions) or "none",
                f"; {counted(tally.records - tally.committed, 'record')} read and not committed"
                if tally.records != tally.committed
                else "",
            )

    def _records(self) -> int:
        return sum(tally.records for tally in self._tallies.values())

    def _count(self) -> None:
        """Pass on to singer-sdk's counters what was read since the last time; they look at the clock at every call."""
        for tally in self._tallies.values():
            if tally.records > tally.counted:
                tally.counter.increment(tally.records - tally.counted)
                tally.counted = tally.records
