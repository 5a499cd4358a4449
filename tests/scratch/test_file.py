"""What a rebuild keeps on this machine's disk goes with its process, and a disk that refuses is named."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import AccessDeniedError, SingerlakeError, StorageFullError, StorageUnavailableError
from singerlake.scratch import file as scratch
from singerlake.scratch.file import ScratchFile
from singerlake.upkeep.rebuild.spooled import blocks
from singerlake.upkeep.rebuild.spooled.blocks import Blocks
from singerlake.upkeep.rebuild.spooled.found_files import FoundFiles
from tests.scratch.descriptors import DESCRIPTORS, open_below
from tests.upkeep.rebuild.spooled.sizes import keep_little
from tests.upkeep.rebuild.spooled.test_settled import found

REFUSALS = [
    (errno.ENOSPC, StorageFullError),
    (errno.EDQUOT, StorageFullError),
    (errno.EACCES, AccessDeniedError),
    (errno.EIO, StorageUnavailableError),
]
SPOOLING = """
import sys, time
from singerlake.scratch.file import ScratchFile
file = ScratchFile("files")
file.append(b"abc" * (1 << 20))
print(file.read(3 << 18, 3).decode(), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("written", [1, 4, 1 << 20])
def test_bytes_are_read_where_they_were_put(monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    monkeypatch.setattr(scratch, "_WRITTEN", written)
    file = ScratchFile("files")
    assert [file.append(body) for body in (b"abc", b"", b"defg", b"h")] == [0, 3, 3, 7]
    assert (file.read(2, 3), file.read(7, 1), file.read(0, 8), file.read(3, 0)) == (b"cde", b"h", b"abcdefgh", b"")
    assert (file.append(b"i"), file.end, file.read(7, 2)) == (8, 9, b"hi")


def test_items_are_read_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_KEPT", 1)
    made: Blocks[int] = Blocks("files", bytes, tuple)
    places = [made.append(items) for items in ((1, 2, 3), (4,), (5, 6))]
    assert [made[places[block] + place] for block, place in ((2, 1), (0, 2), (1, 0), (0, 0), (2, 0))] == [6, 3, 4, 1, 5]
    assert list(made.between(places[1], made.numbers)) == [(places[1], 4), (places[2], 5), (places[2] + 1, 6)]


def test_nothing_has_a_name_and_space_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    keep_little(monkeypatch)
    files = FoundFiles(found(str(n), f"i{n}", 0, n) for n in range(9))
    assert len(list(files.in_order())) == 9
    assert list(tmp_path.iterdir()) == []
    assert open_below(tmp_path) or not DESCRIPTORS.is_dir()
    del files
    gc.collect()
    assert open_below(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_leaves_no_file(tmp_path: Path, number: signal.Signals) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", SPOOLING], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"abc\n"
        process.send_signal(number)
    assert process.returncode == -number
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "kind"), REFUSALS)
@pytest.mark.parametrize("call", ["pwrite", "pread"])
def test_a_disk_that_refuses_is_named(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[SingerlakeError], call: str
) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(number, "refused")

    keep_little(monkeypatch)
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(kind, match=r"the files that a rebuild found.*set \$TMPDIR") as caught:
        list(FoundFiles(found(str(n), f"i{n}", 0, n) for n in range(3)))
    assert caught.value.context == {"folder": tempfile.gettempdir()}


def test_a_machine_without_a_folder_for_files_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    with pytest.raises(StorageUnavailableError, match="no usable temporary directory") as caught:
        ScratchFile("files")
    assert caught.value.context == {"folder": "$TMPDIR"}
