"""Collections with a known hole each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from unittest import mock

import msgspec

from singerlake.format.state.transactions import CollectFiles
from singerlake.upkeep.gc import apply as collect
from tests.simulation import jobs
from tests.simulation.stores.kinds import KINDS


def _impatient() -> AbstractContextManager[object]:
    """As garbage collectors that go by age alone: what a slow writer is about to list is gone by then."""
    return mock.patch.object(jobs, "GRACE", 30.0)


def _on_its_own() -> AbstractContextManager[object]:
    """Deletes what it found, and has no transaction say so before."""
    agree = collect._Collection._committed

    def shows_alone(self, change):  # type: ignore[no-untyped-def]
        return agree(self, msgspec.structs.replace(change, deleted=()) if isinstance(change, CollectFiles) else change)

    return mock.patch.multiple(collect._Collection, _committed=shows_alone, _deleted=_all_of_them)


def _all_of_them(self, entries):  # type: ignore[no-untyped-def]
    self.context.storage.delete_all([entry.key for entry in entries])
    return list(entries)


COLLECTIONS = (
    replace(KINDS["log"], name="impatient", patched=_impatient),
    replace(KINDS["log"], name="deletes-alone", patched=_on_its_own),
)
