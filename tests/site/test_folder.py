"""Nothing in an output folder is overwritten or removed but what an earlier build wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from singerlake.errors import AccessDeniedError, CorruptObjectError, SettingError
from singerlake.site import folder
from singerlake.site.folder import INDEX, open_folder


def write(root: Path, *paths: str, beside: bool = False) -> list[str]:
    """One build of a site with these files."""
    site = open_folder(root, beside=beside)
    with site.building():
        for path in paths:
            site.stage(path, f"{path} of {len(paths)}".encode())
        return site.publish(paths)


def interrupted(root: Path) -> None:
    site = open_folder(root)
    with site.building():
        site.stage("index.html", b"half")
        raise KeyboardInterrupt


def there(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def test_a_new_folder_is_made_and_an_empty_one_used(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for root in (tmp_path / "a" / "b", tmp_path / "empty"):
        assert write(root, "index.html", "taps/t.html") == []
        assert there(root) == {INDEX, "index.html", "taps/t.html"}
        assert json.loads((root / INDEX).read_text())["files"] == ["index.html", "taps/t.html"]


def test_a_later_build_replaces_and_removes_its_own_files_alone(tmp_path: Path) -> None:
    write(tmp_path, "index.html", "taps/t.html", "taps/u.html", "streams/t/s.html")
    (tmp_path / "CNAME").write_text("mine")
    (tmp_path / "taps" / "mine.html").write_text("mine")
    assert write(tmp_path, "index.html", "taps/v.html") == ["streams/t/s.html", "taps/t.html", "taps/u.html"]
    assert there(tmp_path) == {INDEX, "index.html", "taps/v.html", "CNAME", "taps/mine.html"}
    assert (tmp_path / "index.html").read_text() == "index.html of 2"
    assert not (tmp_path / "streams").exists()


def test_a_folder_with_other_files_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SettingError, match=r"other files.*--beside"):
        write(tmp_path, "index.html")
    assert there(tmp_path) == {"thesis.txt"}


def test_beside_other_files_when_told(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    write(tmp_path, "index.html", beside=True)
    write(tmp_path, "index.html")
    assert there(tmp_path) == {INDEX, "index.html", "thesis.txt"}


@pytest.mark.parametrize("mine", ["index.html", "taps", "taps/t.html/x"])
def test_what_is_in_the_way_of_a_page_is_never_overwritten(tmp_path: Path, mine: str) -> None:
    (tmp_path / mine).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / mine).write_text("mine")
    with pytest.raises(SettingError, match=r"holds a file that is not of this site.*nothing was changed"):
        write(tmp_path, "index.html", "taps/t.html", beside=True)
    assert there(tmp_path) == {mine}
    assert (tmp_path / mine).read_text() == "mine"


def test_a_page_that_is_new_is_not_put_over_a_file_that_came_meanwhile(tmp_path: Path) -> None:
    write(tmp_path, "index.html")
    (tmp_path / "new.html").write_text("mine")
    with pytest.raises(SettingError, match="holds a file that is not of this site"):
        write(tmp_path, "index.html", "new.html")
    assert there(tmp_path) == {INDEX, "index.html", "new.html"}
    assert (tmp_path / "index.html").read_text() == "index.html of 1"


def test_no_page_is_written_or_removed_through_a_symbolic_link(tmp_path: Path) -> None:
    root, other = tmp_path / "site", tmp_path / "other"
    write(root, "index.html", "taps/t.html")
    (root / "taps").rename(other)
    (root / "taps").symlink_to(other)
    with pytest.raises(SettingError, match="symbolic link"):
        write(root, "index.html", "taps/u.html")
    assert write(root, "index.html") == []
    assert there(other) == {"t.html"}


def test_a_page_that_became_a_link_is_replaced_and_not_what_it_points_at(tmp_path: Path) -> None:
    root, mine = tmp_path / "site", tmp_path / "mine"
    write(root, "index.html")
    mine.write_text("mine")
    (root / "index.html").unlink()
    (root / "index.html").symlink_to(mine)
    write(root, "index.html")
    assert mine.read_text() == "mine"
    assert not (root / "index.html").is_symlink()


@pytest.mark.parametrize(
    "index",
    [
        "nonsense",
        "[]",
        '{"format": 2, "files": []}',
        '{"format": 1, "files": ["../../home/me.html"]}',
        '{"format": 1, "files": ["/etc/passwd"]}',
        '{"format": 1, "files": ["thesis.txt"]}',
        '{"format": 1, "files": ["a//b.html"]}',
        '{"format": 1, "files": [7]}',
    ],
)
def test_a_list_of_files_that_is_not_ours_removes_nothing(tmp_path: Path, index: str) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / INDEX).write_text(index)
    with pytest.raises(CorruptObjectError, match="nothing was written"):
        write(tmp_path, "index.html")
    assert there(tmp_path) == {INDEX, "thesis.txt"}


def test_a_build_that_fails_leaves_the_site_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, "index.html", "taps/t.html")
    before = {path: (tmp_path / path).read_bytes() for path in there(tmp_path)}
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path)
    assert {path: (tmp_path / path).read_bytes() for path in there(tmp_path)} == before


def test_a_first_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path)
    assert there(tmp_path) == set()


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_build_that_is_killed_while_pages_move_is_made_good_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    write(tmp_path, "index.html", "taps/t.html")
    real, pages = os.replace, []

    def killed(source: Path, target: Path) -> None:
        if target.name != INDEX:
            if len(pages) == moved:
                raise KeyboardInterrupt
            pages.append(target)
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(folder.os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path, "index.html", "streams/t/s.html", "taps/u.html")
    write(tmp_path, "index.html")
    assert there(tmp_path) == {INDEX, "index.html"}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SettingError):
            write(root, "index.html")
    assert (tmp_path / "file").read_text() == "mine"


def test_the_folder_for_new_pages_is_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / folder._STAGE).mkdir()
    (tmp_path / folder._STAGE / "mine").write_text("mine")
    with pytest.raises(SettingError, match="another program made it"):
        write(tmp_path, "index.html", beside=True)
    assert there(tmp_path) == {f"{folder._STAGE}/mine"}


@pytest.mark.parametrize(("code", "error"), [("EACCES", AccessDeniedError), ("EROFS", AccessDeniedError)])
def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, error: type[Exception]
) -> None:
    import errno

    def refused(self: Path, body: bytes) -> int:
        raise OSError(getattr(errno, code), "no", str(self))

    monkeypatch.setattr(Path, "write_bytes", refused)
    with pytest.raises(error, match=r"cannot be written.*site"):
        write(tmp_path / "site", "index.html")
