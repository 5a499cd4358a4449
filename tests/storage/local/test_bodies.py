"""Reading many small files of a local disk at once."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from singerlake import errors
from singerlake.clock import SystemClock, random_id
from singerlake.storage.local.places import Places
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.port import Part


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "lake", clock=SystemClock(), ids=random_id)


def test_bodies_are_had_of_small_files_and_of_nothing_else(storage: LocalStorage, tmp_path: Path) -> None:
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
    real = Places._folder

    def swapped(places: Places, *arguments: str) -> tuple[str, tuple[int, int] | None]:
        found = real(places, *arguments)
        (Path(storage.url) / "raw").rename(tmp_path / "was")
        (tmp_path / "other" / "tap").mkdir(parents=True)
        (tmp_path / "other" / "tap" / "x").write_bytes(b"2")
        (Path(storage.url) / "raw").symlink_to(tmp_path / "other")
        return found

    monkeypatch.setattr(Places, "_folder", swapped)
    assert list(storage.bodies(["raw/tap/x"], 10)) == [None]


@pytest.mark.parametrize("size", [1, 3])
def test_a_body_that_is_longer_or_shorter_than_was_said_is_left(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    storage.put("raw/x", b"12")
    monkeypatch.setattr(os, "fstat", lambda _: SimpleNamespace(st_mode=stat.S_IFREG, st_size=size))
    assert list(storage.bodies(["raw/x"], 10)) == [None]


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
