"""``singerlake.json``: what is known of the lake as a whole, and what people say of its taps."""

from __future__ import annotations

from typing import Any

import msgspec

from singerlake.format import FORMAT
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, decode_stored, indented
from singerlake.format.metadata.retention import Rule, rules_in
from singerlake.format.state.manifest import RESTORE, check_format


class TapNotes(msgspec.Struct, frozen=True, kw_only=True):
    """Annotations of one tap, set by people (section 6 of ``shared/docs/format``); ``rules`` reads ``retention``."""

    owner: str = ""
    description: str = ""
    links: dict[str, str] = {}
    retention: Any = {}

    @property
    def rules(self) -> dict[str, Rule]:
        """How long the streams are kept."""
        return rules_in(self.retention)


class RootMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """``manifest_store`` is the kind that streams not yet born will get."""

    format: int
    lake_id: str
    manifest_store: str
    taps: dict[str, TapNotes] = {}


def new(*, lake_id: str, manifest_store: str) -> RootMetadata:
    """The metadata of a lake without taps."""
    return RootMetadata(format=FORMAT, lake_id=lake_id, manifest_store=manifest_store)


def with_tap(root: RootMetadata, tap_id: str) -> RootMetadata:
    """``root`` with an entry for ``tap_id``; the same object where it has one."""
    if tap_id in root.taps:
        return root
    return msgspec.structs.replace(root, taps={**root.taps, tap_id: TapNotes()})


def with_lake_id(root: RootMetadata, lake_id: str) -> RootMetadata:
    return msgspec.structs.replace(root, lake_id=lake_id)


def to_json(root: RootMetadata, before: bytes = b"{}") -> bytes:
    """The root metadata as stored, indented, since people read it. What people or a later version wrote into
    ``before``, the object that this one replaces, under names that are not known here stays."""
    fields: dict[str, Any] = msgspec.to_builtins(root)
    there = decode(before, dict)
    noted = there.get("taps", {})
    fields["taps"] = {tap: _notes(noted.get(tap, {}), notes) for tap, notes in fields["taps"].items()}
    return indented({**there, **fields})


def _notes(before: dict[str, Any], notes: dict[str, Any]) -> dict[str, Any]:
    """The notes of a tap over those of ``before``. Without a retention there is no word of it."""
    made = {**before, **notes}
    if made["retention"] == {}:
        del made["retention"]
    return made


def from_json(body: bytes, *, key: str) -> RootMetadata:
    """Parse what is stored under ``key``. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
    check_format(body, key=key)
    return decode_stored(body, RootMetadata, "not root metadata", hint=RESTORE, key=key)


prepare_decoders(TapNotes, RootMetadata)
