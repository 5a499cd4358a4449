"""The copy of ``singerlake.json``: what people say of a lake survives the loss of either. Section 6 of
``shared/docs/format.md``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from singerlake.errors import LakeError
from singerlake.format import layout
from singerlake.format.exact_json import decode
from singerlake.format.metadata import root
from singerlake.storage.conditional import replace_if_unchanged
from singerlake.storage.port import Storage, Stored
from singerlake.upkeep.result import Finding

logger = logging.getLogger(__name__)

_AGAIN = "set them again with 'singerlake policy set' and 'singerlake annotate'"
_NOTHING: tuple[Any, ...] = ("", {}, [], None)


def copied_root(storage: Storage) -> root.RootMetadata | None:
    """What the copy says; None where there is none that can be read. Raises what storage raises."""
    return _readable(storage.get(layout.root_copy_key()))


def replace_root(
    storage: Storage, made: Callable[[Stored | None], bytes | None], *, dry_run: bool = False, look: bool = True
) -> bool:
    """As ``replace_if_unchanged``, for ``singerlake.json``, and bring the copy up to it; without ``look`` only if
    something was written. Where there was none, it gets what the copy says of the same lake, and a warning says so, or
    that what people said is gone. With ``dry_run`` only whether it would be replaced. Raises as that does."""
    found: list[str | None] = []

    def whole(stored: Stored | None) -> bytes | None:
        found.clear()
        body = made(stored)
        if stored is not None or body is None:
            return body
        body, told = _anew(storage, body)
        found.append(told)
        return body

    key = layout.root_metadata_key()
    if dry_run:
        stored = storage.get(key)
        body = whole(stored)
        return body is not None and (stored is None or body != stored.body)
    replaced = replace_if_unchanged(storage, key, whole)
    if replaced and found and found[0] is not None:
        logger.warning("%s", found[0])
    if replaced or look:
        keep_copy(storage)
    return replaced


def keep_copy(storage: Storage) -> bool:
    """Bring the copy up to ``singerlake.json``; True where it was not. Raises ``TooManyConflictsError`` and what
    storage raises."""

    def made(copy: Stored | None) -> bytes | None:
        # Read after the copy, which is replaced only if it is still that one: no copy takes the place of a later one.
        stored = storage.get(layout.root_metadata_key())
        return stored.body if stored is not None and not _says_the_same(copy, stored) else None

    return replace_if_unchanged(storage, layout.root_copy_key(), made)


def root_findings(storage: Storage) -> list[Finding]:
    """What is to be said of the two: ``singerlake.json`` is gone, or they differ. Raises what storage raises."""
    copy, stored = storage.get(layout.root_copy_key()), storage.get(layout.root_metadata_key())
    key, copied = layout.root_metadata_key(), layout.root_copy_key()
    if stored is None:
        told = "is missing; the next run that writes, or 'singerlake rebuild', brings it back from its copy"
        return [Finding("root", key, told)] if _readable(copy) is not None else []
    # Without a copy nothing is lost yet, and lakes of earlier versions have none.
    if copy is None or _says_the_same(copy, stored):
        return []
    told = "does not say what singerlake.json says; 'singerlake rebuild' and 'singerlake gc --delete' write it again"
    return [Finding("root", copied, told)]


def lost_root(tap: str, stream: str) -> Finding:
    """What is to be said where neither is there, and ``stream`` says that there was one."""
    gone = f"is missing, and has no copy; what it said of tap {tap!r} is gone"
    return Finding(
        "root",
        layout.root_metadata_key(),
        f"{gone} (stream {stream!r} names the lake's id): run 'singerlake rebuild', then {_AGAIN}",
    )


def _anew(storage: Storage, body: bytes) -> tuple[bytes, str | None]:
    """``body``, root metadata where there was none, with what the copy says; and what is to be said of it."""
    fresh = root.from_json(body, key=layout.root_metadata_key())
    stored = storage.get(layout.root_copy_key())
    copy = _readable(stored)
    if stored is not None and copy is not None and copy.lake_id == fresh.lake_id:
        made = root.to_json(msgspec.structs.replace(fresh, taps={**fresh.taps, **copy.taps}), stored.body)
        return made, "singerlake.json was missing and is brought back from its copy: see 'singerlake policy ls'"
    if stored is None and not storage.list_folder(f"{layout.RAW}/").folders:
        return body, None
    why = "has no copy" if stored is None else "has a copy of another lake" if copy else "has no copy that can be read"
    told = f"singerlake.json was missing and {why}; the policies and notes that it had are gone: {_AGAIN}"
    return body, told


def _readable(stored: Stored | None) -> root.RootMetadata | None:
    try:
        return root.from_json(stored.body, key=layout.root_copy_key()) if stored is not None else None
    except LakeError:
        return None


def _says_the_same(copy: Stored | None, stored: Stored) -> bool:
    """Whether the copy says what people said; none is needed where nobody said anything. What cannot be read is left to
    a person, and so is its copy."""
    said = _said(stored.body) if _readable(stored) is not None else None
    if said is None:
        return True
    if copy is None:
        return set(said) <= {*root.RootMetadata.__struct_fields__} - {"taps"}
    return said == _said(copy.body)


def _said(body: bytes) -> dict[str, Any] | None:
    """What an object says, without taps of which nothing is said; None where it cannot be read."""
    try:
        said = decode(body, dict[str, Any])
    except msgspec.DecodeError:
        return None
    taps = said.pop("taps", {})
    if isinstance(taps, dict):
        noted = {tap: _noted(notes) for tap, notes in taps.items()}
        taps = {tap: notes for tap, notes in noted.items() if notes not in _NOTHING}
    return {**said, "taps": taps} if taps not in _NOTHING else said


def _noted(notes: Any) -> Any:
    return {name: value for name, value in notes.items() if value not in _NOTHING} if isinstance(notes, dict) else notes
