"""An expiry with a known hole."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from singerlake.format.state import fold
from tests.simulation.stores.expiring import EXPIRING


def _up_to_the_file_that_holds_it() -> AbstractContextManager[object]:
    """Lets the file go that holds the offset, too, with the messages in it that should stay."""
    return mock.patch.object(fold, "bisect_right", _one_more)


def _one_more(files: Sequence[Any], before: int, *, key: Any) -> int:
    return sum(file.offset < before for file in files)


EXPIRIES = (replace(EXPIRING["expiring-log"], name="expires-more", patched=_up_to_the_file_that_holds_it),)
