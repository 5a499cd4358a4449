"""From an offset of a stream to the bytes of its message: the data file, the gzip member, the line."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

from singerlake.errors import BrokenFileError
from singerlake.format.extra_fields import FileHeader, Provenance, own_words, split_provenance
from singerlake.format.lines.holes import HOLE
from singerlake.format.lines.messages import is_schema_line
from singerlake.format.newlines import look
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.selection import Slice
from singerlake.singer_file import check_count, inflate
from singerlake.storage.port import Storage
from singerlake.upkeep.scan import LONGEST_HEADER, walk

WHOLE = 16 << 20
"""Bytes of the largest data file that is read whole, so that its checksum can be checked: one request takes them."""
_TEXT = 1 << 20
_Stored = Callable[[int, int], bytes]
"""Gives the bytes from the one up to the other of a file."""


Erased = tuple[int, str, str]
"""How many messages were erased, when and by whom."""


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A message as it is stored. ``text`` is line ``number``, counted from 1, of what the bytes [``start``, ``end``) of
    the file give when they are decompressed; None where the message was erased. ``checked``: the file was read whole,
    and is the one that the state lists. ``original`` is the file that a target wrote, where others were joined with it
    since, and ``header`` what that one says of itself. ``erased``: what was erased of it, each time."""

    text: bytes | None
    number: int
    start: int
    end: int
    checked: bool
    original: str
    header: FileHeader | None
    erased: tuple[Erased, ...]


def find_line(storage: Storage, key: str, file: DataFile, offset: int) -> StoredLine:
    """The message with that offset, which ``file``, the object at ``key``, has. Raises ``MissingFileError``,
    ``BrokenFileError``, and what storage raises."""
    body = storage.read_range(key, 0, file.bytes + 1) if file.bytes <= WHOLE else None
    if body is not None and (len(body) != file.bytes or hashlib.sha256(body).hexdigest() != file.sha256):
        raise BrokenFileError(
            "its bytes are not those that were committed",
            hint="run 'singerlake verify'; restore the file from a backup",
            key=key,
            id=file.id,
        )

    def stored(start: int, end: int) -> bytes:
        return storage.read_range(key, start, end - start) if body is None else body[start:end]

    wanted = offset - file.offset
    member = Slice(file, wanted).member
    start = file.members[member][0]
    end = file.members[member + 1][0] if member + 1 < len(file.members) else file.bytes
    before = sum(messages for _, messages in file.members[:member])
    text, number = _line(stored(start, end), wanted - before, file.members[member][1], {"key": key, "id": file.id})
    first_member = file.members[0][0]
    lead = stored(0, min(first_member + LONGEST_HEADER, file.bytes))
    provenance, _ = split_provenance(lead[:first_member])
    original, first = _original(provenance, file, wanted)
    header = _header(file, first, lead, stored, key)
    return StoredLine(
        text=text,
        number=number,
        start=start,
        end=end,
        checked=body is not None,
        original=original,
        header=header if header is not None and header.id == original else None,
        erased=tuple(row[1:] for row in (provenance.erased if provenance else ()) if row[0] == original),
    )


def _line(stored: bytes, wanted: int, messages: int, where: dict[str, str]) -> tuple[bytes | None, int]:
    """The text of the ``wanted``-th message, None for a hole, and the number of its line. All ``messages`` are read, so
    that nothing of a damaged member is given."""
    text: bytes | None = None
    seen = lines = number = 0
    for block in inflate(io.BytesIO(stored), where=where, size=_TEXT):
        count, schemas = look(block)
        if not schemas and not seen <= wanted < seen + count:
            seen, lines = seen + count, lines + count
            continue
        for line in block.split(b"\n")[:-1]:
            lines += 1
            if schemas and is_schema_line(line):
                continue
            if seen == wanted:
                text, number = None if line == HOLE[:-1] else line, lines
            seen += 1
    check_count(seen, messages, where)
    return text, number


def _original(provenance: Provenance | None, file: DataFile, wanted: int) -> tuple[str, int]:
    """The file that a target wrote the ``wanted``-th message of ``file`` into, and the number of its first message."""
    if provenance is None or provenance.messages != file.messages:
        return file.id, 0
    ends = accumulate(messages for _, messages in provenance.replaces)
    return next(
        (id, end - messages) for (id, messages), end in zip(provenance.replaces, ends, strict=True) if wanted < end
    )


def _header(file: DataFile, first: int, lead: bytes, stored: _Stored, key: str) -> FileHeader | None:
    """The header of the original whose first message is the ``first`` one of the file. It stands between the last
    member with messages of the original before and the first with messages of this one, or in that one."""
    begins = [0, *accumulate(messages for _, messages in file.members)]
    if first not in begins[:-1]:
        return None
    member = begins.index(first)
    begin, end = (file.members[member - 1][0] if member else 0), file.members[member][0]
    if member:
        lead = stored(begin, min(end + LONGEST_HEADER, file.bytes))
    reader = _Headers(key)
    # What is read may end within a member.
    with suppress(BrokenFileError):
        walk(io.BytesIO(lead), reader)
    known = (own_words(extra) for at, extra in reader.extras if (at or not member) and begin + at <= end)
    return next((words for words in known if isinstance(words, FileHeader)), None)


class _Headers:
    """The ``SL`` fields of the members that ``walk`` sees, with the byte at which each begins."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.bytes = 0
        self.extras: list[tuple[int, bytes]] = []

    def stored(self, data: bytes) -> None:
        self.bytes += len(data)

    def member(self, start: int, extra: bytes | None) -> None:
        if extra is not None:
            self.extras.append((start, extra))

    def text(self, piece: bytes) -> None:
        """Nothing of it is wanted."""
