"""When a stream was last written to."""

from __future__ import annotations

from datetime import timedelta

from singerlake.upkeep.reports.census import contents_of
from tests.fakes import FakeClock
from tests.lakes import build_stream
from tests.tables.tables import memory_lake
from tests.upkeep.shelf import SCHEMA


def test_a_rebuild_does_not_make_a_silent_stream_look_fresh() -> None:
    clock = FakeClock()
    lake = memory_lake(clock=clock)
    build_stream(lake, "t", "s", SCHEMA, [{"n": 1}])
    captured = clock.now()
    clock.sleep(timedelta(days=3).total_seconds())
    lake.rebuild("t", "s", discard_manifest=True)
    (stream,) = contents_of(lake, "t", "s").streams
    assert stream.last_write is not None
    assert abs(stream.last_write - captured) < timedelta(minutes=1)
