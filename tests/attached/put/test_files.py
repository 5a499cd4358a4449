"""Which files are meant, and what is refused before anything is read."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from singerlake.attached.put import find_files
from singerlake.errors import AccessDeniedError, SettingError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files ``b``, ``a/z``, ``a/é/y`` and ``a.x`` in the folder ``photos`` of the working folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("b", "a/z", "a/é/y", "a.x"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def names(*given: str | Path, recursive: bool = True, lake: str | None = None) -> list[str]:
    return [file.name for file in find_files([str(each) for each in given], recursive=recursive, lake=lake)]


def test_files_come_in_the_order_given_and_those_of_a_folder_by_their_bytes(folder: Path) -> None:
    (folder / "c.txt").write_text("12345")
    assert names("c.txt", "photos") == ["c.txt", "a/z", "a/é/y", "a.x", "b"]
    assert names("photos/", "c.txt")[-1] == "c.txt"
    [file] = find_files([str(folder / "c.txt")], recursive=False, lake=None)
    assert (file.name, file.path, file.size) == ("c.txt", str(folder / "c.txt"), 5)


def test_the_names_do_not_depend_on_how_the_folder_is_named(folder: Path) -> None:
    expected = names("photos")
    assert [names("./photos"), names(folder / "photos"), names("photos/../photos//")] == [expected] * 3


def test_an_empty_folder_has_no_file(folder: Path) -> None:
    (folder / "empty/below").mkdir(parents=True)
    assert names("empty") == []


def test_a_folder_deeper_than_the_interpreter_calls_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    depth = 1200
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    Path("f").touch()
    os.chdir(tmp_path)
    try:
        assert names("d") == ["d/" * (depth - 1) + "f"]
    finally:
        # What pytest removes such folders by would end at the same depth.
        subprocess.run(["rm", "-r", "d"], check=True)


def test_a_folder_is_taken_only_on_demand(folder: Path) -> None:
    with pytest.raises(SettingError, match=r"this is a folder; add recursive.*\(file='photos'\)"):
        names("photos", recursive=False)


@pytest.mark.parametrize("name", ["nope", "nope/nope", "", "c.txt/", "c.txt/a"])
def test_what_is_not_there_is_refused(folder: Path, name: str) -> None:
    (folder / "c.txt").write_text("1")
    with pytest.raises(SettingError, match="no such file"):
        names(name)


def test_a_name_that_no_file_can_have_says_so(folder: Path) -> None:
    with pytest.raises(SettingError, match="this cannot be read: file name too long"):
        names("x" * 300)


def test_links_are_followed(folder: Path) -> None:
    (folder / "photos/link").symlink_to(folder / "photos/b")
    (folder / "photos/more").symlink_to(folder / "photos/a")
    assert names("photos") == ["a/z", "a/é/y", "a.x", "b", "link", "more/z", "more/é/y"]


def test_a_link_to_nothing_is_refused(folder: Path) -> None:
    (folder / "photos/link").symlink_to("nope")
    with pytest.raises(SettingError, match=r"this link leads to no file.*photos/link"):
        names("photos")


def test_links_in_a_circle_are_refused(folder: Path) -> None:
    (folder / "photos/a/up").symlink_to(folder / "photos")
    with pytest.raises(SettingError, match="a link to a folder above it"):
        names("photos")
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    with pytest.raises(SettingError, match="leads to no file"):
        names("one")


def test_what_is_no_regular_file_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "photos/fifo")
    with pytest.raises(SettingError, match=r"this is a FIFO; name a regular file.*photos/fifo"):
        names("photos")
    with pytest.raises(SettingError, match="this is a device"):
        names("/dev/null")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("sock")
        with pytest.raises(SettingError, match="this is a socket"):
            names("sock")


@pytest.mark.parametrize("below", [False, True])
def test_a_name_that_is_not_utf8_is_refused(folder: Path, below: bool) -> None:
    path = os.fsencode(folder / "photos") + b"/caf\xe9.txt"
    with open(path, "wb"):
        pass
    with pytest.raises(SettingError, match=r"the name of this file is not UTF-8.*rename it.*caf\\udce9"):
        names("photos" if below else os.fsdecode(path))


def test_a_folder_whose_name_is_not_utf8_may_hold_files(folder: Path) -> None:
    path = os.fsencode(folder) + b"/caf\xe9"
    os.mkdir(path)
    with open(path + b"/a", "wb"):
        pass
    assert names(os.fsdecode(path)) == ["a"]


@pytest.mark.parametrize("given", [("photos", "b"), ("b", "b"), ("photos", "photos")])
def test_two_files_of_one_name_are_refused(folder: Path, given: tuple[str, ...]) -> None:
    (folder / "b").write_text("another")
    with pytest.raises(SettingError, match=r"two files would be called '(b|a/z)'.*other="):
        names(*given)


def test_the_lake_itself_is_refused(folder: Path) -> None:
    (folder / "lake/raw").mkdir(parents=True)
    lake = str(folder / "lake")
    with pytest.raises(SettingError, match="the lake itself is among the files"):
        names(".", lake=lake)
    with pytest.raises(SettingError, match="the lake itself is among the files"):
        names(lake, lake=lake)
    (folder / "link").symlink_to("lake")
    for inside in (f"{lake}/raw", "link/raw"):
        with pytest.raises(SettingError, match="the lake itself is among the files"):
            names(inside, lake=lake)
    with pytest.raises(SettingError, match="the lake itself is among the files"):
        names("lake/raw", lake="link")
    (folder / "lake.old").mkdir()
    assert names("photos", "lake.old", lake=lake)
    assert names("photos", lake=str(folder / "not there yet"))


def test_a_folder_that_cannot_be_read_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", refusing)
    with pytest.raises(AccessDeniedError, match=r"cannot be read; check the permissions.*photos"):
        names("photos")
