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
from tests.upkeep.shelf import OTHER, SCHEMA, file_bytes, header, kinds, numbered, record, schema_line

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


@pytest.mark.parametrize("times", [{"first": "2026-02-01T00:00:00Z", "last": "2026-01-01T00:00:00Z"}, {"last": "soon"}])
def test_a_file_whose_times_are_unknown_is_named_and_needs_nothing(lake: Lake, times: dict[str, str]) -> None:
    edit(lake, lambda manifest: manifest["files"][1].update(times))
    (found,) = findings(lake)
    path = lake.stream("t", "s").snapshot().files[1].path
    assert (found.kind, found.key, found.problem) == ("times", lake.stream("t", "s").prefix + path, False)
    assert times["last"] in found.message


def test_a_stream_that_was_only_locked_has_no_finding(lake: Lake) -> None:
    lake.storage.put("raw/t/new/x/singerlake.lock", b"{}")
    assert verify_stream(lake.storage, "t", "new", lake.stream("t", "new").state).findings == ()


def test_a_missing_file(lake: Lake) -> None:
    key = first_file(lake)
    lake.storage.delete(key)
    (finding,) = findings(lake)
    assert (finding.kind, finding.key, finding.problem) == ("missing", key, True)


def test_a_truncated_file(lake: Lake) -> None:
    key = first_file(lake)
    lake.storage.put(key, body_of(lake, key)[:-5])
    assert [(finding.kind, finding.key) for finding in findings(lake)] == [("broken", key)]


def test_a_flipped_byte_in_the_header_which_gzip_does_not_notice(lake: Lake) -> None:
    key = first_file(lake)
    body = bytearray(body_of(lake, key))
    body[4] ^= 1
    lake.storage.put(key, bytes(body))
    (finding,) = findings(lake)
    assert finding.kind == "differs"
    assert "sha256" in finding.message


def test_a_file_cut_between_members_which_is_valid_gzip(lake: Lake) -> None:
    key = first_file(lake)
    start, _ = lake.stream("t", "s").snapshot().files[0].members[2]
    lake.storage.put(key, body_of(lake, key)[:start])
    (finding,) = findings(lake)
    assert finding.kind == "differs"
    assert "messages 6, listed 10" in finding.message


def test_a_file_in_the_place_of_another(lake: Lake) -> None:
    one, two = (lake.stream("t", "s").prefix + file.path for file in lake.stream("t", "s").snapshot().files[:2])
    lake.storage.put(one, body_of(lake, two))
    assert kinds(findings(lake)) == ["differs", "identity"]


def test_a_file_of_another_schema_or_stream(lake: Lake) -> None:
    key = first_file(lake)
    lake.storage.put(key, file_bytes([numbered(1, 1)], extra=header(1), schema=schema_line(OTHER)))
    assert kinds(findings(lake)) == ["differs", "identity", "version"]
    lake.storage.put(
        key, file_bytes([[record(1, stream="o")]], extra=None, schema=schema_line({"type": "object"}, stream="o"))
    )
    assert kinds(findings(lake)) == ["differs", "misplaced", "version"]


def test_a_wrong_member_table(lake: Lake) -> None:
    def swap(manifest: dict[str, Any]) -> None:
        members = manifest["files"][0]["members"]
        members[0][0] += 1

    edit(lake, swap)
    (finding,) = findings(lake)
    assert (finding.kind, "members" in finding.message) == ("differs", True)


def set_in(name: str, value: Any) -> Any:
    return lambda manifest: manifest["files"][1].__setitem__(name, value)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (set_in("offset", 11), "offsets"),
        (lambda manifest: manifest.__setitem__("next_offset", 99), "offsets"),
        (lambda manifest: manifest["files"].append(manifest["files"][2]), "offsets"),
        (set_in("version", "aaaaaaa"), "version"),
        (lambda manifest: manifest["schemas"].clear(), "version"),
        (lambda manifest: manifest["versions"].clear(), "version"),
        (set_in("members", [[0, 1]]), "offsets"),
        (set_in("records", 9), "differs"),
        (set_in("bytes", 9), "differs"),
        (set_in("raw_bytes", 9), "differs"),
        (set_in("sha256", "0"), "differs"),
        (set_in("path", "../../../etc/passwd"), "broken"),
        (set_in("id", "0000000000000000"), "identity"),
    ],
)
def test_a_manifest_that_says_what_is_not_so(lake: Lake, change: Any, kind: str) -> None:
    edit(lake, change)
    assert kind in kinds(findings(lake))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"format":1}', b'{"format":99}'])
def test_a_manifest_that_cannot_be_read(lake: Lake, body: bytes) -> None:
    lake.storage.put(MANIFEST, body)
    (finding,) = findings(lake)
    assert (finding.kind, finding.key) == ("manifest", MANIFEST)


def test_a_manifest_of_another_stream(lake: Lake) -> None:
    edit(lake, lambda manifest: manifest.__setitem__("stream", "S"))
    assert kinds(findings(lake)) == ["manifest"]


def test_a_missing_manifest_beside_data_files(lake: Lake) -> None:
    lake.storage.delete(MANIFEST)
    (finding,) = findings(lake)
    assert "singerlake rebuild" in finding.message


def test_a_file_that_no_manifest_lists(lake: Lake) -> None:
    key = "raw/t/s/x/stray.singer.gz"
    lake.storage.put(key, b"?")
    assert [(finding.kind, finding.key) for finding in findings(lake)] == [("unlisted", key)]


def test_a_data_file_beside_the_folders_of_versions_is_misplaced(lake: Lake) -> None:
    lake.storage.put("raw/t/s/stray.singer.gz", b"?")
    assert [(finding.kind, finding.key) for finding in findings(lake)] == [("misplaced", "raw/t/s/stray.singer.gz")]


def test_a_retired_file_is_no_stray(lake: Lake) -> None:
    lake.storage.put("raw/t/s/x/old.singer.gz", b"?")
    old = {"id": "0000000000000000", "path": "x/old.singer.gz", "by": "b", "since": "2026"}
    edit(lake, lambda manifest: manifest["retired"].append(old))
    assert findings(lake) == ()


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


def test_metadata_that_is_missing_is_no_finding(lake: Lake) -> None:
    lake.storage.delete("raw/singerlake.json")
    lake.storage.delete("raw/t/catalogue.json")
    assert verify_metadata(lake.storage) == ()


def test_folders_that_no_name_gives_are_noted(lake: Lake) -> None:
    lake.storage.put("raw/_spark/x", b"")
    lake.storage.put("raw/t/a b/x", b"")
    assert [(note.kind, note.key, note.problem) for note in verify_metadata(lake.storage)] == [
        ("foreign", "raw/_spark/", False),
        ("foreign", "raw/t/a b/", False),
    ]


def test_names_that_differ_by_case_are_noted(lake: Lake) -> None:
    build_stream(lake, "t", "S", SCHEMA, [record(1, stream="S")[:-1]])
    (note,) = verify_metadata(lake.storage)
    assert (note.kind, note.problem) == ("case", False)
    assert "S, s" in note.message


def test_one_taps_metadata_can_be_verified_alone(lake: Lake) -> None:
    lake.storage.put("raw/u/catalogue.json", b"{")
    assert verify_metadata(lake.storage, ["t"]) == ()
    assert kinds(verify_metadata(lake.storage, ["u"])) == ["catalogue"]


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
