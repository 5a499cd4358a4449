"""Files below allowed folders, and everything that a record could name in their place."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.attached.sources import local
from singerlake.attached.sources.local import LocalFiles
from singerlake.attached.sources.locations import LocalFile
from singerlake.errors import SettingError, UnreadableSourceError
from tests.scratch.descriptors import DESCRIPTORS, open_below


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """An allowed folder with a file, beside another folder that is not allowed."""
    for name, body in (("photos", b"a photo"), ("private", b"a secret")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").write_bytes(body)
    (tmp_path / "photos" / "below").mkdir()
    return tmp_path / "photos"


def read(folder: Path | str, path: Path | str) -> bytes:
    source = LocalFiles([str(folder)]).open(LocalFile(str(path)))
    try:
        body = bytes(source.stream.read(100))
        assert source.size == len(body)
        return body
    finally:
        source.stream.close()


def refused(folder: Path | str, path: Path | str) -> str:
    with pytest.raises(UnreadableSourceError) as caught:
        read(folder, path)
    return caught.value.message


def test_a_file_below_the_folder_is_read(photos: Path) -> None:
    assert read(photos, photos / "a.jpg") == b"a photo"
    assert read(f"{photos}/", photos / "below/.././a.jpg") == b"a photo"
    assert read("/", photos / "a.jpg") == b"a photo"


def test_links_are_followed_as_long_as_they_end_below_it(photos: Path) -> None:
    (photos / "below/link.jpg").symlink_to("../a.jpg")
    (photos / "folder").symlink_to("below")
    assert read(photos, photos / "folder/link.jpg") == b"a photo"
    allowed = photos.parent / "allowed"
    allowed.symlink_to("photos")
    assert read(allowed, photos / "a.jpg") == b"a photo"
    assert read(photos, allowed / "a.jpg") == b"a photo"


def test_what_is_not_below_it_is_refused_whether_it_is_there_or_not(photos: Path) -> None:
    (photos / "out.jpg").symlink_to("../private/a.jpg")
    (photos / "out").symlink_to("../private")
    (photos.parent / "photos2").mkdir()
    (photos.parent / "photos2/a.jpg").write_bytes(b"beside")
    for path in (
        "/etc/passwd",
        "/no/such/file",
        photos,
        f"{photos}/../private/a.jpg",
        f"{photos}/../private/none.jpg",
        photos / "out.jpg",
        photos / "out/a.jpg",
        photos / "out/none.jpg",
        photos.parent / "photos2/a.jpg",
    ):
        assert refused(photos, path) == "its place is not allowed", path
    with pytest.raises(UnreadableSourceError):
        LocalFiles([]).open(LocalFile(str(photos / "a.jpg")))


def test_what_is_no_regular_file_is_refused(photos: Path) -> None:
    os.mkfifo(photos / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(photos / "socket.jpg"))
        for name in ("pipe.jpg", "socket.jpg", "below"):
            assert "no file" in refused(photos, photos / name)
    for path in ("/dev/zero", "/dev/null", "/dev/stdin", "/proc/self/environ", "/proc/self/mem", "/sys/kernel/notes"):
        assert "no file" in refused("/", path) or "cannot be read" in refused("/", path), path


@pytest.mark.parametrize("kind", ["proc", "sysfs", "cgroup2"])
def test_so_is_a_view_of_the_kernel_wherever_it_is_mounted(
    photos: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_kind", lambda device: kind)
    assert "no file" in refused(photos, photos / "a.jpg")


def test_what_is_missing_or_forbidden_says_so(photos: Path) -> None:
    (photos / "loop").symlink_to("loop")
    assert refused(photos, photos / "none.jpg") == "it cannot be read: no such file or directory"
    assert refused(photos, photos / "a.jpg/b.jpg") == "it cannot be read: not a directory"
    assert "cannot be read" in refused(photos, photos / "loop") or "no file" in refused(photos, photos / "loop")
    assert "name too long" in refused(photos, photos / ("x" * 300))


def test_a_folder_that_is_not_there_is_named_to_its_files_and_beforehand(photos: Path) -> None:
    later, link = photos.parent / "later", photos.parent / "link"
    link.symlink_to(later)
    files = LocalFiles([f"{later}/", str(photos), str(link), str(photos / "a.jpg")])
    missing = "there is no such folder"
    assert files.trouble() == [
        (f"{later}/", missing),
        (str(link), missing),
        (str(photos / "a.jpg"), "it is not a folder"),
    ]
    for path in (later / "a.jpg", later / "below/a.jpg", link / "a.jpg"):
        with pytest.raises(UnreadableSourceError) as caught:
            files.open(LocalFile(str(path)))
        assert caught.value.message == f"file_sources allows '{later}/', but {missing}"
    assert (
        refused(photos / "a.jpg", photos / "a.jpg/b") == f"file_sources allows '{photos}/a.jpg', but it is not a folder"
    )
    later.mkdir()
    (later / "a.jpg").write_bytes(b"came late")
    source = files.open(LocalFile(str(later / "a.jpg")))
    assert source.stream.read(100) == b"came late"
    source.stream.close()
    assert len(files.trouble()) == 1


def test_a_jpeg_as_base64_is_told_as_one_though_it_begins_as_a_path_does(photos: Path) -> None:
    text = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQg="
    with pytest.raises(UnreadableSourceError) as caught:
        LocalFiles([str(photos)]).open(LocalFile(text))
    assert caught.value.message == "its place is not allowed, or the text is bytes as base64"
    assert "set base64 for this property in file_properties" in caught.value.hint
    assert refused(photos, "/9j/a.jpg") == "its place is not allowed"


def test_without_permission_it_says_so(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: str, *arguments: object, **keywords: object) -> int:
        if path == "a.jpg":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return original(path, *arguments, **keywords)  # type: ignore[arg-type]

    original = os.open
    monkeypatch.setattr(os, "open", forbidden)
    monkeypatch.setattr(os, "supports_dir_fd", {forbidden})
    assert refused(photos, photos / "a.jpg") == "it cannot be read: permission denied"


def a_link(below: Path) -> None:
    (below / "b.jpg").unlink()
    (below / "b.jpg").symlink_to("/etc/passwd")


def a_pipe(below: Path) -> None:
    (below / "b.jpg").unlink()
    os.mkfifo(below / "b.jpg")


def a_link_of_its_folder(below: Path) -> None:
    below.rename(below.parent / "was")
    below.symlink_to("/etc")


@pytest.mark.parametrize("swap", [a_link, a_pipe, a_link_of_its_folder])
def test_what_is_swapped_after_the_look_at_its_path_is_not_followed(
    photos: Path, swap: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "below/b.jpg").write_bytes(b"b")

    def swapping(path: str) -> str:
        real = original(path)
        if path.endswith("b.jpg"):
            swap(photos / "below")
        return real

    original = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", swapping)
    message = refused(photos, photos / "below/b.jpg")
    assert "cannot be read" in message or "no file" in message


def test_a_file_that_was_written_into_meanwhile_is_not_whole_whatever_its_size(photos: Path) -> None:
    source = LocalFiles([str(photos)]).open(LocalFile(str(photos / "a.jpg")))
    assert source.stream.read(3) == b"a p"
    with (photos / "a.jpg").open("r+b") as file:
        file.write(b"A PHOTO")
    os.utime(photos / "a.jpg", ns=(0, 1))
    assert source.stream.read(10) == b"HOTO"
    with pytest.raises(UnreadableSourceError, match="changed while it was read") as caught:
        source.stream.read(10)
    assert caught.value.passing
    source.stream.close()


def test_one_that_another_takes_the_place_of_is_read_as_it_was(photos: Path) -> None:
    source = LocalFiles([str(photos)]).open(LocalFile(str(photos / "a.jpg")))
    (photos / "b.jpg").write_bytes(b"another")
    (photos / "b.jpg").replace(photos / "a.jpg")
    assert [source.stream.read(10) for _ in range(2)] == [b"a photo", b""]
    source.stream.close()


def test_no_descriptor_is_left_behind(photos: Path) -> None:
    source = LocalFiles([str(photos)]).open(LocalFile(str(photos / "a.jpg")))
    assert open_below(photos.parent) or not DESCRIPTORS.is_dir()
    source.stream.close()
    for _ in range(3):
        read(photos, photos / "a.jpg")
        refused(photos, photos / "below")
        refused(photos, photos / "below/none/none.jpg")
    assert open_below(photos.parent) == []


def test_a_system_that_cannot_open_below_a_folder_refuses_the_setting(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set())
    LocalFiles([])
    with pytest.raises(SettingError, match=f"file_sources has a folder.*entry='{photos}'"):
        LocalFiles([str(photos)])
