"""Files that are attached to records: the rows that tell of them, in data files and in ``manifest.json``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Copy = Annotated[int, msgspec.Meta(ge=1, le=layout.MOST_COPIES)]


class Attached(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One file of one record: a row of section 4.1 of ``shared/docs/format``. Raises ``ValueError`` where some of
    ``sha256``, ``bytes`` and ``media_type`` are None and some are not; decoding refuses what is not a checksum."""

    message: _Count
    property: str
    source: str | None
    sha256: _Sha256 | None
    bytes: _Count | None
    media_type: str | None
    copy: _Copy

    def __post_init__(self) -> None:
        unread = self.sha256 is None
        if (self.bytes is None) is not unread or (self.media_type is None) is not unread or (unread and self.copy != 1):
            raise ValueError("a row has a sha256, bytes and a media_type, or none of them and the copy 1")

    def path(self) -> str | None:
        """Where the bytes are, relative to the stream's folder; None where the file could not be read."""
        return None if self.sha256 is None else layout.attached_path(self.sha256, self.copy)


class AttachedRows(msgspec.Struct, frozen=True):
    """The content of an ``SL`` field that tells of attached files."""

    attached: tuple[Attached, ...]


def shifted(rows: Iterable[Attached], by: int) -> tuple[Attached, ...]:
    """``rows`` with ``by`` more messages before them."""
    if not by:
        return tuple(rows)
    return tuple(msgspec.structs.replace(row, message=row.message + by) for row in rows)


def in_order(rows: Iterable[Attached]) -> tuple[Attached, ...]:
    """``rows`` in the order of their messages; those of one message stay as they came."""
    return tuple(sorted(rows, key=lambda row: row.message))


def objects_of(rows: Iterable[Attached]) -> dict[str, str]:
    """The objects that ``rows`` name: name -> path relative to the stream's folder."""
    found: dict[str, str] = {}
    for row in rows:
        if row.sha256 is not None:
            found[layout.attached_name(row.sha256, row.copy)] = layout.attached_path(row.sha256, row.copy)
    return found


prepare_decoders(Attached, AttachedRows)
