"""Reading many small files of a local disk at once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from singerlake import errors
from singerlake.clock import SystemClock, random_id
from singerlake.storage import local
from singerlake.storage.local import LocalStorage
from tests import sanitized


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "lake", clock=SystemClock(), ids=random_id)


def test_bodies_are_had_of_small_files_and_of_nothing_else(storage: LocalStorage, tmp_path: Path) -> None:
    assert local.compiled is not None, "installed without a C compiler: install one, and the package again"
    contents = {"raw/x": b"1" * 10, "raw/y/z": b"", "raw/long": b"2" * 11, "raw/\udcff": b"3", "raw/é": b"4"}
    for key, content in contents.items():
        storage.put(key, content)
    folder = Path(storage.url) / "raw"
    (folder / "link").symlink_to(folder / "x")
    os.mkfifo(folder / "pipe")
    asked = ["raw/../raw/x", "raw/link", "raw/pipe", "raw/y", "raw/none", "none/x", *contents]
    assert list(storage.bodies(asked, 10)) == [None] * 6 + [b"1" * 10, b"", None, b"3", b"4"]
    assert list(storage.bodies(asked, 0)) == [None] * 7 + [b"", None, None, None]


def test_bodies_are_not_looked_for_behind_a_link(storage: LocalStorage, tmp_path: Path) -> None:
    storage.put("raw/tap/x", b"1")
    assert list(storage.bodies(["raw/tap/x"], 10)) == [b"1"]
    (Path(storage.url) / "raw").rename(tmp_path / "outside")
    shutil.copytree(tmp_path / "outside", tmp_path / "other")
    (Path(storage.url) / "raw").symlink_to(tmp_path / "other")
    assert list(storage.bodies(["raw/tap/x"] * 2, 10)) == [None, None]
    with pytest.raises(errors.AccessDenied, match="link"):
        storage.open("raw/tap/x")


def test_without_a_compiler_bodies_are_opened(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.put("raw/x", b"1")
    monkeypatch.setattr(local, "compiled", None)
    assert list(storage.bodies(["raw/x", "raw/y"], 10)) == [None, None]


@sanitized.linux
def test_reading_bodies_stays_within_its_memory(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}").write_bytes(b"x" * (number * number % 977))
    script = """
import os, random, sys
from _bodies import read

chance = random.Random(1)
for _ in range(300):
    numbers = [chance.randrange(210) for _ in range(chance.randint(0, 300))]
    most = chance.choice([0, 100, 1000])
    found = read(tuple(os.path.join(sys.argv[1], str(number)).encode() for number in numbers), most)
    sizes = [number * number % 977 if number < 200 else most + 1 for number in numbers]
    assert [None if body is None else len(body) for body in found] == [size if size <= most else None for size in sizes]
try:
    read((b"a\\0b",), 1)
except ValueError:
    print("refused")
"""
    assert sanitized.watched(tmp_path, "storage/_bodies.c", script, tmp_path).strip() == "refused"
