"""Spool folders of processes that were killed: which are removed, and which never are."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake import spools
from singerlake.spools import SpoolFolder, Spools

MARK = "singerlake-spool.lock"
ID = "0123456789abcdef"


def dead(parent: Path, *, boot: str | None = None) -> Path:
    """The folder of a process that was killed: its lock is gone, all else is there."""
    folder = Spools(str(parent), boot=boot).make()
    (folder.path / ID).write_bytes(b"raw data")
    assert folder._mark is not None
    os.close(folder._mark)
    return folder.path


def test_what_a_process_that_was_killed_left_is_removed_by_the_next(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time; from singerlake.spools import Spools\n"
        f"folder = Spools(sys.argv[1]).make(); (folder.path / '{ID}').write_bytes(b'raw')\n"
        "print(folder.path, flush=True)\n"
        "time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    assert Spools(str(tmp_path)).sweep() == []
    assert (left / ID).exists()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with Spools(str(tmp_path)).make() as own:
        assert sorted(tmp_path.iterdir()) == [own]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_its_users_alone_and_ends_with_its_block(tmp_path: Path) -> None:
    with Spools(str(tmp_path)).make() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert Spools(str(tmp_path)).sweep() == []
        (folder / ID).write_bytes(b"1")
    assert list(tmp_path.iterdir()) == []


def link_in(folder: Path) -> None:
    (folder / "aaaaaaaaaaaaaaaa").symlink_to("/etc/hostname")


def folder_in(folder: Path) -> None:
    (folder / "bbbbbbbbbbbbbbbb").mkdir()


def without(folder: Path) -> None:
    (folder / MARK).unlink()


def linked_mark(folder: Path) -> None:
    os.rename(folder / MARK, folder.parent / "elsewhere")
    (folder / MARK).symlink_to(folder.parent / "elsewhere")


def hard_link(folder: Path) -> None:
    os.link(folder / MARK, folder.parent / "another name")


def pipe(folder: Path) -> None:
    (folder / MARK).unlink()
    os.mkfifo(folder / MARK)


def says(text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / MARK).write_text(text)

    return change


STRANGE: dict[str, Callable[[Path], None]] = {
    "of an earlier version, without a mark": without,
    "a link inside": link_in,
    "a folder inside": folder_in,
    "a file that is no spool's": lambda folder: (folder / "thesis.txt").touch() or None,
    "a mark that is a link": linked_mark,
    "a mark with another name": hard_link,
    "a mark that is a pipe": pipe,
    "open to others": lambda folder: folder.chmod(0o777),
    "an empty mark": says(""),
    "a mark of no JSON": says("{"),
    "a mark that is a list": says("[1]"),
    "a mark of a later version": says(json.dumps({"format": 2, "boot": spools._boot()})),
    "a mark without a boot": says(json.dumps({"format": 1})),
}


@pytest.mark.parametrize("case", STRANGE)
def test_what_is_not_surely_a_dead_spool_stays(tmp_path: Path, case: str) -> None:
    folder = dead(tmp_path)
    STRANGE[case](folder)
    before = sorted(str(path) for path in folder.iterdir())
    assert Spools(str(tmp_path)).sweep() == []
    assert sorted(str(path) for path in folder.iterdir()) == before
    assert (folder / ID).read_bytes() == b"raw data"


def test_another_users_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = dead(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert Spools(str(tmp_path)).sweep() == []
    assert (folder / ID).exists()


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    target = dead(tmp_path)
    os.rename(target, tmp_path / "away")
    (tmp_path / "spool" / target.name).symlink_to(tmp_path / "away")
    assert Spools(str(tmp_path / "spool")).sweep() == []
    assert (tmp_path / "away" / ID).exists()


@pytest.mark.parametrize(("kind", "gone"), [("ext4", True), ("nfs4", False), ("virtiofs", False), (None, False)])
def test_of_another_boot_only_what_is_on_a_local_disk_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None, gone: bool
) -> None:
    folder = dead(tmp_path, boot="of another host, or of this one before it was started again")
    monkeypatch.setattr(spools, "file_system", lambda device: kind)
    assert Spools(str(tmp_path)).sweep() == ([folder.name] if gone else [])
    assert folder.exists() is not gone


def test_where_no_boot_is_known_no_folder_is_marked_and_so_none_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "_boot", lambda: None)
    folder = Spools(str(tmp_path)).make()
    assert list(folder.path.iterdir()) == []
    assert Spools(str(tmp_path)).sweep() == []
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_where_the_file_system_knows_no_locks_a_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    folder: SpoolFolder = Spools(str(tmp_path)).make()
    monkeypatch.undo()
    assert MARK not in os.listdir(folder.path)
    assert Spools(str(tmp_path)).sweep() == []
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_of_two_that_clean_at_once_one_leaves_it_to_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = dead(tmp_path)
    real, seen = os.unlink, list[list[str]]()

    def unlink(name: str, *, dir_fd: int | None = None) -> None:
        if not seen:
            seen.append([])
            seen[0] = Spools(str(tmp_path)).sweep()
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    assert Spools(str(tmp_path)).sweep() == [folder.name]
    assert seen == [[]]
    assert list(tmp_path.iterdir()) == []


def test_a_cleaning_that_is_killed_is_ended_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = dead(tmp_path)
    (folder / "fedcba9876543210").touch()
    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", lambda path: None)
        real = os.unlink
        patch.setattr(os, "unlink", lambda name, *, dir_fd=None: real(name, dir_fd=dir_fd) if name == ID else None)
        Spools(str(tmp_path)).sweep()
    assert sorted(os.listdir(folder)) == ["fedcba9876543210", MARK]
    assert Spools(str(tmp_path)).sweep() == [folder.name]
    assert list(tmp_path.iterdir()) == []
