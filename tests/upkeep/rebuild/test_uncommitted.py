"""Files of atomic runs in a rebuild: those that no decision commits are left out, unless no decision is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.errors import CommitRefusedError, CorruptObjectError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.stores.atomic.commit_run import AtomicRun
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.rebuild.repair import Repair
from tests.target.support import TAP, ingest, kept_ids, records, schema, state

ATOMIC = {"atomic_run": True, "manifest_store": "log"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A committed run of records 0 and 1, one of 5 and 6 that failed, and a plain one of 8."""
    ingest(tmp_path, [schema(), *records(0, 1), state(1)], **ATOMIC)

    def refuse(run: AtomicRun) -> None:
        raise CommitRefusedError("not now")

    # It fails when all of its files are uploaded: one that fails in its input may not have come to that.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("target_singerlake.files.publishing.commit_run", refuse)
        with pytest.raises((CommitRefusedError, SystemExit)):
            ingest(tmp_path, [schema(), *records(5, 6)], **ATOMIC)
    ingest(tmp_path, [schema(), *records(8)], manifest_store="log")
    return tmp_path


def lose_the_state(root: Path) -> None:
    prefix = root / layout.stream_prefix(TAP, "users")
    (prefix / "manifest.json").unlink()
    for entry in (prefix / "_log").iterdir():
        entry.unlink()


def rebuild(root: Path, **options: bool) -> Repair:
    lake = Lake.open(str(root))
    stream = lake.stream(TAP, "users")
    context = StreamContext(lake.storage, TAP, "users", lake.clock, lake.ids, stream.store("log"))
    return repair_stream(context, RepairOptions(**options), lake_id=lake.known_lake_id())


def test_a_run_that_was_not_committed_is_left_out(root: Path) -> None:
    lose_the_state(root)
    assert kept_ids(root) == [0, 1, 8]
    repair = rebuild(root)
    assert [(finding.kind, finding.problem) for finding in repair.findings] == [("uncommitted", False)]
    assert kept_ids(root) == [0, 1, 8]
    assert [gone.path for gone in repair.after.retired] == []
    assert len(list(root.rglob("*.singer.gz"))) == 3


def test_where_no_decision_is_left_nothing_is_left_out(root: Path) -> None:
    lose_the_state(root)
    for decision in (root / layout.commits_prefix(TAP)).iterdir():
        decision.unlink()
    assert kept_ids(root) == [0, 1, 5, 6, 8]
    rebuild(root)
    assert kept_ids(root) == [0, 1, 5, 6, 8]


def test_what_the_state_lists_stays_though_its_decision_is_gone(root: Path) -> None:
    ingest(root, [schema(), *records(9), state(1)], **ATOMIC)
    first = min((root / layout.commits_prefix(TAP)).glob("*.json"))
    first.unlink()
    repair = rebuild(root, discard=True)
    assert kept_ids(root) == [0, 1, 8, 9]
    assert [finding.kind for finding in repair.findings] == ["uncommitted"]


def test_adopting_takes_no_file_of_a_run_that_was_not_committed(root: Path) -> None:
    assert not rebuild(root, adopt=True).needed
    assert kept_ids(root) == [0, 1, 8]


def test_a_decision_that_cannot_be_read_ends_the_rebuild(root: Path) -> None:
    lose_the_state(root)
    (decision,) = (root / layout.commits_prefix(TAP)).glob("*.json")
    decision.write_text(json.dumps({"format": 1}))
    with pytest.raises(CorruptObjectError, match=decision.name):
        rebuild(root)


def test_a_lake_without_atomic_runs_asks_for_no_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(tmp_path, [schema(), *records(0)], manifest_store="log")
    lose_the_state(tmp_path)
    monkeypatch.setattr("singerlake.upkeep.rebuild.rebuild.Decisions", None)
    rebuild(tmp_path)
    assert kept_ids(tmp_path) == [0]
