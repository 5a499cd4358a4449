"""The target with each manifest store: what it captures is read with nothing but the lake root."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.stores.publish import publish_manifest, published
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.upkeep.verify import verify_stream
from tests.faults.support.haste import hasten
from tests.stores.stores import KINDS
from tests.target.support import TAP, WIDER, ingest, kept_ids, manifest, record, records, run, schema, state

Config = Callable[[str], dict[str, str]]
LINES = [schema(), *records(0, 1, 2), state({"at": 3}), schema(schema=WIDER), *records(3, 4, 5), state({"at": 6})]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_captured_is_there_in_order_for_readers_without_settings(
    tmp_path: Path, kind: str, store_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "merge":
        hasten(monkeypatch)
    settings = store_config(kind)
    emitted = ingest(tmp_path, LINES, max_file_records=1, **settings)
    assert json.loads(emitted[-1]) == {"at": 6}
    emitted = ingest(tmp_path, [schema(), *records(6), state({"at": 7})], **settings)
    assert [json.loads(line) for line in emitted] == [{"at": 7}]
    assert kept_ids(tmp_path) == list(range(7))
    found = manifest(tmp_path)
    assert found.store == kind
    assert list(found.versions.values()) == ["v1", "v2"]
    assert [(each.status, each.records) for each in found.runs] == [("finished", 6), ("finished", 1)]
    lake = Lake.open(str(tmp_path))
    metadata = lake.root_metadata()
    assert metadata is not None
    assert metadata.manifest_store == kind
    stream = lake.stream(TAP, "users")
    assert verify_stream(lake.storage, TAP, "users", stream.state).findings == ()


@pytest.mark.sampled(kind=2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_failing_run_commits_what_came_before_and_says_how_it_ended(
    tmp_path: Path, kind: str, store_config: Config
) -> None:
    lines = [schema(), *records(0, 1), state({"at": 2}), b"not JSON"]
    done = run(tmp_path / "lake", tmp_path, lines, **store_config(kind))
    assert done.code == 1
    assert done.last_state == {"at": 2}
    assert kept_ids(tmp_path / "lake") == [0, 1]
    assert [each.status for each in manifest(tmp_path / "lake").runs] == ["failed"]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_lake_keeps_the_store_it_began_with(tmp_path: Path, kind: str, store_config: Config) -> None:
    ingest(tmp_path, LINES)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(SettingError, match=f"manifest_store is '{kind}', this lake's is 'lockfile'"):
        ingest(tmp_path, LINES, **store_config(kind))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_without_the_setting_a_writer_goes_on_with_the_lake_s_store(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(), *records(0)], manifest_store="log")
    ingest(tmp_path, [schema(), *records(1), schema("other"), record(2, "other")])
    assert [manifest(tmp_path, name).store for name in ("users", "other")] == ["log", "log"]
    assert kept_ids(tmp_path) == [0, 1]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "postgres without a URL": ({"manifest_store": "postgres"}, "postgres_url"),
    "postgres that is not there": (
        {"manifest_store": "postgres", "postgres_url": "postgresql://ada:hunter2@127.0.0.1:1/x", "patience_seconds": 1},
        "postgres_url",
    ),
    "a URL of something else": (
        {"manifest_store": "postgres", "postgres_url": "mysql://ada:hunter2@h/x"},
        "postgres_url",
    ),
    "a table without a name": ({"manifest_store": "dynamodb", "dynamodb_table": " "}, "dynamodb_table"),
    "an endpoint that is none": (
        {"manifest_store": "dynamodb", "dynamodb_endpoint_url": "nowhere"},
        "dynamodb_endpoint_url",
    ),
    "clocks too tolerant of nothing": ({"manifest_store": "merge", "merge_stale_seconds": "0"}, "merge_stale_seconds"),
    "no snapshot ever": ({"manifest_store": "log", "snapshot_transactions": "0"}, "snapshot_transactions"),
    "a snapshot at once": ({"manifest_store": "log", "snapshot_minutes": "-1"}, "snapshot_minutes"),
}


@pytest.mark.sampled(case=2)
@pytest.mark.parametrize("case", BAD)
def test_a_store_that_cannot_work_is_named_and_no_data_is_written(tmp_path: Path, case: str) -> None:
    settings, named = BAD[case]
    done = run(tmp_path / "lake", tmp_path, LINES, **settings)
    assert done.code != 0
    assert done.states == []
    assert named in done.log
    assert "hunter2" not in done.log
    assert not list((tmp_path / "lake").rglob("*.singer.gz"))
    assert not list((tmp_path / "lake").rglob("manifest.json"))


def test_readers_of_a_log_see_what_is_not_published_yet(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(), *[record(id) for id in range(30)]], manifest_store="log", max_file_records=1)
    lake, key = Lake.open(str(tmp_path)), "raw/tap-test/users/manifest.json"
    # How many transactions those files were, and so what the next one is due for, is a matter of time.
    publish_manifest(SegmentObjects(lake.storage, "tap-test", "users"), manifest(tmp_path))
    ingest(tmp_path, [schema(), *records(30)])
    there = published(lake.storage, key)
    state = manifest(tmp_path)
    assert there is not None
    assert there.number < state.transaction.number
    assert kept_ids(tmp_path) == list(range(31))
