"""``singerlake vacuum``: what it says, what it joins, and what it refuses to."""

from __future__ import annotations

import errno
import gzip
import os
import re
import subprocess
import zlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from isal import igzip_lib, isal_zlib

from singerlake.clock import SystemClock, timestamp
from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import activate_version_line, build_stream, record_line
from tests.upkeep.shelf import SCHEMA

Damage = Callable[[Path], None]
_DECOMPRESSOR = igzip_lib.IgzipDecompressor


def small_files(root: Path, stream: str = "s", files: int = 6, tap: str = "t") -> Lake:
    """A stream of so many files of five messages."""
    lake = Lake.open(str(root))
    lines = [record_line(stream, {"n": n, "text": "\u00fc\udc80"}) for n in range(5 * files - 1)]
    build_stream(lake, tap, stream, SCHEMA, [*lines, activate_version_line(stream, 3)], file_size=5, member_size=2)
    return lake


def path_of(lake: Lake, at: int, stream: str = "s") -> Path:
    """The listed file at a place of the manifest."""
    there = lake.stream("t", stream)
    return Path(lake.storage.url) / there.prefix / there.snapshot().files[at].path


def everything(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_joined_file_is_its_originals_one_behind_the_other(run: Run, root: Path) -> None:
    lake = small_files(root)
    originals = [path_of(lake, at) for at in range(6)]
    text = subprocess.run(["zcat", *originals], stdout=subprocess.PIPE, check=True).stdout
    result = run("vacuum", "--yes", root)
    assert (result.exit_code, result.stdout.partition(" (")[0]) == (0, "t/s: joined 6 files")
    joined = path_of(lake, 0)
    assert subprocess.run(["zcat", joined], stdout=subprocess.PIPE, check=True).stdout == text
    assert joined.read_bytes().endswith(b"".join(path.read_bytes() for path in originals))
    (file,) = lake.stream("t", "s").snapshot().files
    # The members of the originals, a table's worth, each readable by itself.
    body = joined.read_bytes()
    for (start, messages), (end, _) in zip(file.members, [*file.members[1:], (len(body), 0)], strict=True):
        lines = gzip.decompress(body[start:end]).splitlines()
        assert len([line for line in lines if b'"SCHEMA"' not in line]) == messages
    assert run("verify", root).exit_code == 0


def test_nothing_but_the_schema_message_is_decompressed(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_files(root)
    text: list[bytes] = []

    class Watched:
        """A decompressor whose output is seen."""

        def __init__(self, *given: Any, **more: Any) -> None:
            self._made = _DECOMPRESSOR(*given, **more)

        def decompress(self, *given: Any) -> bytes:
            text.append(self._made.decompress(*given))
            return text[-1]

        def __getattr__(self, name: str) -> Any:
            return getattr(self._made, name)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("decompresses")

    monkeypatch.setattr(igzip_lib, "IgzipDecompressor", Watched)
    for module, name in [
        (igzip_lib, "decompress"),
        (isal_zlib, "decompress"),
        (isal_zlib, "decompressobj"),
        (zlib, "decompress"),
        (zlib, "decompressobj"),
        (gzip, "decompress"),
        (gzip, "GzipFile"),
    ]:
        monkeypatch.setattr(module, name, refuse)
    assert run("vacuum", "--yes", root).exit_code == 0
    monkeypatch.undo()
    assert len(Lake.open(str(root)).stream("t", "s").snapshot().files) == 1
    whole = b"".join(text)
    assert b'"SCHEMA"' in whole
    assert b"RECORD" not in whole
    assert b"ACTIVATE_VERSION" not in whole


def flipped(path: Path) -> None:
    """One bit of a data file's last record is another."""
    body = bytearray(path.read_bytes())
    body[-15] ^= 1
    path.write_bytes(body)


def another(path: Path) -> None:
    """One of the stream's other data files lies in its place."""
    path.write_bytes(min(each for each in path.parent.glob("*.gz") if each != path).read_bytes())


DAMAGES: dict[str, tuple[Damage, str]] = {
    "flipped": (flipped, "differs"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-9]) and None, "differs"),
    "cut-in-its-head": (lambda path: path.write_bytes(path.read_bytes()[:20]) and None, "differs"),
    "another": (another, "differs"),
    "longer": (lambda path: path.write_bytes(path.read_bytes() * 2) and None, "differs"),
    "longer-by-a-byte": (lambda path: path.write_bytes(path.read_bytes() + b"\n") and None, "differs"),
    "gone": (lambda path: path.unlink(), "missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("threads", [1, 4])
def test_a_damaged_file_stops_its_own_run_alone(run: Run, root: Path, damage: str, threads: int) -> None:
    lake = small_files(root, files=12)
    target = 3 * path_of(lake, 0).stat().st_size + 40
    harmed = path_of(lake, 4)
    act, kind = DAMAGES[damage]
    act(harmed)
    before = lake.stream("t", "s").snapshot()
    result = run("vacuum", "--yes", root, "--target-bytes", target, "--threads", threads)
    assert result.exit_code == 1
    key = str(harmed.relative_to(root))
    assert [line.split(": ")[:2] for line in result.stdout.splitlines() if "raw/" in line] == [[kind, key]]
    after = lake.stream("t", "s").snapshot()
    assert [file.messages for file in after.files] == [15, 5, 5, 5, 15, 15]
    assert after.files[1:4] == before.files[3:6]
    listed = {file.path for files in (after.files, after.retired) for file in files}
    there = {str(path.relative_to(root / lake.stream("t", "s").prefix)) for path in root.rglob("*.gz")}
    assert there <= listed


def messages(lake: Lake) -> list[bytes]:
    """The messages of the listed files, in no order."""
    listed = range(len(lake.stream("t", "s").snapshot().files))
    lines = [line for at in listed for line in gzip.decompress(path_of(lake, at).read_bytes()).splitlines()]
    return sorted(line for line in lines if b'"SCHEMA"' not in line)


def test_two_files_of_one_id_are_joined_and_outlive_a_lost_state(run: Run, root: Path) -> None:
    lake = small_files(root)
    before = messages(lake)
    one, two = lake.stream("t", "s").snapshot().files[:2]
    bodies = [path_of(lake, at).read_bytes() for at in (0, 1)]
    path_of(lake, 1).write_bytes(bodies[0][: one.members[0][0]] + bodies[1][two.members[0][0] :])
    result = run("rebuild", "--yes", root, "--discard-manifest")
    assert (result.exit_code, "clash: " in result.stdout) == (1, True)
    assert run("verify", root).exit_code == 0
    result = run("vacuum", "--yes", root)
    assert (result.exit_code, result.stdout.partition(" (")[0]) == (0, "t/s: joined 6 files")
    joined = path_of(lake, 0)
    for path in joined.parent.glob("*.gz"):
        if path != joined:
            path.unlink()
    (root / layout.manifest_key("t", "s")).unlink()
    assert run("rebuild", "--yes", root).exit_code == 0
    assert messages(lake) == before
    assert run("verify", root).exit_code == 0


def test_a_file_that_says_it_is_another_is_named(run: Run, root: Path) -> None:
    lake = small_files(root)
    first, second = path_of(lake, 0), path_of(lake, 1)
    second.write_bytes(first.read_bytes())
    result = run("vacuum", "--yes", root)
    assert result.exit_code == 1
    assert f"{second.relative_to(root)}: says that it is file" in result.stdout


def test_a_full_disk_stops_it_and_leaves_all_as_it_was(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_files(root)
    before = everything(root)
    real = os.fsync

    def full(descriptor: int) -> None:
        if ".tmp-" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    result = run("vacuum", "--yes", root)
    monkeypatch.undo()
    assert result.exit_code == 1
    assert "error: no space is left for the lake; free space or raise the quota" in result.stderr
    assert everything(root) == before
    assert run("vacuum", "--yes", root).exit_code == 0


def test_a_storage_that_gives_back_other_bytes_replaces_nothing(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from singerlake.storage.local.storage import LocalStorage

    lake = small_files(root)
    before = everything(root)
    real = LocalStorage.compose

    def forgets(storage: LocalStorage, key: str, pieces: Any) -> Any:
        made = real(storage, key, pieces)
        flipped(root / key)
        return made

    monkeypatch.setattr(LocalStorage, "compose", forgets)
    result = run("vacuum", "--yes", root)
    assert result.exit_code == 1
    assert "storage returned other bytes of a joined file than were written" in result.stderr
    assert everything(root) == before
    assert len(lake.stream("t", "s").snapshot().files) == 6


def test_what_a_policy_expires_by_age_is_not_joined_with_what_it_keeps(run: Run, root: Path) -> None:
    lake = Lake.open(str(root))
    now = SystemClock().now()
    for days in range(40, 0, -1):
        at = timestamp(now - timedelta(days=days))
        build_stream(lake, "t", "s", SCHEMA, [record_line("s", {"n": days}, time_extracted=at)])
    run("policy", "set", root, "--tap", "t", "--older-than", "20d")
    assert re.match(r"t/s: joined 39 files \(.*\), into 13\n", run("vacuum", root, "--yes").stdout)
    assert run("gc", root, "--delete").exit_code == 0
    left = [record["n"] for record in lake.stream("t", "s").to_arrow().read_all().to_pylist()]
    # Each file spans two days, and stays as long as its last message.
    assert (left[-1], len(left) in (19, 20, 21, 22)) == (1, True)
