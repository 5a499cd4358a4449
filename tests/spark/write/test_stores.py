"""Writes through every manifest store, which the options name as the target's settings do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import types as t

from singerlake.lake import Lake
from singerlake.spark.write import prepare, write_options
from tests.spark.write.test_faults import IDS, rows
from tests.spark.write.writes import STREAM, TAP, Place
from tests.stores.stores import KINDS

Config = Callable[[str], dict[str, str]]
SLOW = pytest.mark.soak
"""A commit of it takes ten seconds."""
WIDER = t.StructType([*IDS.fields, t.StructField("more", t.NullType())])


@pytest.mark.sampled(kind=2)
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=SLOW if kind == "merge" else ()) for kind in KINDS])
def test_what_is_written_is_there_in_order_for_readers_without_settings(
    tmp_path: Path, kind: str, store_config: Config
) -> None:
    options = {"path": str(tmp_path), "tap": TAP, "stream": STREAM, **store_config(kind)}
    for start, schema in ((0, IDS), (4, WIDER)):
        job = prepare(write_options(options), schema, False)
        tasks = [rows(start, start + 1), rows(start + 2), rows(start + 3)]
        job.commit([job.write(iter([batch])) for batch in tasks])
    broken = prepare(write_options(options), IDS, False)
    broken.abort([broken.write(iter([rows(9)])), None])
    stream = Place(None, str(tmp_path))  # type: ignore[arg-type]
    assert [record["id"] for record in stream.records()] == list(range(8))
    manifest = stream.manifest
    assert manifest.store == kind
    assert list(manifest.versions.values()) == ["v1", "v2"]
    assert [(run.status, run.files, run.records) for run in manifest.runs] == [
        ("finished", 3, 4),
        ("finished", 3, 4),
        ("failed", 0, 0),
    ]
    lake = Lake.open(str(tmp_path))
    metadata = lake.root_metadata()
    assert metadata is not None
    assert metadata.manifest_store == kind
    stream.check(orphans=1)
