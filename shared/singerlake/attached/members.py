"""Rows of attached files in the gzip members without content that a data file carries behind its messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from singerlake.format.lines.messages import REFUSALS
from singerlake.format.state.attached import Attached, AttachedRows
from singerlake.singer_file import EXTRA_LIMIT, empty_member

_AROUND = len(b'{"attached":[]}')
_DECODER = msgspec.json.Decoder(AttachedRows)


def attached_members(rows: Sequence[Attached]) -> bytes:
    """The members that tell of ``rows``, as many as their limit asks for; none where there are no rows."""
    return b"".join(empty_member(b'{"attached":[%b]}' % b",".join(part)) for part in _parts(rows))


def _parts(rows: Iterable[Attached]) -> Iterable[list[bytes]]:
    part: list[bytes] = []
    size = _AROUND
    for row in rows:
        text = msgspec.json.encode(row)
        if part and size + len(text) + 1 > EXTRA_LIMIT:
            yield part
            part, size = [], _AROUND
        part.append(text)
        size += len(text) + 1
    if part:
        yield part


def attached_rows(extra: bytes) -> tuple[Attached, ...] | None:
    """The rows in an ``SL`` field; None where it tells of none."""
    try:
        return _DECODER.decode(extra).attached
    except REFUSALS:
        return None
