"""Rows of attached files in the gzip members without content that a data file carries behind its messages."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from singerlake.format.exact_json import decode, encode
from singerlake.format.extra_fields import EXTRA_LIMIT, empty_member
from singerlake.format.state.attached import Attached, AttachedRows

_AROUND = len(b'{"attached":[]}')


def attached_members(rows: Sequence[Attached]) -> bytes:
    """The members that tell of ``rows``, as many as their limit asks for; none where there are no rows."""
    return b"".join(empty_member(b'{"attached":[%b]}' % b",".join(part)) for part in _parts(rows))


def _parts(rows: Iterable[Attached]) -> Iterable[list[bytes]]:
    part: list[bytes] = []
    size = _AROUND
    for row in rows:
        text = encode(row)
        comma = 1 if part else 0
        if part and size + comma + len(text) > EXTRA_LIMIT:
            yield part
            part, size, comma = [], _AROUND, 0
        part.append(text)
        size += comma + len(text)
    if part:
        yield part


def attached_rows(extra: bytes, messages: int) -> tuple[Attached, ...]:
    """The rows in the ``SL`` field of a member behind so many ``messages`` of its part; none of others than these."""
    try:
        rows = decode(extra, AttachedRows).attached
    except (msgspec.DecodeError, RecursionError):
        return ()
    return rows if all(row.message < messages for row in rows) else ()


class Parts:
    """Where the parts of a data file begin, from which rows count: at headers, and at a vacuumed file's originals."""

    def __init__(self, originals: Iterable[tuple[str, int]] = ()) -> None:
        self._header = 0
        self._ends = [0]
        self.add(originals)

    def add(self, originals: Iterable[tuple[str, int]]) -> None:
        """Further ``originals`` in the members in front, ``(id, messages)`` each."""
        for _, messages in originals:
            if messages > 0:
                self._ends.append(self._ends[-1] + messages)

    def header(self, messages: int) -> None:
        """A header stands behind so many messages of the file."""
        self._header = messages

    def begin(self, messages: int) -> int:
        """How many messages are before the part that the last one of so many ``messages`` is in."""
        return max(self._header, self._ends[max(bisect_left(self._ends, messages), 1) - 1])
