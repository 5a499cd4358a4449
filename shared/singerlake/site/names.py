"""What the files of pages are called: safe on every file system, and independent of what else the lake holds."""

from __future__ import annotations

import base64
import hashlib
import re

_LONGEST = 60
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?\Z")
_WINDOWS = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)\Z")


def page_name(name: str) -> str:
    """The name itself where it is plain: short, lower case, no device of Windows. Otherwise what is plain of it and a
    mark made from the whole, so that names which differ only by case, or in nothing a file system keeps, stay apart.
    No plain name holds the ``~`` before a mark, so that nobody can choose a name to take another's page.
    """
    if len(name) <= _LONGEST and _PLAIN.match(name) and not _WINDOWS.match(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    mark = base64.b32hexencode(digest)[:10].decode("ascii").lower()
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST].strip("-")
    return f"{plain or 'name'}~{mark}"
