"""What kind of bytes a file has, by what is said of it: nothing looks into the bytes. Pure."""

from __future__ import annotations

import mimetypes
import re
from functools import lru_cache
from pathlib import PurePosixPath

UNKNOWN = "application/octet-stream"
_NAME = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_MEDIA_TYPE = re.compile(rf"{_NAME}/{_NAME}")
_COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
_OFFICE = "application/vnd.openxmlformats-officedocument."
_MORE = {
    ".avif": "image/avif",
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".flac": "audio/flac",
    ".heic": "image/heic",
    ".heif": "image/heif",
    ".jsonl": "application/x-ndjson",
    ".md": "text/markdown",
    ".mkv": "video/x-matroska",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".ogg": "audio/ogg",
    ".parquet": "application/vnd.apache.parquet",
    ".pptx": f"{_OFFICE}presentationml.presentation",
    ".webp": "image/webp",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
"""What not every version of Python knows."""


def media_type_in(field: str) -> str | None:
    """The media type in a header field, in lower case and without parameters; None: there is none (RFC 6838)."""
    text = field.partition(";")[0].strip().lower()
    return text if _MEDIA_TYPE.fullmatch(text) else None


def media_type_of_name(name: str) -> str:
    """What the extension of a file's name stands for; ``application/octet-stream`` where that is not known."""
    return _media_type_of("".join(PurePosixPath(name).suffixes[-2:]))


@lru_cache(maxsize=256)
def _media_type_of(extensions: str) -> str:
    kind, encoding = _known().guess_type(f"file{extensions}", strict=False)
    if encoding is not None:
        return _COMPRESSED.get(encoding, UNKNOWN)
    return kind or UNKNOWN


@lru_cache(maxsize=1)
def _known() -> mimetypes.MimeTypes:
    """Python's own list, without the files of the machine, so that a name means the same everywhere."""
    known = mimetypes.MimeTypes()
    for end, kind in _MORE.items():
        known.add_type(kind, end)
    return known
