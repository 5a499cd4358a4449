"""Verification: a sound lake has no finding, and each kind of damage its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import StorageUnavailableError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.decision import Decision
from singerlake.lake import Lake
from singerlake.stores.atomic.commit_run import LogCommit
from singerlake.stores.atomic.decisions import Decisions
from singerlake.upkeep.result import Finding
from singerlake.upkeep.verify import verify_metadata, verify_stream
from tests.lakes import build_stream
from tests.target.support import TAP, ingest, records, schema
from tests.upkeep.shelf import SCHEMA

MANIFEST = layout.manifest_key("t", "s")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path))
    build_stream(lake, "t", "s", SCHEMA, [{"n": n} for n in range(25)], file_size=10, member_size=3)
    return lake


def findings(lake: Lake) -> tuple[Finding, ...]:
    return verify_stream(lake.storage, "t", "s", lake.stream("t", "s").state).findings


def first_file(lake: Lake) -> str:
    return lake.stream("t", "s").prefix + lake.stream("t", "s").snapshot().files[0].path


def body_of(lake: Lake, key: str) -> bytes:
    found = lake.storage.get(key)
    assert found is not None
    return found.body


def edit(lake: Lake, change: Any) -> None:
    manifest = json.loads(body_of(lake, MANIFEST))
    change(manifest)
    lake.storage.put(MANIFEST, json.dumps(manifest).encode())


def test_a_sound_stream_has_no_finding(lake: Lake) -> None:
    checked = verify_stream(lake.storage, "t", "s", lake.stream("t", "s").state)
    assert checked.findings == ()
    assert (checked.files, checked.messages) == (3, 25)
    assert verify_metadata(lake.storage) == ()


def test_a_file_cut_between_members_which_is_valid_gzip(lake: Lake) -> None:
    key = first_file(lake)
    start, _ = lake.stream("t", "s").snapshot().files[0].members[2]
    lake.storage.put(key, body_of(lake, key)[:start])
    (finding,) = findings(lake)
    assert finding.kind == "differs"
    assert "messages 6, listed 10" in finding.message


def test_a_file_committed_while_the_lake_is_verified_is_no_stray(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = body_of(lake, MANIFEST)
    build_stream(lake, "t", "s", SCHEMA, [{"n": 1}])
    after = body_of(lake, MANIFEST)
    lake.storage.put(MANIFEST, before)
    real = type(lake.storage).open

    def commit_then_open(self: Any, *arguments: Any) -> Any:
        lake.storage.put(MANIFEST, after)
        return real(self, *arguments)

    monkeypatch.setattr(type(lake.storage), "open", commit_then_open)
    monkeypatch.setattr(type(lake.storage), "bodies", lambda _, keys, most: [None] * len(keys))
    assert findings(lake) == ()


@pytest.mark.parametrize(("key", "kind"), [("raw/singerlake.json", "root"), ("raw/t/catalogue.json", "catalogue")])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"format":99,"streams":5}'])
def test_metadata_that_cannot_be_read(lake: Lake, key: str, kind: str, body: bytes) -> None:
    lake.storage.put(key, body)
    assert [(finding.kind, finding.key) for finding in verify_metadata(lake.storage)] == [(kind, key)]


def test_a_decision_that_cannot_be_read_is_named_where_a_state_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_off(self: LogCommit, decision: Decision) -> None:
        raise StorageUnavailableError("not now")

    monkeypatch.setattr(LogCommit, "_settle", broken_off)
    with pytest.raises((UnknownOutcomeError, SystemExit)):
        ingest(tmp_path, [schema(), *records(1)], atomic_run=True, manifest_store="log")
    lake = Lake.open(str(tmp_path))
    (name,) = Decisions(lake.storage, TAP).listed().names
    key = layout.commit_key(TAP, name)
    lake.storage.put(key, b"{")
    (found,) = verify_stream(lake.storage, TAP, "users", lake.stream(TAP, "users").state).findings
    assert (found.kind, found.key) == ("manifest", key)
    assert "restore it from a backup" in found.message


def test_a_decision_that_a_state_needs_and_that_is_gone_is_named(tmp_path: Path) -> None:
    for _ in range(2):
        ingest(tmp_path, [schema(), *records(1)], atomic_run=True, manifest_store="log")
    lake = Lake.open(str(tmp_path))
    state = lake.stream(TAP, "users").state
    assert verify_stream(lake.storage, TAP, "users", state).findings == ()
    key = layout.commit_key(TAP, Decisions(lake.storage, TAP).listed().names[-1])
    lake.storage.delete(key)
    (found,) = verify_stream(lake.storage, TAP, "users", state).findings
    assert (found.kind, found.key, found.problem) == ("commit", key, True)


def test_a_file_that_is_listed_twice(lake: Lake) -> None:
    edit(lake, lambda manifest: manifest["files"].append(manifest["files"][2]))
    id = lake.stream("t", "s").snapshot().files[2].id
    assert f"file {id} is listed twice" in [finding.message for finding in findings(lake)]
