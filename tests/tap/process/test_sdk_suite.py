"""The Singer SDK's own test suite for taps, on both roads."""

from __future__ import annotations

import atexit
import shutil
import tempfile

from singer_sdk.testing import SuiteConfig, get_tap_test_class

from singerlake.lake import Lake
from tap_singerlake.tap import TapSingerlake
from tests.lakes import build_stream
from tests.processes.signals import signals_kept

# The suite asks for the tap's streams while tests are collected, before any fixture exists.
ROOT = tempfile.mkdtemp(prefix="singerlake-sdk-suite-")
atexit.register(shutil.rmtree, ROOT, ignore_errors=True)

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
        "on": {"type": ["null", "boolean"]},
        "price": {"type": ["null", "number"]},
        "place": {"type": ["null", "object"], "properties": {"lat": {"type": "number"}}},
    },
    "required": ["id"],
}
RECORDS = [
    {
        "id": number,
        "name": f"n{number}",
        "at": "2026-01-01T00:00:00+00:00",
        "on": number % 2 == 0,
        "price": number / 4,
        "place": {"lat": 1.5},
    }
    for number in range(40)
]
CONFIG = {"lake_root": ROOT, "tap_id": "tap-a"}
MAPPED = {**CONFIG, "stream_maps": {"orders": {"double": "int(id) * 2", "name": None}}}

for name in ("orders", "test:SpecialChars!in?attributes"):
    build_stream(Lake.open(ROOT), "tap-a", name, SCHEMA, RECORDS, file_size=15, key_properties=["id"])

with signals_kept():
    TestRawRoad = get_tap_test_class(TapSingerlake, config=CONFIG, suite_config=SuiteConfig(max_records_limit=30))
    TestMappedRoad = get_tap_test_class(TapSingerlake, config=MAPPED)
