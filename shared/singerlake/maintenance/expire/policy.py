"""The retention of streams in ``singerlake.json``: what ``singerlake policy`` sets and a collector goes by."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from singerlake.errors import LostStateError
from singerlake.format import layout
from singerlake.format.metadata import root
from singerlake.format.metadata.retention import Retention
from singerlake.storage.conditional import replace_if_unchanged
from singerlake.storage.port import Storage, Stored


def retentions(metadata: root.RootMetadata | None, tap: str) -> Mapping[str, Retention]:
    """What is said of a tap's streams, by name; ``""`` stands for those that are not named."""
    notes = metadata.taps.get(tap) if metadata is not None else None
    return notes.retention if notes is not None else {}


def set_retention(storage: Storage, tap: str, stream: str, retention: Retention | None) -> bool:
    """Say how long a stream is kept (``""``: the streams of the tap that are not named); None: say nothing of it. True
    where that is something else than before. Raises ``LostStateError`` where there is no root metadata,
    ``CorruptObjectError``, ``UnsupportedFormatError``, ``TooManyConflictsError`` and what storage raises."""
    key = layout.root_metadata_key()

    def made(stored: Stored | None) -> bytes | None:
        if stored is None:
            raise LostStateError(
                "there is no root metadata to write a retention into", hint="run 'singerlake rebuild'", key=key
            )
        before = root.with_tap(root.from_json(stored.body, key=key), tap)
        notes = before.taps[tap]
        rules = {name: rule for name, rule in notes.retention.items() if name != stream}
        if retention is not None:
            rules[stream] = retention
        if rules == notes.retention:
            return None
        taps = {**before.taps, tap: msgspec.structs.replace(notes, retention=rules)}
        return root.to_json(msgspec.structs.replace(before, taps=taps), stored.body)

    return replace_if_unchanged(storage, key, made)
