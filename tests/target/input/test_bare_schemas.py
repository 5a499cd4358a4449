"""Streams whose SCHEMA came without a record: known afterwards, in every store, to whoever reads the lake."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.clock import SystemClock, random_id
from singerlake.lake import Lake
from tests.faults.support.haste import hasten
from tests.servers.s3 import S3Server
from tests.storage.memory import MemoryStorage
from tests.stores.stores import KINDS, ON_THE_LAKE
from tests.tap.runs import discover, replay
from tests.target.support import TAP, USERS, WIDER, ingest, kept_ids, manifest, record, run, schema, state

Config = Callable[[str], dict[str, str]]


@pytest.mark.in_turn("end")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", [[], [state({"at": 1})]])
def test_a_stream_without_records_is_replayed_as_its_schema(
    tmp_path: Path, kind: str, end: list[bytes], store_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "merge":
        hasten(monkeypatch)
    root = tmp_path / "lake"
    emitted = ingest(root, [schema(), *end], **store_config(kind))
    assert [json.loads(line) for line in emitted] == [{"at": 1}] * len(end)
    found = manifest(root)
    assert (found.store, found.next_offset, list(found.versions.values())) == (kind, 0, ["v1"])
    assert [entry["schema"] for entry in discover(root, tap_id=TAP)["streams"]] == [USERS]
    assert replay(root, tap_id=TAP).messages == [
        {"type": "SCHEMA", "stream": "users", "schema": USERS, "key_properties": ["id"]}
    ]
    assert CliRunner().invoke(main, ["verify", str(root)]).output.startswith("sound: 1 stream, 0 files, ")
    if kind in ON_THE_LAKE:
        again = CliRunner().invoke(main, ["rebuild", str(root), "--dry-run"])
        assert again.output.startswith(f"{TAP}/users: unchanged")
    ingest(root, [schema(), record(1), schema(schema=WIDER), record(2), state({"at": 2})], **store_config(kind))
    found = manifest(root)
    assert kept_ids(root) == [1, 2]
    assert list(found.versions.values()) == ["v1", "v2"]
    assert [held.first_offset for held in found.schemas.values()] == [0, 1]
    assert [each["id"] for each in replay(root, tap_id=TAP, from_version="v1").records()] == [1, 2]
    assert CliRunner().invoke(main, ["verify", str(root)]).output.startswith("sound: 1 stream, 2 files, ")


def test_records_under_another_schema_come_after_it_as_the_second_version(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(), state({"at": 1})])
    ingest(tmp_path, [schema(schema=WIDER), record(1), state({"at": 2})])
    found = manifest(tmp_path)
    assert [held.schema for held in found.schemas.values()] == [USERS, WIDER]
    assert [held.first_offset for held in found.schemas.values()] == [0, 0]
    assert [m["type"] for m in replay(tmp_path, tap_id=TAP, from_version="v1").messages] == [
        "SCHEMA",
        "RECORD",
        "STATE",
    ]
    forget(tmp_path)
    assert list(Lake.open(str(tmp_path)).stream(TAP, "users").snapshot().schemas) == list(found.schemas)


def forget(root: Path) -> None:
    """Lose everything that is not needed to make the lake again."""
    for name in ("manifest.json", "catalogue.json", "singerlake.json"):
        for path in [path for path in root.rglob(name) if path.is_file()]:
            path.unlink()
    for path in root.rglob("_log"):
        shutil.rmtree(path)


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_what_is_lost_is_made_again_from_the_kept_schema(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "lake"
    ingest(root, [schema(bookmark_properties=["id"]), state({"at": 1})], manifest_store=kind)
    before = manifest(root)
    forget(root)
    told = CliRunner().invoke(main, ["verify", str(root)])
    assert (told.exit_code, told.output.split(":")[0]) == (1, "manifest")
    assert manifest(root).schemas == before.schemas
    again = CliRunner().invoke(main, ["rebuild", "--yes", str(root)])
    assert again.exit_code == 0, again.output
    assert f"{TAP}/users: was made anew, 0 files, 0 messages, 1 version" in again.output
    assert manifest(root).schemas == before.schemas
    assert discover(root, tap_id=TAP)["streams"][0]["schema"] == USERS


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_on_s3_it_is_known_and_made_again(s3: S3Server, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    root = f"s3://{s3.create_bucket(f'lake-{random_id()}')}/a prefix"
    assert ingest(root, [schema(), state({"at": 1})], manifest_store=kind) == ['{"at": 1}']
    emitted = replay(root, tap_id=TAP).messages
    assert emitted == [{"type": "SCHEMA", "stream": "users", "schema": USERS, "key_properties": ["id"]}]
    storage = Lake.open(root).storage
    for key in [entry.key for entry in storage.list("raw/") if not entry.key.endswith("/schema.json")]:
        storage.delete(key)
    assert replay(root, tap_id=TAP).messages == emitted
    again = CliRunner().invoke(main, ["rebuild", "--yes", root])
    assert (again.exit_code, f"{TAP}/users: was made anew, 0 files" in again.output) == (0, True)
    assert replay(root, tap_id=TAP).messages == emitted
    ingest(root, [schema(), record(1), state({"at": 2})])
    assert kept_ids(root) == [1]


def test_a_writer_that_finds_nothing_but_the_kept_schema_begins_with_it(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(), state({"at": 1})])
    forget(tmp_path)
    ingest(tmp_path, [schema(schema=WIDER), record(1)])
    assert [held.schema for held in manifest(tmp_path).schemas.values()] == [USERS, WIDER]


def test_a_stream_that_has_a_version_is_left_as_it_is(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(), record(1), state({"at": 1})])
    before = manifest(tmp_path)
    emitted = ingest(tmp_path, [schema(schema=WIDER), state({"at": 2})])
    assert [json.loads(line) for line in emitted] == [{"at": 2}]
    assert manifest(tmp_path) == before
    (tmp_path / "raw" / TAP / "catalogue.json").unlink()
    ingest(tmp_path, [schema(schema=WIDER), state({"at": 3})])
    assert manifest(tmp_path) == before


def test_the_schema_is_kept_before_its_state_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "raw").write_text("no folder")
    done = run(tmp_path / "lake", tmp_path, [schema(), state({"at": 1})])
    assert (done.code, done.states) == (1, [])


def test_input_that_ends_badly_keeps_the_schemas_before_that(tmp_path: Path) -> None:
    done = run(tmp_path / "lake", tmp_path, [schema(), state({"at": 1}), b"not JSON"])
    assert (done.code, done.last_state) == (1, {"at": 1})
    assert manifest(tmp_path / "lake").schemas


def test_names_from_a_tap_stay_in_their_folders(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    names = ["../../etc", "schema.json", "manifest.json", "_log", "a/b"]
    ingest(root, [schema(name) for name in names])
    assert Lake.open(str(root)).streams(TAP) == sorted(names)
    assert all(path.is_relative_to(root / "raw" / TAP) for path in tmp_path.rglob("schema.json"))
    forget(root)
    assert CliRunner().invoke(main, ["rebuild", "--yes", str(root)]).exit_code == 0
    assert {entry["stream"] for entry in discover(root, tap_id=TAP)["streams"]} == set(names)


def test_every_command_that_looks_shows_the_stream(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    ingest(root, [schema()])
    invoke = CliRunner().invoke
    assert "users" in invoke(main, ["versions", str(root)]).output
    assert json.loads(invoke(main, ["versions", str(root), "--json"]).output)
    listed = invoke(main, ["ls", str(root)])
    assert (listed.exit_code, "v1" in listed.output) == (0, True)
    assert "users" in invoke(main, ["status", str(root)]).output
    assert invoke(main, ["gc", str(root), "--delete", "--grace", "0s", "--orphans"]).exit_code == 0
    assert invoke(main, ["vacuum", "--yes", str(root)]).exit_code == 0
    assert list(root.rglob("schema.json"))
    assert invoke(main, ["docs", "build", str(root), "-o", str(tmp_path / "site")]).exit_code == 0
    assert any("users" in page.read_text() for page in (tmp_path / "site").rglob("*.html"))
    table = Lake.open(str(root)).stream(TAP, "users").to_arrow().read_all()
    assert (table.num_rows, table.column_names) == (0, ["id", "name", "_rescued_data"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_moves_with_its_schema(tmp_path: Path, kind: str, store_config: Config) -> None:
    root = tmp_path / "lake"
    first = "log" if kind == "lockfile" else "lockfile"
    ingest(root, [schema()], manifest_store=first)
    settings = store_config(kind)
    env = {f"SINGERLAKE_{name.upper()}": value for name, value in settings.items()}
    moved = CliRunner().invoke(main, ["store", "migrate", "--yes", str(root), "--to", kind], env=env)
    assert moved.exit_code == 0, moved.output
    found = manifest(root)
    assert (found.store, list(found.versions.values())) == (kind, ["v1"])


class Counted(MemoryStorage):
    """How often each operation is asked for."""

    requests: Counter[str]

    def __getattribute__(self, name: str) -> Any:
        if name in _REQUESTS:
            self.__dict__.setdefault("requests", Counter())[name] += 1
        return super().__getattribute__(name)


_REQUESTS = frozenset({"get", "head", "put", "upload", "list", "list_folder", "read_range", "open", "delete"})


def test_many_streams_without_records_cost_little_and_nothing_once_they_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = Counted(clock=SystemClock(), ids=random_id)
    monkeypatch.setattr("singerlake.lake.open_storage", lambda *_: storage)
    lines = [*(schema(f"stream-{number}") for number in range(100)), state({"at": 1})]

    def requests_of_a_run() -> int:
        storage.requests = Counter()
        assert ingest("memory", lines) == [json.dumps({"at": 1})]
        return storage.requests.total()

    first = requests_of_a_run()
    assert len(Lake.open("memory").streams(TAP)) == 100
    assert first <= 12 * 100
    assert requests_of_a_run() == 2
