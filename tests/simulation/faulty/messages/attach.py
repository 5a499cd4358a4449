"""Attached files with a known hole each."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from unittest import mock

import msgspec

from singerlake.format import layout
from singerlake.format.state import attached_objects
from singerlake.format.state.transactions import CollectFiles
from singerlake.upkeep.gc import apply as collect
from tests.simulation.stores import attaching
from tests.simulation.stores.attaching import ATTACHING

_Collection = collect._Collection


def _uses_what_goes() -> AbstractContextManager[object]:
    """A writer that uses an object again which is being deleted, and a state that lets it."""
    held = ExitStack()
    held.enter_context(mock.patch.object(attaching, "free_copy", return_value=1))
    held.enter_context(mock.patch.object(attached_objects, "going", return_value=[]))
    return held


def _remembers() -> AbstractContextManager[object]:
    """A writer that takes an object for there since it stored it once."""
    return mock.patch.object(attaching, "REMEMBERED", 1e9)


def _on_its_own() -> AbstractContextManager[object]:
    """Deletes the attached files that it found, and has no transaction say so before."""
    agree, delete = _Collection._committed, _Collection._deleted

    def shows_alone(self, change):  # type: ignore[no-untyped-def]
        if isinstance(change, CollectFiles):
            change = msgspec.structs.replace(change, deleted=tuple(id for id in change.deleted if len(id) < 64))
        return agree(self, change)

    def deletes(self, entries):  # type: ignore[no-untyped-def]
        attached = [entry for entry in entries if layout.is_attached_key(entry.key)]
        done = delete(self, [entry for entry in entries if entry not in attached])
        self.context.storage.delete_all([entry.key for entry in attached])
        return done + attached

    return mock.patch.multiple(_Collection, _committed=shows_alone, _deleted=deletes)


def _loses_sight() -> AbstractContextManager[object]:
    """A state that calls nothing retired when the last record goes that had it."""
    return mock.patch.object(attached_objects, "left_behind", return_value=[])


ATTACHMENTS = (
    replace(ATTACHING["attaching-log"], name="attaches-deleted", patched=_uses_what_goes),
    replace(ATTACHING["attaching-log"], name="attaches-remembered", patched=_remembers),
    replace(ATTACHING["attaching-log"], name="attached-deleted-alone", patched=_on_its_own),
    replace(ATTACHING["attaching-log"], name="attached-out-of-sight", patched=_loses_sight),
)
