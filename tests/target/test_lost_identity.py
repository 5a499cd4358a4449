"""``singerlake.json`` is lost: the lake keeps its id, and a database its streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.errors import LostStateError, SettingError
from singerlake.format.extra_fields import read_header
from singerlake.lake import Lake
from tests.stores.stores import IN_A_DATABASE, KINDS
from tests.target.support import TAP, ingest, kept_ids, manifest, records, schema, state

Config = Callable[[str], dict[str, str]]


def lake_id(root: Path) -> str:
    found: str = json.loads((root / "raw" / "singerlake.json").read_bytes())["lake_id"]
    return found


def forget(root: Path) -> None:
    (root / "raw" / "singerlake.json").unlink()


def old(root: Path, stream: str = "users") -> None:
    """Make a manifest what versions wrote that kept no id in it."""
    path = root / "raw" / TAP / stream / "manifest.json"
    body = json.loads(path.read_bytes())
    del body["lake_id"]
    path.write_text(json.dumps(body, separators=(",", ":")))


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.soak) if kind == "merge" else kind for kind in KINDS]
)
def test_the_id_is_in_manifest_and_files_and_comes_back_from_there(
    tmp_path: Path, kind: str, store_config: Config
) -> None:
    settings = store_config(kind)
    ingest(tmp_path, [schema(), *records(1), state({"at": 1})], **settings)
    own = lake_id(tmp_path)
    assert manifest(tmp_path).lake_id == own
    (data,) = tmp_path.rglob("*.singer.gz")
    header = read_header(data.read_bytes())
    assert header is not None
    assert header.lake_id == own
    forget(tmp_path)
    ingest(tmp_path, [schema(), *records(2), state({"at": 2})], **settings)
    assert lake_id(tmp_path) == own
    assert json.loads((tmp_path / "raw" / "singerlake.json").read_bytes())["manifest_store"] == kind
    assert kept_ids(tmp_path) == [1, 2]
    forget(tmp_path)
    old(tmp_path)
    ingest(tmp_path, [schema(), *records(3), state({"at": 3})], **settings)
    assert lake_id(tmp_path) == own
    assert kept_ids(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("kind", IN_A_DATABASE)
def test_a_database_that_knows_the_lake_by_another_id_says_so_with_the_way_out(
    tmp_path: Path, kind: str, store_config: Config
) -> None:
    settings = store_config(kind)
    ingest(tmp_path, [schema(), *records(1), state({"at": 1})], **settings)
    own = lake_id(tmp_path)
    path = tmp_path / "raw" / "singerlake.json"
    path.write_text(path.read_text().replace(own, "another"))
    lines = [schema(), *records(2), state({"at": 2})]
    with pytest.raises(LostStateError, match=f"manifest.json says .*store identify LAKE --lake-id {own}'"):
        ingest(tmp_path, lines, **settings)
    old(tmp_path)
    with pytest.raises(LostStateError, match=f"{kind} knows .*store identify LAKE --lake-id .*{own}"):
        ingest(tmp_path, lines, **settings)
    told = CliRunner().invoke(main, ["store", "identify", str(tmp_path)]).output
    assert told.startswith("singerlake.json: another")
    done = CliRunner().invoke(main, ["store", "identify", str(tmp_path), "--lake-id", own])
    assert (done.exit_code, done.output) == (0, f"lake id {own}: written\n")
    ingest(tmp_path, [schema(), *records(2), state({"at": 2})], **settings)
    assert kept_ids(tmp_path) == [1, 2]


def two_lakes(tmp_path: Path) -> tuple[Path, str, str]:
    """A lake with a stream that was copied there from another one, and no root metadata."""
    ingest(tmp_path / "a", [schema("mine"), *records(1, stream="mine")])
    ingest(tmp_path / "b", [schema("yours"), *records(1, stream="yours")])
    mine, yours = lake_id(tmp_path / "a"), lake_id(tmp_path / "b")
    (tmp_path / "b" / "raw" / TAP / "yours").rename(tmp_path / "a" / "raw" / TAP / "yours")
    return tmp_path / "a", mine, yours


def test_a_stream_from_another_lake_is_written_to_and_named_by_verify(tmp_path: Path) -> None:
    root, _, yours = two_lakes(tmp_path)
    ingest(root, [schema("yours"), *records(2, stream="yours")])
    assert kept_ids(root, "yours") == [1, 2]
    assert manifest(root, "yours").lake_id == yours
    told = CliRunner().invoke(main, ["verify", str(root)])
    assert told.exit_code == 1
    assert f"calls it {yours}" in told.output


def test_streams_of_several_lakes_make_no_id_but_name_them(tmp_path: Path) -> None:
    root, mine, yours = two_lakes(tmp_path)
    forget(root)
    with pytest.raises(LostStateError, match="of several lakes") as raised:
        ingest(root, [schema("yours"), *records(2, stream="yours")])
    assert mine in str(raised.value)
    assert yours in str(raised.value)
    assert not (root / "raw" / "singerlake.json").exists()
    refused = CliRunner().invoke(main, ["store", "identify", str(root), "--lake-id", "third"])
    assert refused.exit_code == 1
    assert CliRunner().invoke(main, ["store", "identify", str(root), "--lake-id", mine]).exit_code == 0
    ingest(root, [schema("yours"), *records(2, stream="yours")])
    assert lake_id(root) == mine


def test_a_stream_without_a_manifest_is_asked_though_another_one_names_the_lake(tmp_path: Path) -> None:
    root, mine, yours = two_lakes(tmp_path)
    forget(root)
    (root / "raw" / TAP / "yours" / "manifest.json").unlink()
    with pytest.raises(LostStateError, match="of several lakes") as raised:
        ingest(root, [schema("yours"), *records(2, stream="yours")])
    assert mine in str(raised.value)
    assert yours in str(raised.value)
    assert not (root / "raw" / "singerlake.json").exists()


def test_a_lake_without_streams_takes_another_manifest_store_and_keeps_its_id(tmp_path: Path) -> None:
    Lake.open(str(tmp_path)).lake_id("log")
    own = lake_id(tmp_path)
    ingest(tmp_path, [schema(), *records(1)], manifest_store="lockfile")
    assert lake_id(tmp_path) == manifest(tmp_path).lake_id == own
    assert json.loads((tmp_path / "raw" / "singerlake.json").read_bytes())["manifest_store"] == "lockfile"


@pytest.mark.parametrize("kind", IN_A_DATABASE)
def test_a_stream_whose_manifest_is_lost_is_not_taken_for_none(tmp_path: Path, kind: str, store_config: Config) -> None:
    ingest(tmp_path, [schema(), *records(1)], **store_config(kind))
    (tmp_path / "raw" / TAP / "users" / "manifest.json").unlink()
    with pytest.raises(SettingError, match=f"this lake's is '{kind}'"):
        ingest(tmp_path, [schema(), *records(2)], manifest_store="lockfile")


def test_looking_makes_no_id_and_rebuild_keeps_it(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(), *records(1)])
    own = lake_id(tmp_path)
    forget(tmp_path)
    for command in (["ls"], ["verify"], ["rebuild", "--dry-run"], ["store", "ls"], ["store", "identify"]):
        CliRunner().invoke(main, [*command, str(tmp_path)])
        assert not (tmp_path / "raw" / "singerlake.json").exists()
    assert CliRunner().invoke(main, ["rebuild", "--yes", str(tmp_path), "--discard-manifest"]).exit_code == 0
    assert lake_id(tmp_path) == manifest(tmp_path).lake_id == own
    forget(tmp_path)
    (tmp_path / "raw" / TAP / "users" / "manifest.json").unlink()
    assert CliRunner().invoke(main, ["rebuild", "--yes", str(tmp_path)]).exit_code == 0
    assert lake_id(tmp_path) == manifest(tmp_path).lake_id == own


def test_vacuumed_files_and_kept_schemas_name_the_lake(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(), *records(1, 2)], max_file_records=1)
    own = lake_id(tmp_path)
    assert CliRunner().invoke(main, ["vacuum", "--yes", str(tmp_path)]).exit_code == 0
    stream = Lake.open(str(tmp_path)).stream(TAP, "users")
    said = stream.provenance(stream.snapshot().files[0])
    assert said is not None
    assert said.lake_id == own
    ingest(tmp_path, [schema("bare")])
    (kept,) = tmp_path.rglob("schema.json")
    assert json.loads(kept.read_bytes())["lake_id"] == own


@pytest.mark.parametrize("id", ["", "a/b", "../x", "a#b", "a b"])
def test_what_cannot_be_an_id_is_refused(tmp_path: Path, id: str) -> None:
    ingest(tmp_path, [schema(), *records(1)])
    assert CliRunner().invoke(main, ["store", "identify", str(tmp_path), "--lake-id", id]).exit_code == 2
