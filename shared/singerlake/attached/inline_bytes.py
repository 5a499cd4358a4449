"""Files whose bytes stand in the record, as base64. Pure."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from singerlake.attached.media_types import UNKNOWN, media_type_in
from singerlake.attached.sources.locations import CORRECT
from singerlake.errors import UnreadableSourceError

_DATA_URL = re.compile(r"\s*data:([^,]*),", re.IGNORECASE)
_BASE64 = re.compile(r";\s*base64\s*\Z", re.IGNORECASE)
_WHITE_SPACE = b" \t\r\n\f\v"
_STANDARD = bytes.maketrans(b"-_", b"+/")
_PIECE = 1 << 16
"""Bytes of a text whose percent escapes are taken away at once, which takes eighty times as much memory."""


@dataclass(frozen=True, slots=True)
class InlineBytes:
    """A file that a record holds."""

    body: bytes
    media_type: str


def decode_base64(text: str, most: int) -> InlineBytes:
    """The bytes that ``text`` stands for: base64 (RFC 4648) in either alphabet, with or without ``=`` at its end and
    white space, or a ``data:`` URL of it. Raises ``UnreadableSourceError``, also where it is more than ``most`` bytes.
    """
    found = _DATA_URL.match(text)
    media_type = UNKNOWN
    if found is not None:
        if not _BASE64.search(found[1]):
            raise UnreadableSourceError("the data: URL is not base64", hint=CORRECT)
        media_type = media_type_in(found[1]) or UNKNOWN
        text = text[found.end() :]
    try:
        encoded = text.encode("ascii")
        if b"%" in encoded:
            encoded = b"".join(map(unquote_to_bytes, _pieces(encoded)))
        padded = encoded.translate(_STANDARD, _WHITE_SPACE)
        encoded = padded.rstrip(b"=")
        if len(padded) - len(encoded) > -len(encoded) % 4:
            raise ValueError("padding of nothing")
        if len(encoded) * 3 // 4 > most:
            raise too_large(most)
        body = binascii.a2b_base64(encoded + b"=" * (-len(encoded) % 4), strict_mode=True)
    except ValueError:
        raise UnreadableSourceError(
            "the text is not base64",
            hint=f"if it says where the file lies, set location for this property; else {CORRECT}",
        ) from None
    return InlineBytes(body, media_type)


def _pieces(encoded: bytes) -> Iterator[bytes]:
    """All of it, no escape in two of them."""
    begin = 0
    while begin < len(encoded):
        end = begin + _PIECE
        escape = encoded.rfind(b"%", end - 2, end)
        end = end if escape < 0 else escape
        yield encoded[begin:end]
        begin = end


def too_large(most: int) -> UnreadableSourceError:
    """The error for a file of more than ``most`` bytes."""
    return UnreadableSourceError(
        f"it has more than {most:,} bytes", hint="raise max_attached_bytes, or set on_missing_file to record"
    )
