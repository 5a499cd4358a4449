"""``singerlake gc``: what it says, what it deletes, and what it refuses to."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from singerlake.upkeep.gc.batch_files import BatchNames
from tests.cli.commands.upkeep.test_vacuum import everything, path_of, small_files
from tests.cli.conftest import Run
from tests.upkeep.gc.test_stores import uncommitted

NOW = "--grace", "0s"


def joined(run: Run, root: Path, stream: str = "s", tap: str = "t") -> Lake:
    """A stream whose six small files were joined into one."""
    lake = small_files(root, stream, tap=tap)
    assert run("vacuum", "--yes", root, "--tap", tap, "--stream", stream).exit_code == 0
    return lake


def stray(lake: Lake) -> Path:
    """A data file that nothing lists, no newer than those that are."""
    path = path_of(lake, 0)
    other = path.with_name(path.name.replace(lake.stream("t", "s").snapshot().files[0].id, "0123456789abcdef"))
    other.write_bytes(uncommitted("0123456789abcdef"))
    made = path.stat()
    os.utime(other, ns=(made.st_atime_ns, made.st_mtime_ns))
    return other


def data_files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.singer.gz"))


def test_replaced_files_go_in_two_runs_and_only_with_delete(run: Run, root: Path) -> None:
    lake = joined(run, root)
    before = everything(root)
    for _ in range(2):
        result = run("gc", root, *NOW)
        assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "t/s: nothing to delete")
        assert "  waiting: 6 files" in result.stdout
    assert everything(root) == before
    assert "nothing to delete" in run("gc", root, *NOW, "--delete").stdout
    assert len(data_files(root)) == 7
    told = run("gc", root, *NOW)
    assert "t/s: 6 files (" in told.stdout
    assert "would be deleted" in told.stdout
    named = {line.strip() for line in told.stdout.splitlines() if line.endswith(".singer.gz")}
    result = run("gc", root, *NOW, "--delete")
    assert (result.exit_code, "deleted" in result.stdout, "would" in result.stdout) == (0, True, False)
    assert data_files(root) == [path_of(lake, 0)]
    assert {key for key in before if key.endswith(".gz")} - {str(path_of(lake, 0).relative_to(root))} == named
    run("gc", root, *NOW, "--delete")
    assert not lake.stream("t", "s").snapshot().retired
    assert run("verify", root).exit_code == 0


def test_seven_days_pass_unless_it_is_told_otherwise(run: Run, root: Path) -> None:
    joined(run, root)
    for _ in range(4):
        assert "nothing to delete" in run("gc", root, "--delete").stdout
    assert len(data_files(root)) == 7


@pytest.mark.parametrize("grace", ["7", "-1d", "d", "1w", "", "1.5h", "9999999d", "999999d"])
def test_what_is_no_duration_is_refused(run: Run, root: Path, grace: str) -> None:
    joined(run, root)
    result = run("gc", root, f"--grace={grace}")
    assert result.exit_code == 2
    assert "duration" in result.stderr or "longer than" in result.stderr


def test_orphans_are_told_of_and_retired_where_that_is_asked_for(run: Run, root: Path) -> None:
    lake = small_files(root)
    path = stray(lake)
    result = run("gc", root, *NOW)
    assert "  unlisted: 1 file" in result.stdout
    assert "--orphans retires them" in result.stdout
    assert "would be retired as orphans" in run("gc", root, *NOW, "--orphans").stdout
    assert "1 file" in run("gc", root, *NOW, "--orphans", "--delete").stdout
    for _ in range(2):
        assert path.exists()
        run("gc", root, *NOW, "--delete")
    assert not path.exists()
    assert len(data_files(root)) == 6


def test_a_stream_whose_metadata_was_put_back_keeps_what_came_since(run: Run, root: Path) -> None:
    lake = small_files(root)
    manifest = root / layout.manifest_key("t", "s")
    before = manifest.read_bytes()
    run("vacuum", "--yes", root)
    for _ in range(3):
        run("gc", root, *NOW, "--delete")
    (joined,) = data_files(root)
    manifest.write_bytes(before)
    result = run("gc", root, *NOW, "--orphans", "--delete")
    assert result.exit_code == 1
    assert result.stdout.count("missing: ") == 6
    assert "'singerlake rebuild --discard-manifest' makes it again from" in result.stdout
    assert joined.exists()
    assert run("rebuild", "--yes", root, "--discard-manifest").exit_code == 0
    assert lake.stream("t", "s").snapshot().next_offset == 30
    assert run("verify", root).exit_code == 0


def test_a_stream_that_cannot_be_collected_keeps_none_back(run: Run, root: Path) -> None:
    joined(run, root, "a")
    joined(run, root, "z")
    manifest = root / layout.manifest_key("t", "a")
    manifest.write_bytes(manifest.read_bytes().replace(b'"store":"lockfile"', b'"store":"postgres"', 1))
    for _ in range(2):
        result = run("gc", root, *NOW, "--delete")
        assert result.exit_code == 1
        assert "manifest: raw/t/a/: is not collected: " in result.stdout
    assert "t/z: 6 files" in result.stdout
    assert len(data_files(root / "raw/t/z")) == 1


def test_no_folder_is_left_behind(run: Run, root: Path) -> None:
    joined(run, root)
    before = {path for path in root.rglob("*") if path.is_dir()}
    for _ in range(3):
        run("gc", root, *NOW, "--delete")
    assert {path for path in root.rglob("*") if path.is_dir()} - before <= {root / "_singerlake_probe"}


def test_files_of_others_are_left_alone(run: Run, root: Path) -> None:
    lake = small_files(root)
    folder = path_of(lake, 0).parent
    others = [folder / "notes.txt", folder / "x.singer.gz", root / "raw/t/s/y.parquet", root / "z.singer.gz"]
    for path in others:
        path.write_text("mine")
    for _ in range(4):
        run("gc", root, *NOW, "--orphans", "--delete")
    assert all(path.read_text() == "mine" for path in others)


def test_a_path_of_the_manifest_leads_nowhere_else(run: Run, root: Path) -> None:
    lake = joined(run, root)
    run("gc", root, *NOW, "--delete")
    key = layout.manifest_key("t", "s")
    stored = lake.storage.get(key)
    assert stored is not None
    gone = lake.stream("t", "s").snapshot().retired[0]
    victim = root / "raw/t/other/secret.singer.gz"
    victim.parent.mkdir()
    victim.write_text("mine")
    lake.storage.put(key, stored.body.replace(gone.path.encode(), b"../other/secret.singer.gz"))
    for _ in range(3):
        run("gc", root, *NOW, "--delete", "--tap", "t", "--stream", "s")
    assert victim.read_text() == "mine"


def test_nothing_goes_whose_replacement_is_damaged(run: Run, root: Path) -> None:
    lake = joined(run, root)
    run("gc", root, *NOW, "--delete")
    path = path_of(lake, 0)
    body = bytearray(path.read_bytes())
    body[-15] ^= 1
    path.write_bytes(body)
    result = run("gc", root, *NOW, "--delete")
    assert result.exit_code == 1
    assert f"differs: {path.relative_to(root)}: its bytes are not those that the manifest lists" in result.stdout
    assert len(data_files(root)) == 7


def test_old_transactions_and_stale_locks_go_too(run: Run, root: Path) -> None:
    lake = small_files(root)
    assert run("store", "migrate", "--yes", root, "--to", "log").exit_code == 0
    small_files(root)
    held = root / layout.version_lock_key("t", "s", lake.stream("t", "s").snapshot().files[0].version)
    held.write_text(json.dumps({"writer-id": "w", "acquired": "2026", "refreshed": "2026", "nonce": "n"}))
    os.utime(held, (0, 0))
    before = everything(root)
    result = run("gc", root, "--keep", 0)
    assert "1 stale lock would be removed" in result.stdout
    assert "of old transactions would be removed" in result.stdout
    assert everything(root) == before
    result = run("gc", root, "--keep", 0, "--delete")
    assert "1 stale lock removed" in result.stdout
    assert not held.exists()
    assert "transactions" not in run("gc", root, "--keep", 1).stdout
    assert run("verify", root).exit_code == 0


def test_a_lock_that_is_in_use_stays(run: Run, root: Path) -> None:
    lake = small_files(root)
    held = root / layout.version_lock_key("t", "s", lake.stream("t", "s").snapshot().files[0].version)
    held.write_text(json.dumps({"writer-id": "w", "acquired": "2026", "refreshed": "2026", "nonce": "n"}))
    assert "lock" not in run("gc", root, "--delete").stdout
    assert held.exists()


def test_json_for_scripts(run: Run, root: Path) -> None:
    lake = joined(run, root)
    old = {file.path for file in lake.stream("t", "s").snapshot().retired}
    first = json.loads(run("gc", root, *NOW, "--delete", "--json").stdout)
    assert (first["dry_run"], first["streams"][0]["shown"], first["streams"][0]["keys"]) == (False, 6, [])
    told = json.loads(run("gc", root, *NOW, "--json").stdout)
    assert told["dry_run"]
    assert {key.removeprefix("raw/t/s/") for key in told["streams"][0]["keys"]} == old
    done = json.loads(run("gc", root, *NOW, "--delete", "--json").stdout)
    assert done["streams"][0]["deleted"] == told["streams"][0]["deleted"]
    assert done["streams"][0]["deleted"]["files"] == 6
    assert done["findings"] == []


@pytest.mark.parametrize("name", ["\u00dcber/..%2F: 'q\"\n\u202e", "-rf *", "catalogue.json", "%", "\udc80", "a.b"])
def test_names_may_be_odd(run: Run, root: Path, name: str) -> None:
    joined(run, root, name, name)
    for _ in range(3):
        result = run("gc", root, "--tap", name, "--stream", name, *NOW, "--delete")
        assert result.exit_code == 0
        assert result.stdout.replace("\n", "").isprintable()
    assert len(data_files(root)) == 1


def test_a_newer_format_is_refused_and_the_others_go_on(run: Run, root: Path) -> None:
    lake = joined(run, root)
    joined(run, root, "other")
    key = layout.manifest_key("t", "s")
    stored = lake.storage.get(key)
    assert stored is not None
    lake.storage.put(key, stored.body.replace(b'"format":1', b'"format":99', 1))
    before = everything(root / "raw/t/s")
    for _ in range(2):
        result = run("gc", root, *NOW, "--delete")
        assert (result.exit_code, "upgrade singerlake" in result.stdout) == (1, True)
    assert everything(root / "raw/t/s") == before
    assert len(data_files(root / "raw/t/other")) == 1


def test_what_is_no_lake_is_said_to_be_none(run: Run, root: Path) -> None:
    root.mkdir()
    (root / "something.singer.gz").write_text("else")
    result = run("gc", root, *NOW, "--orphans", "--delete")
    assert (result.exit_code, "nothing here is a lake" in result.stderr) == (2, True)
    assert [path.name for path in root.iterdir()] == ["something.singer.gz"]


def test_an_unknown_stream_is_named(run: Run, root: Path) -> None:
    small_files(root)
    assert run("gc", root, "--tap", "t", "--stream", "x").exit_code == 2


def test_batch_files_go_only_when_they_are_old_and_only_with_delete(run: Run, root: Path, tmp_path: Path) -> None:
    joined(run, root)
    place = tmp_path / "batches"
    storage = LocalStorage(place, clock=SystemClock(), ids=random_id)
    key = BatchNames(storage, "p/", random_id()).next_key("s", ".jsonl.gz")
    for each in (key, "other.jsonl.gz"):
        storage.put(each, b"12345")
    before = everything(root)
    result = run("gc", root, "--batches", place)
    assert (result.exit_code, result.stdout) == (
        0,
        f"{place}: 0 files (0 B) would be deleted\n  waiting: 1 file (5 B)\n",
    )
    result = run("gc", root, "--batches", place, *NOW)
    assert result.stdout == f"{place}: 1 file (5 B) would be deleted\n  {key}\n"
    told = json.loads(run("gc", root, "--batches", place, *NOW, "--json").stdout)
    assert (told["root"], told["dry_run"], told["keys"]) == (str(place), True, [key])
    assert storage.head(key) is not None
    assert run("gc", root, "--batches", place, *NOW, "--delete").stdout == f"{place}: 1 file (5 B) deleted\n"
    assert [entry.key for entry in storage.list("")] == ["other.jsonl.gz"]
    assert everything(root) == before


def test_batch_files_are_of_no_stream(run: Run, root: Path, tmp_path: Path) -> None:
    joined(run, root)
    for more in (("--tap", "t"), ("--stream", "s"), ("--orphans",)):
        result = run("gc", root, "--batches", tmp_path, *more)
        assert result.exit_code == 2
        assert "does not go with" in result.output
    assert run("gc", root, "--batches", "ftp://x").exit_code != 0
