"""What a rebuild keeps on this machine's disk goes with its process, and a disk that refuses is named."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake import scratch
from singerlake.errors import AccessDeniedError, SingerlakeError, StorageFullError, StorageUnavailableError
from singerlake.scratch import ScratchDatabase, to_raw, to_sortable, to_text
from tests.scratch.disks import fill_disk

REFUSALS = [
    (errno.ENOSPC, StorageFullError),
    (errno.EDQUOT, StorageFullError),
    (errno.EACCES, AccessDeniedError),
    (errno.EIO, StorageUnavailableError),
]
TABLES = ["CREATE TABLE texts (text BLOB, number INTEGER)"], ["CREATE INDEX by_text ON texts (text)"]


@given(st.lists(st.tuples(st.text("ab\0\udcff\uffff\U0001f600", max_size=3), st.integers(0, 9))), st.integers(1, 9))
def test_rows_are_read_as_they_were_added(added: list[tuple[str, int]], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scratch, "_AT_ONCE", at_once)
        patched.setattr(scratch, "_PAGE", at_once)
        made = ScratchDatabase("texts", *TABLES)
        for text, number in added:
            made.add("texts", (to_raw(text), number))
        assert made.first("SELECT count(*) FROM texts") == (len(added),)
        rows = [(to_text(raw), number) for raw, number in made.rows("SELECT * FROM texts ORDER BY text, number")]
        assert rows == sorted(added)
        made.add("texts", (to_raw("a"), 10))
        for wanted in {"a", *(text for text, _ in added)}:
            found = made.all("SELECT number FROM texts WHERE text = ? ORDER BY number", (to_raw(wanted),))
            assert [number for (number,) in found] == sorted(n for text, n in [*added, ("a", 10)] if text == wanted)


@given(st.lists(st.integers() | st.integers(-300, 300) | st.integers(0, 200).map(lambda bits: (1 << bits) - 1)))
def test_numbers_of_any_size_are_in_order(numbers: list[int]) -> None:
    assert sorted(numbers, key=to_sortable) == sorted(numbers)


def test_any_thread_reads_and_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_CACHE_KIB", 100)
    monkeypatch.setattr(scratch, "_AT_ONCE", 100)
    made = ScratchDatabase("texts", *TABLES)

    def work(start: int) -> int:
        for number in range(start, 10_000, 4):
            made.add("texts", (b"%0100d" % number, number))
            assert number % 500 or made.first("SELECT number FROM texts WHERE text = ?", (b"%0100d" % number,))
        return sum(1 for _ in made.rows("SELECT * FROM texts"))

    with ThreadPoolExecutor(4) as executor:
        assert max(executor.map(work, range(4))) == 10_000
    assert [number for (number,) in made.rows("SELECT number FROM texts ORDER BY text")] == list(range(10_000))


SPOOLING = """
import os, time
from pathlib import Path
from singerlake.scratch import ScratchDatabase

def in_file():
    links = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return any(link.startswith(os.environ["TMPDIR"]) for link in links)

def filled(count):
    files = ScratchDatabase("files", ["CREATE TABLE bodies (body BLOB)"], [])
    for _ in range(count):
        files.all("INSERT INTO bodies VALUES (?)", (b"abc" * (1 << 20),))
    return files

small, large = filled(1), filled(9)
print(in_file(), large.first("SELECT substr(body, 1, 3) FROM bodies")[0].decode())
del large
print(in_file(), flush=True)
large = filled(9)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_has_a_name_space_is_given_back_and_a_killed_process_leaves_no_file(
    tmp_path: Path, number: signal.Signals
) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", SPOOLING], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(3)]
        assert said == [b"True abc\n", b"False\n", b"ready\n"] or not Path("/proc/self/fd").is_dir()
        assert list(tmp_path.iterdir()) == []
        process.send_signal(number)
    assert process.returncode == -number
    assert list(tmp_path.iterdir()) == []


def fill() -> None:
    made = ScratchDatabase("the files", *TABLES)
    for number in range(100_000):
        made.add("texts", (b"%0100d" % number, number))
    assert made.first("SELECT 1") == (1,)


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fill_disk(monkeypatch)
    with pytest.raises(
        StorageFullError, match=r"^no space is left for the files; free some, or set \$TMPDIR"
    ) as caught:
        fill()
    assert caught.value.context == {"folder": scratch._sqlite_folder()}


@pytest.mark.parametrize(("number", "kind"), REFUSALS)
def test_a_disk_that_refuses_is_named(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[SingerlakeError]
) -> None:
    """SQLite says that there was an error, and a file that is written for it says which."""

    def refuse(*_: Any) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(scratch, "_CACHE_KIB", 100)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, most[1]))
    try:
        with pytest.raises(kind, match=r"the files.*set \$TMPDIR") as caught:
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert caught.value.context == {"folder": scratch._sqlite_folder()}


def test_what_the_disk_is_not_to_blame_for_stays_as_it_is() -> None:
    with pytest.raises(sqlite3.OperationalError, match="syntax error"):
        ScratchDatabase("texts", ["CREATE TABEL texts"], [])
