"""Reading many small files of a local disk at once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from singerlake import errors
from singerlake.clock import SystemClock, random_id
from singerlake.storage.local import places as local_places
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.port import Part
from tests import sanitized


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "lake", clock=SystemClock(), ids=random_id)


def test_bodies_are_had_of_small_files_and_of_nothing_else(storage: LocalStorage, tmp_path: Path) -> None:
    assert local_places.compiled is not None, "installed without a C compiler: install one, and the package again"
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
    with pytest.raises(errors.AccessDeniedError, match="link"):
        storage.open("raw/tap/x")


def test_bodies_of_a_folder_that_becomes_a_link_just_then_are_left(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put("raw/tap/x", b"1")
    real = local_places.compiled.read

    def swapped(*arguments: Any) -> Any:
        (Path(storage.url) / "raw").rename(tmp_path / "was")
        (tmp_path / "other" / "tap").mkdir(parents=True)
        (tmp_path / "other" / "tap" / "x").write_bytes(b"2")
        (Path(storage.url) / "raw").symlink_to(tmp_path / "other")
        return real(*arguments)

    monkeypatch.setattr(local_places, "compiled", SimpleNamespace(read=swapped))
    assert list(storage.bodies(["raw/tap/x"], 10)) == [None]


@pytest.mark.parametrize("operation", ["get", "open", "read_range", "beginning", "compose", "bodies"])
def test_a_pipe_is_no_object_and_is_not_waited_for(storage: LocalStorage, operation: str) -> None:
    storage.put("raw/x", b"1")
    os.mkfifo(Path(storage.url) / "raw" / "pipe")
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: storage.get("raw/pipe"),
        "open": lambda: storage.open("raw/pipe"),
        "read_range": lambda: storage.read_range("raw/pipe", 0, 1),
        "beginning": lambda: storage.beginning("raw/pipe", 1),
        "compose": lambda: storage.compose("raw/y", [Part("raw/pipe", 0, 1)]),
        "bodies": lambda: storage.bodies(["raw/pipe"], 1),
    }
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(calls[operation])
        if operation in ("get", "bodies"):
            assert asked.result(timeout=10) in (None, (None,), [None])
        else:
            with pytest.raises(errors.MissingFileError):
                asked.result(timeout=10)


def test_without_a_compiler_bodies_are_opened(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.put("raw/x", b"1")
    monkeypatch.setattr(local_places, "compiled", None)
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
    status = os.stat(sys.argv[1])
    names = tuple(str(number).encode() for number in numbers)
    found = read(sys.argv[1].encode(), status.st_dev, status.st_ino, names, most)
    assert read(sys.argv[1].encode(), status.st_dev, status.st_ino + 1, names, most) == (None,) * len(names)
    assert read(b"/none", status.st_dev, status.st_ino, names, most) == (None,) * len(names)
    sizes = [number * number % 977 if number < 200 else most + 1 for number in numbers]
    assert [None if body is None else len(body) for body in found] == [size if size <= most else None for size in sizes]
for wrong in ((b"/", 0, 0, (b"a\\0b",), 1), (b"/\\0", 0, 0, (), 1)):
    try:
        read(*wrong)
    except ValueError:
        print("refused")
"""
    assert sanitized.watched(tmp_path, "storage/local/_bodies.c", script, tmp_path).split() == ["refused"] * 2
