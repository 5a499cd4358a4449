"""What a key may be, on every storage alike, so that no name found in a lake's metadata leads out of the lake."""

from __future__ import annotations

import re

from singerlake.errors import CorruptObjectError, MissingFileError, SettingError
from singerlake.storage.port import Part

TEMPORARY_PREFIX = ".tmp-"
"""Begins the names that the local adapter gives to files that are not whole yet."""
FLOCK_NAME = ".singerlake.flock"
"""The file under whose ``flock`` the local adapter checks conditions."""

_NO_KEY = re.compile(rf"(?:\A|/)(?:\.{{0,2}}|{re.escape(FLOCK_NAME)}|{re.escape(TEMPORARY_PREFIX)}[^/]*)(?:/|\Z)|\0")


def is_hidden(name: str) -> bool:
    """Whether a name is an adapter's own, never an object's."""
    return name == FLOCK_NAME or name.startswith(TEMPORARY_PREFIX)


def check_key(key: str) -> str:
    """The key itself; ``CorruptObjectError`` where it is empty, absolute, has an empty, ``.`` or ``..`` segment, a NUL
    or what no bytes stand for, or takes a name that an adapter keeps for itself."""
    if not is_key(key):
        raise CorruptObjectError(
            "no object can have this key", hint="find out where this name comes from, and correct it there", key=key
        )
    return key


def is_key(text: str) -> bool:
    """Whether ``check_key`` takes it."""
    return not _NO_KEY.search(text) and (text.isascii() or _has_bytes(text))


def _has_bytes(key: str) -> bool:
    """Whether a file can have the name: lone surrogates stand for bytes that are not UTF-8, or for none."""
    try:
        key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def check_prefix(prefix: str) -> str:
    """The prefix itself, which may be empty and may end anywhere in a key; refused like a key otherwise."""
    folder, _, rest = prefix.rpartition("/")
    if prefix.startswith("/") or "\0" in rest:
        check_key(prefix)
    if folder:
        check_key(folder)
    return prefix


def root_prefix(prefix: str) -> str:
    """What keys below a lake's root in a bucket begin with. Raises ``SettingError`` for what is not a plain path."""
    if prefix and any(segment in ("", ".", "..") for segment in prefix.split("/")):
        raise SettingError("lake_root has an empty, '.' or '..' part", hint="remove it", lake_root=prefix)
    return f"{prefix}/" if prefix else ""


def check_conditions(if_absent: bool, if_match: str | None) -> None:
    """``ValueError`` where a write asks for both conditions, which no storage can grant."""
    if if_absent and if_match is not None:
        raise ValueError("if_absent and if_match exclude each other")


def ends_early(part: Part) -> MissingFileError:
    """The error for an object that does not reach to the end of a part that was asked for."""
    return MissingFileError("an object ends before the part of it that is wanted", key=part.key, end=part.end)
