"""Errors of the places that a run writes to: each names the setting or the variable that says where the place is."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError, StorageFullError
from singerlake.lake import Lake
from tap_singerlake.files import copies
from tests.attached.lakes import attach
from tests.tap.batch.support import batch_config
from tests.tap.runs import Output, replay

PLACES: dict[str, Any] = {"batch_config": batch_config, "include_files": str}


@pytest.fixture(params=PLACES)
def setting(request: pytest.FixtureRequest, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(copies, "IN_MEMORY", 0)
    attach(lake, "tap-a", "photos", [[b"a photo"]])
    return str(request.param)


def failed(root: Path, setting: str, place: str, kind: type[SingerlakeError]) -> str:
    """What a run says that writes to ``place`` and fails; it passes on no STATE."""
    with pytest.raises(kind) as caught:
        replay(root, **{setting: PLACES[setting](place)})
    output: Output = caught.value.output  # type: ignore[attr-defined]
    assert output.of("BATCH") == output.of("STATE") == []
    return str(caught.value)


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.ENOSPC, StorageFullError, "no space is left for {}; free space"),
        (errno.EACCES, AccessDeniedError, "permission denied in the folder of {0}; .*, or change {0}"),
    ],
    ids=["full", "denied"],
)
def test_what_a_disk_refuses_is_said_of_the_setting(
    setting: str,
    root: Path,
    tmp_path: Path,
    number: int,
    kind: type[SingerlakeError],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, replace = tmp_path / "place", os.replace

    def refused(source: Any, target: Any, **more: Any) -> None:
        if str(target).startswith(str(place)):
            raise OSError(number, os.strerror(number))
        replace(source, target, **more)

    monkeypatch.setattr(os, "replace", refused)
    text = failed(root, setting, str(place), kind)
    assert re.search(rf"{said.format(setting)}.*{setting}='{place}'", text)
    assert "lake_root" not in text
    assert [path for path in place.rglob("*") if path.is_file() and path.name != ".singerlake.flock"] == []


def test_so_is_a_place_that_is_none(setting: str, root: Path) -> None:
    assert failed(root, setting, "http://example.com/x", SettingError).startswith(f"{setting} has an unknown scheme; ")


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.ENOSPC, StorageFullError, "no space is left for the spool; free some, or set TMPDIR (TMPDIR='{}"),
        (errno.EACCES, AccessDeniedError, "the spool cannot be written; set TMPDIR (TMPDIR='{}"),
    ],
    ids=["full", "denied"],
)
def test_trouble_of_the_spool_names_the_variable_that_says_where_it_is(
    setting: str,
    root: Path,
    tmp_path: Path,
    number: int,
    kind: type[SingerlakeError],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spool, opened = tmp_path / "spool", Path.open
    spool.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))

    def refused(self: Path, *arguments: Any, **more: Any) -> Any:
        if self.is_relative_to(spool):
            raise OSError(number, os.strerror(number), str(self))
        return opened(self, *arguments, **more)

    monkeypatch.setattr(Path, "open", refused)
    assert failed(root, setting, str(tmp_path / "place"), kind).startswith(said.format(spool))
    assert list(spool.iterdir()) == []
