"""Names of blobs for keys, and keys for names.

Azure takes a backslash for a slash, refuses control characters and code points that are no characters, and drops dots
at the end of a name or a directory (https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata).
So each byte of what it does not keep is written as ``~XX``, and ``~`` itself as ``~7E``. The names of the lake's own
layout hold none of these, so that most lakes look as on every other storage.
"""

from __future__ import annotations

import re

from singerlake.errors import SettingError

# C0, DEL and C1; bytes that are not UTF-8; private use and what is no character, which XML cannot list either.
_UNKEPT = "\\x00-\\x1f\\x7f-\\x9f\\\\\udc80-\udcff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff"
_WRITTEN = re.compile(rf"[~{_UNKEPT}]+|\.(?=/|\Z)")
_READ = re.compile(r"(?:~[0-9A-F]{2})+")
_NO_PREFIX = re.compile(rf"[{_UNKEPT}]|(?:\A|/)(?:[^/]*\.)?(?:/|\Z)")


def name_of(key: str) -> str:
    """The name that a key is stored under."""
    return _WRITTEN.sub(lambda found: "".join(f"~{byte:02X}" for byte in _bytes(found[0])), key)


def key_of(name: str) -> str | None:
    """The key that is stored under a name; None for a name that no key has: somebody else wrote it."""
    key = _READ.sub(lambda found: bytes.fromhex(found[0].replace("~", "")).decode("utf-8", "surrogateescape"), name)
    return key if name_of(key) == name else None


def begins(prefix: str) -> str:
    """What the names of all keys begin with that begin with ``prefix``, and perhaps names of others. A dot at its end
    is the last of a segment in some of these keys only."""
    return name_of(prefix.rstrip(".")) if prefix.endswith(".") else name_of(prefix)


def checked_root(prefix: str) -> str:
    """The lake's own prefix, which is taken as it stands, with a slash behind it. Raises ``SettingError`` where Azure
    would make another name of it."""
    if not prefix:
        return ""
    if _NO_PREFIX.search(prefix):
        raise SettingError(
            "lake_root has a part that Azure does not keep as it is",
            hint="take out empty parts, dots at the end of a part, backslashes and control characters",
            lake_root=prefix,
        )
    return f"{prefix}/"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
