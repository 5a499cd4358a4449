"""What the disk of this machine refuses, while a file is made, is an error that says what to do."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest

from singerlake.errors import AccessDeniedError, SingerlakeError, StorageFullError, StorageUnavailableError
from singerlake.scratch import local_folder


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StorageFullError),
        (errno.EDQUOT, StorageFullError),
        (errno.EACCES, AccessDeniedError),
        (errno.EIO, StorageUnavailableError),
    ],
)
def test_what_the_disk_refuses_is_told_and_the_folder_goes(number: int, kind: type[SingerlakeError]) -> None:
    seen: list[Path] = []

    def make() -> None:
        with local_folder("files of a table") as folder:
            seen.append(folder)
            (folder / "half").write_bytes(b"x")
            raise OSError(number, "refused")

    with pytest.raises(kind, match=r"files of a table.*set \$TMPDIR") as caught:
        make()
    assert caught.value.context == {"folder": tempfile.gettempdir()}
    assert not seen[0].exists()


def test_a_machine_without_a_folder_for_files_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    with pytest.raises(StorageUnavailableError, match="no usable temporary directory"), local_folder("x"):
        pass
