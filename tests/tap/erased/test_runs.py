"""Whole runs of the tap over a stream with erased records: records, states, batches and the lake's own columns."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from singerlake.lake import Lake
from tests.everywhere.erasing import erase, holes_of
from tests.lakes import activate_version_line, build_stream
from tests.tap.batch.support import batch_config, both, raw_records, unpacked
from tests.tap.runs import V1, make_tap, replay

ACTIVATED = 44
GONE = [0, 4, 5, *range(21, 40), 41, 59, *range(60, 80), *range(95, 100)]
LEFT = [offset for offset in range(100) if offset not in GONE and offset != ACTIVATED]


@pytest.fixture
def full(lake: Lake) -> Lake:
    """Offsets 0 to 99, twenty a file, seven a gzip member, each record with its offset as id."""
    lines = [activate_version_line("s", 1) if n == ACTIVATED else {"id": n} for n in range(100)]
    build_stream(lake, "tap-a", "s", V1, lines, file_size=20, member_size=7, key_properties=["id"])
    return lake


@pytest.fixture
def erased(full: Lake) -> Lake:
    """The same without some: a whole file, the end of the last one, and single ones are holes."""
    erase(full, "tap-a", "s", GONE)
    assert holes_of(full, "tap-a", "s") == [3, 19, 2, 20, 5]
    return full


def ids(out) -> list[int]:
    return [record["id"] for record in out.records()]


def offset_of(out) -> int:
    return out.state["bookmarks"]["s"]["offset"]


def test_a_run_from_the_beginning_gives_what_is_left(erased, root):
    out = replay(root)
    assert ids(out) == LEFT
    assert len(out.of("ACTIVATE_VERSION")) == 1
    assert b"ERASED" not in out.text
    assert offset_of(out) == 100
    assert ids(replay(root, state=out.state)) == []


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 17, 38, 50, 51, 52])
def test_runs_with_a_limit_add_up_to_one_without(erased, root, most):
    found, state = [], None
    while out := replay(root, state=state, max_records=most):
        found += ids(out)
        assert len(out.records()) <= most
        if not out.records():
            break
        state = out.state
    assert found == LEFT
    assert offset_of(out) == 100


@pytest.mark.parametrize("every", [1, 2, 5, 1000])
def test_every_state_of_a_run_is_one_to_go_on_from(erased, root, every):
    out = replay(root, state_every_records=every)
    given, since = [], 0
    for message in out.messages:
        if message["type"] == "RECORD":
            given.append(message["record"]["id"])
        since = 0 if message["type"] == "STATE" else since + (message["type"] in ("RECORD", "ACTIVATE_VERSION"))
        assert since <= every
        if message["type"] == "STATE":
            assert given + ids(replay(root, state=message["value"])) == LEFT


@pytest.mark.parametrize("most", [1, 4, 30, 60, 78])
def test_a_state_from_before_the_erasure_goes_on_behind_it(full, root, most):
    before = replay(root, max_records=most)
    reached = offset_of(before)
    erase(full, "tap-a", "s", GONE, now=True)
    assert ids(before) + ids(replay(root, state=before.state)) == [
        *(offset for offset in range(reached) if offset != ACTIVATED),
        *(offset for offset in LEFT if offset >= reached),
    ]


def test_the_lake_s_columns_are_right_around_holes(erased, root):
    (path, *_) = [file.path for file in erased.stream("tap-a", "s").snapshot().files]
    out = replay(root, include_lake_metadata=True, state_every_records=3)
    assert [(row["id"], row["_singerlake_offset"]) for row in out.records()] == [(at, at) for at in LEFT]
    assert {row["_singerlake_file"] for row in out.records() if row["id"] < 20} == {path}


def test_stream_maps_see_no_hole(erased, root):
    out = replay(root, stream_maps={"s": {"double": "int(id) * 2", "__filter__": "id >= 50"}})
    assert [row["double"] for row in out.records()] == [2 * at for at in LEFT if at >= 50]
    assert offset_of(out) == 100


@pytest.mark.parametrize("encoding", [{"compression": "gzip"}, {"compression": "none"}, {"format": "parquet"}])
def test_batch_files_hold_no_holes(erased, root, tmp_path, encoding):
    config = batch_config(tmp_path / "batches", batch_size=20, **encoding)
    plain, batched = both(root, tmp_path / "batches", batch_config=config)
    messages = batched.of("BATCH")
    assert offset_of(batched) == offset_of(plain) == 100
    if encoding.get("format") == "parquet":
        tables = [pq.read_table(url.removeprefix("file://")) for each in messages for url in each["manifest"]]
        assert [each for table in tables for each in table.column("id").to_pylist()] == LEFT
        return
    lines = [raw_records(message) for message in messages]
    assert all(0 < len(part) <= 20 for part in lines)
    assert [b'{"id": %d}' % offset for offset in LEFT] == [line for part in lines for line in part]
    assert [each[1]["id"] for each in unpacked(batched) if isinstance(each, tuple)] == LEFT


def test_batches_of_runs_with_a_limit_add_up(erased, root, tmp_path):
    found, state = [], None
    for _ in range(20):
        plain, batched = both(root, tmp_path / "batches", state=state, max_records=7)
        found += [each[1]["id"] for each in unpacked(batched) if isinstance(each, tuple)]
        assert batched.state == plain.state
        state = batched.state
    assert found == LEFT


def test_records_one_by_one_are_those_that_are_left(erased, root):
    (stream,) = make_tap(root).streams.values()
    assert [row["id"] for row in stream.get_records(None)] == LEFT


def test_a_stream_that_is_all_holes_gives_its_schema_and_a_state(full, root):
    erase(full, "tap-a", "s", [at for at in range(100) if at != ACTIVATED])
    out = replay(root)
    assert [message["type"] for message in out.messages] == ["SCHEMA", "ACTIVATE_VERSION", "STATE", "STATE"]
    assert offset_of(out) == 100
    assert replay(root, state=out.state).of("RECORD") == []
