"""What a data file says in the extra fields ``SL`` of its gzip headers: section 4 of ``shared/docs/format``."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import msgspec
from isal import igzip_lib

from singerlake.format.decoders import prepare_decoders
from singerlake.format.lines.messages import REFUSALS

EXTRA_LIMIT = 8000
"""Bytes of an ``SL`` extra field's JSON, far below gzip's own 65,535."""
MAGIC = b"\x1f\x8b\x08"
"""How a gzip member begins: its two magic numbers and the one method there is (RFC 1952, section 2.3.1)."""
_EMPTY_DEFLATE = b"\x03\x00"
_LONGEST_EMPTY = 12 + 0xFFFF + 1024
"""Bytes of a member without content: its header up to the end of the extra field, and room for the rest."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class FileHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a data file says of itself in its first ``SL`` field: section 4.2 of ``shared/docs/format``."""

    id: _Text
    created: _Text
    run: _Text
    seq: int
    lake_id: str | None = None
    atomic: bool = False


class Provenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a vacuumed file says in the ``SL`` fields of its leading empty members: section 4.3 of
    ``shared/docs/format``. ``replaces`` are ``(id, messages)``, ``through`` ``(id, messages before)``, ``erased``
    ``(id, records, when, by whom)``."""

    id: str
    lineage: str
    offset: int
    replaces: tuple[tuple[str, int], ...]
    through: tuple[tuple[str, int], ...] = ()
    erased: tuple[tuple[str, int, str, str], ...] = ()
    lake_id: str | None = None

    @property
    def messages(self) -> int | None:
        """How many messages the originals have together; None where one is said to have none, or fewer."""
        counts = [messages for _, messages in self.replaces]
        return sum(counts) if min(counts, default=0) > 0 else None

    @classmethod
    def joined(cls, parts: Sequence[Provenance]) -> Provenance:
        """What the parts of a list that took several members say together."""
        first = parts[0]
        return cls(
            id=first.id,
            lineage=first.lineage,
            offset=first.offset,
            replaces=tuple(source for part in parts for source in part.replaces),
            through=tuple(file for part in parts for file in part.through),
            erased=tuple(row for part in parts for row in part.erased),
            lake_id=first.lake_id,
        )


prepare_decoders(FileHeader, Provenance)
_HEADER, _PROVENANCE = msgspec.json.Decoder(FileHeader), msgspec.json.Decoder(Provenance)


def member_extra(head: bytes) -> tuple[bytes | None, int] | None:
    """The ``SL`` field, if any, of the gzip header at ``head``'s start, and its length; None: no gzip header."""
    if len(head) < 12 or head[:3] != MAGIC:
        return None
    if not head[3] & 4:
        return None, 10
    (length,) = struct.unpack_from("<H", head, 10)
    fields, end = head[12 : 12 + length], 12 + length
    position = 0
    while position + 4 <= len(fields):
        (size,) = struct.unpack_from("<H", fields, position + 2)
        if fields[position : position + 2] == b"SL":
            return fields[position + 4 : position + 4 + size], end
        position += 4 + size
    return None, end


def read_header(head: bytes) -> FileHeader | None:
    """The header of a file that was written by a target, from the file's first bytes; None where it has none."""
    extra = member_extra(head)
    if extra is None or extra[0] is None:
        return None
    words = own_words(extra[0])
    return words if isinstance(words, FileHeader) else None


def read_provenance(head: bytes) -> Provenance | None:
    """What a vacuumed file's leading empty members say it replaced, their lists joined in order; None for a file
    that a target wrote. ``head`` is the file from its first byte to its first tabled member."""
    return split_provenance(head)[0]


def split_provenance(head: bytes) -> tuple[Provenance | None, int]:
    """What ``read_provenance`` gives, and how many bytes the file has up to the last member that says it."""
    parts: list[Provenance] = []
    at = size = 0
    while (extra := member_extra(head[at : at + _LONGEST_EMPTY])) is not None:
        member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        window = head[at : at + _LONGEST_EMPTY]
        try:
            if member.decompress(window, 1) or not member.eof:
                break
        except igzip_lib.error:  # type: ignore[misc]  # isal's stub has an instance here
            break
        at += len(window) - len(member.unused_data)
        words = own_words(extra[0]) if extra[0] is not None else None
        if isinstance(words, Provenance):
            parts.append(words)
            size = at
    return (Provenance.joined(parts) if parts else None), size


def own_words(extra: bytes) -> FileHeader | Provenance | None:
    """What an ``SL`` field says of its file; None for one that says neither. What could be both is a header."""
    with suppress(*REFUSALS):
        return _HEADER.decode(extra)
    with suppress(*REFUSALS):
        return _PROVENANCE.decode(extra)
    return None


def empty_member(extra: bytes) -> bytes:
    """A gzip member without content that carries an ``SL`` extra field; readers of gzip pass over it."""
    field = b"SL" + struct.pack("<H", len(extra)) + extra
    head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H", len(field)) + field
    return head + _EMPTY_DEFLATE + b"\0" * 8
