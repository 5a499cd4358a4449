"""An expiry with a known hole."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from unittest import mock

from singerlake.format.state.files.file_list import FileList
from tests.simulation.stores.expiring import EXPIRING


def _up_to_the_file_that_holds_it() -> AbstractContextManager[object]:
    """Lets the file go that holds the offset, too, with the messages in it that should stay."""
    return mock.patch.object(FileList, "index_behind", _one_more)


def _one_more(files: FileList, before: int) -> int:
    return sum(file.offset < before for file in files)


EXPIRIES = (replace(EXPIRING["expiring-log"], name="expires-more", patched=_up_to_the_file_that_holds_it),)
