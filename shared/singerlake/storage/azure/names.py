"""Names of blobs, which cannot hold all that keys may.

Azure takes a backslash for a slash, refuses control characters, and drops dots at the end of a path segment
(https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata). So a key
is written with ``~`` and two hexadecimal digits for each of these, and for ``~`` itself. The names of the format have
none of them but a last dot.
"""

from __future__ import annotations

import re

from singerlake.errors import CorruptObjectError

_ODD = re.compile(r"[~\\\x00-\x1f\x7f]|\.(?=/|\Z)")
_WRITTEN = re.compile(r"~([0-9A-F]{2})")
_ODD_PREFIX = re.compile(r"[\\\x00-\x1f\x7f]|\.(?:/|\Z)")


def to_name(key: str) -> str:
    """The blob's name below the lake's prefix. Raises ``CorruptObjectError`` where the key is no Unicode text."""
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise CorruptObjectError(
            "no object on Azure can have this key", hint="find out where this name comes from", key=key
        ) from error
    return _ODD.sub(lambda odd: f"~{ord(odd[0]):02X}", key)


def to_key(name: str) -> str:
    """The key that ``to_name`` wrote so."""
    return _WRITTEN.sub(lambda written: chr(int(written[1], 16)), name)


def to_prefix(prefix: str) -> str:
    """The same of the beginning of a key, whose last dot is not the last of a segment yet."""
    return to_name(f"{prefix}x")[:-1]


def is_plain(prefix: str) -> bool:
    """Whether a lake's prefix can stand as it is in the names of blobs."""
    return not _ODD_PREFIX.search(prefix)
