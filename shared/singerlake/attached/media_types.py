"""Which media type a file has, by its name: the same on every machine."""

from __future__ import annotations

import mimetypes
from functools import cache

UNKNOWN = "application/octet-stream"
_COMPRESSED = {
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
    "br": "application/x-brotli",
    "compress": "application/x-compress",
}
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


def media_type_of(name: str) -> str:
    """The media type that the end of ``name`` says, ``application/octet-stream`` where it says none."""
    # With the slash nothing before a colon is taken for the scheme of a URL.
    kind, encoding = _table().guess_type("/" + name.rpartition("/")[2])
    if encoding is not None:
        return _COMPRESSED.get(encoding, UNKNOWN)
    return kind or UNKNOWN


@cache
def _table() -> mimetypes.MimeTypes:
    # Without the files of the system, which differ.
    table = mimetypes.MimeTypes()
    for end, kind in _MORE.items():
        table.add_type(kind, end)
    return table
