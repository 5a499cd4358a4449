"""Erasures with a known hole each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from unittest import mock

from singerlake.upkeep.erase import erase
from singerlake.upkeep.rebuild import choose
from tests.simulation.stores.erasing import ERASING

_Erasure = erase._Erasure


def _over_any_file() -> AbstractContextManager[object]:
    """Puts a file in the place of whichever holds the messages by then, and not only of the one that it was made of."""
    commit = _Erasure._commit

    def commits(self, file, made, new):  # type: ignore[no-untyped-def]
        state = (self.context.store.catch_up(self.commits.loaded) or self.commits.loaded).manifest
        there = [each for each in state.files if (each.offset, each.messages) == (file.offset, file.messages)]
        commit(self, there[0] if there else file, made, new)

    return mock.patch.object(_Erasure, "_commit", commits)


def _one_look() -> AbstractContextManager[object]:
    """Looks into the files that are there when it begins, and is done when it has come to the end of them."""

    def run(self, *, dry_run):  # type: ignore[no-untyped-def]
        holding = list(self._look_into(list(self.manifest.files)))
        if not dry_run:
            self._write_again([file for file, _ in holding])

    return mock.patch.object(_Erasure, "run", run)


def _any_that_holds_it() -> AbstractContextManager[object]:
    """A rebuild that takes a file with holes and the one before it for the same."""
    return mock.patch.object(choose, "_erased", return_value={})


ERASURES = (
    replace(ERASING["erasing-log"], name="erases-any", patched=_over_any_file),
    replace(ERASING["erasing-log"], name="erases-once", patched=_one_look),
    replace(ERASING["erasing-log"], name="rebuilds-blind", patched=_any_that_holds_it),
)
