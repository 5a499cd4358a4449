"""``singerlake gc``: what it says, what it deletes, and what it refuses to."""

from __future__ import annotations

from pathlib import Path

from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.commands.upkeep.test_vacuum import small_files
from tests.cli.conftest import Run

NOW = "--grace", "0s"


def joined(run: Run, root: Path, stream: str = "s", tap: str = "t") -> Lake:
    """A stream whose six small files were joined into one."""
    lake = small_files(root, stream, tap=tap)
    assert run("vacuum", "--yes", root, "--tap", tap, "--stream", stream).exit_code == 0
    return lake


def data_files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.singer.gz"))


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


def test_no_folder_is_left_behind(run: Run, root: Path) -> None:
    joined(run, root)
    before = {path for path in root.rglob("*") if path.is_dir()}
    for _ in range(3):
        run("gc", root, *NOW, "--delete")
    assert {path for path in root.rglob("*") if path.is_dir()} - before <= {root / "_singerlake_probe"}


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
