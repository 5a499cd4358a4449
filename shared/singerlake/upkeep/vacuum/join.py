"""Joining data files by their gzip members, byte for byte: what goes in front, what the result is, and whether what
storage gives back is that. Pure; nothing but the SCHEMA message that a file begins with is decompressed.

That what came out is right is seen by reading it back once, from where readers will: each original's bytes in it have
the SHA-256 that the manifest has of that original, whichever way storage put them there, and the same pass gives the
SHA-256 of the whole. So nothing rests on the copying, and a damaged original is found before it is replaced.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from singerlake.errors import BrokenFileError
from singerlake.format import layout
from singerlake.format.extra_fields import EXTRA_LIMIT, MAGIC, Provenance, empty_member, read_header, split_provenance
from singerlake.format.lines.messages import is_schema_line
from singerlake.format.lines.times import known_span
from singerlake.format.state.attached_objects import rows_in_a_row
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.singer_file import Readable, first_line
from singerlake.storage.port import Part
from singerlake.upkeep.result import Tally, tally
from singerlake.upkeep.scanned_file import is_by_content

_READ = 1 << 18
_LISTS = ("replaces", "through", "erased")
"""Of a ``Provenance``, those that may take several members."""


@dataclass(frozen=True, slots=True)
class FileHead:
    """What stands before the first message of a listed file. ``dropped`` are the members that tell what it was joined
    from, which is in ``sources`` as ``(original id, messages)``; ``through`` are the joined files that held some of
    its messages, itself among them, as ``(id, messages before it)``; ``erased`` are the rows of its ``Provenance``.
    ``schema`` is the SCHEMA message that the file begins with, which rules its records; None where it was not among
    the bytes that were looked at."""

    file: DataFile
    dropped: bytes
    sources: tuple[tuple[str, int], ...]
    through: tuple[tuple[str, int], ...]
    schema: bytes | None
    erased: tuple[tuple[str, int, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class JoinedFile:
    """One file to be made of several. ``file`` is what it will be, without its SHA-256."""

    heads: tuple[FileHead, ...]
    front: bytes
    file: NewFile

    @property
    def replaced(self) -> Tally:
        return tally(head.file.bytes for head in self.heads)

    def pieces(self, prefix: str) -> list[bytes | Part]:
        """What it is made of; ``prefix`` is the key that paths in the manifest are relative to."""
        parts = (Part(prefix + head.file.path, len(head.dropped), head.file.bytes) for head in self.heads)
        return [self.front, *parts]


def read_head(file: DataFile, stored: bytes) -> FileHead:
    """The head of ``file`` from the first of its stored bytes, up to its first tabled member at least. Raises
    ``BrokenFileError`` where the file says that it is another, or where its member table cannot be right."""
    starts = [start for start, _ in file.members]
    if sum(messages for _, messages in file.members) != file.messages or starts != sorted({*starts}):
        raise BrokenFileError(
            "its gzip members do not add up to what the manifest says", hint="run 'singerlake verify'"
        )
    provenance, size = split_provenance(stored)
    erased = provenance.erased if provenance else ()
    header = read_header(stored)
    own = provenance.id if provenance else header.id if header else file.id
    if own != file.id:
        if not is_by_content(file.id, file.sha256):
            raise BrokenFileError(f"says that it is file {own}, listed as {file.id}", hint="run 'singerlake verify'")
        # Another file has the id that is in it; its content is what it is known by.
        erased = tuple((file.id, *row[1:]) for row in erased)
        provenance = None
    sources = provenance.replaces if provenance else ((file.id, file.messages),)
    if (provenance.messages if provenance else file.messages) != file.messages:
        raise BrokenFileError(
            "holds other messages than the files that it names as joined", hint="run 'singerlake verify'"
        )
    through = ((file.id, 0), *provenance.through) if provenance else ()
    if not all(0 <= before < file.messages for _, before in through):
        raise BrokenFileError("names a member that it does not have", hint="run 'singerlake verify'")
    if sum(row[1] for row in erased) != file.erased:
        raise BrokenFileError("has another number of erased records than it says", hint="run 'singerlake verify'")
    return FileHead(file, stored[:size], sources, through, _schema(stored[size:]), erased)


def _schema(stored: bytes) -> bytes | None:
    line = first_line(io.BytesIO(stored), where={}, checked=False)
    return line if line is not None and is_schema_line(line) else None


def alike(heads: Iterable[FileHead]) -> Iterator[tuple[FileHead, ...]]:
    """Neighbours with the same SCHEMA message together; a file that has none to compare with is alone."""
    group: list[FileHead] = []
    for head in heads:
        if group and (head.schema is None or head.schema != group[-1].schema):
            yield tuple(group)
            group = []
        group.append(head)
    if group:
        yield tuple(group)


def join(
    heads: Sequence[FileHead], *, id: str, lineage: str, stream: str, now: datetime, lake_id: str | None = None
) -> JoinedFile:
    """How to join neighbours of one version and SCHEMA message. ``now`` is for the name, where files have no times."""
    files = [head.file for head in heads]
    sources = tuple(source for head in heads for source in head.sources)
    begin = files[0].offset
    through = tuple((old, head.file.offset - begin + before) for head in heads for old, before in head.through)
    erased = tuple(row for head in heads for row in head.erased)
    said = Provenance(
        id=id, lineage=lineage, offset=begin, replaces=sources, through=through, erased=erased, lake_id=lake_id
    )
    front = provenance_members(said)
    members: list[tuple[int, int]] = []
    size = len(front)
    for head in heads:
        shift = size - len(head.dropped)
        members += [(start + shift, messages) for start, messages in head.file.members]
        size += head.file.bytes - len(head.dropped)
    first, last = _span(files)
    since, until = known_span(first, last) or (now, now)
    return JoinedFile(
        heads=tuple(heads),
        front=front,
        file=NewFile(
            id=id,
            path=layout.file_path(stream, files[0].version, since, until, id),
            version=files[0].version,
            messages=sum(file.messages for file in files),
            records=sum(file.records for file in files),
            bytes=size,
            raw_bytes=sum(file.raw_bytes for file in files),
            sha256="",
            first=first,
            last=last,
            members=tuple(members),
            erased=sum(file.erased for file in files),
            attached=rows_in_a_row(files),
        ),
    )


def _span(files: Sequence[DataFile]) -> tuple[str, str]:
    """The earliest ``first`` and the latest ``last``. Where those of one file say nothing, they stay, so that readers
    go on to leave out nothing by them."""
    bounds: list[tuple[tuple[datetime, str], tuple[datetime, str]]] = []
    for file in files:
        span = known_span(file.first, file.last)
        if span is None:
            return file.first, file.last
        bounds.append(((span[0], file.first), (span[1], file.last)))
    return min(earliest for earliest, _ in bounds)[1], max(latest for _, latest in bounds)[1]


def provenance_members(provenance: Provenance) -> bytes:
    """The empty members that say what a joined file replaces, as many as their limit asks for."""
    bare = msgspec.structs.replace(provenance, replaces=(), through=(), erased=())
    # The keys of the other lists are not in the bare one.
    room = EXTRA_LIMIT - len(msgspec.json.encode(bare)) - len(',"through":[],"erased":[]')
    made: list[bytes] = []
    part: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _LISTS}
    size = 0
    for name in _LISTS:
        for row in getattr(provenance, name):
            length = len(msgspec.json.encode(row)) + 1
            if size and size + length > room:
                made.append(_member(bare, part))
                part, size = {name: [] for name in _LISTS}, 0
            part[name].append(row)
            size += length
    return b"".join((*made, _member(bare, part)))


def _member(bare: Provenance, part: Mapping[str, Sequence[tuple[Any, ...]]]) -> bytes:
    rows = {name: tuple(each) for name, each in part.items()}
    return empty_member(msgspec.json.encode(msgspec.structs.replace(bare, **rows)))


@dataclass(frozen=True, slots=True)
class Differs:
    """What storage gave back is not the join. ``head`` is the first original whose bytes are not those of the
    manifest; None where it is what lies around them."""

    head: FileHead | None


def checked(body: Readable, made: JoinedFile) -> NewFile | Differs:
    """The joined file with its SHA-256, if ``body`` gives that file, with a gzip member at each place of its table."""
    whole = hashlib.sha256(made.front)
    if _exactly(body, len(made.front)) != made.front:
        return Differs(None)
    for head in made.heads:
        own = hashlib.sha256(head.dropped)
        members = [start for start, _ in head.file.members]
        at, next_member = len(head.dropped), 0
        while at < head.file.bytes:
            data = body.read(min(head.file.bytes - at, _READ))
            if not data:
                return Differs(head)
            own.update(data)
            whole.update(data)
            while next_member < len(members) and members[next_member] < at + len(data):
                begin = members[next_member] - at
                # Of a member that begins at the end of what was read, the rest of its magic number is not looked at.
                if begin < 0 or not MAGIC.startswith(data[begin : begin + len(MAGIC)]):
                    return Differs(head)
                next_member += 1
            at += len(data)
        if own.hexdigest() != head.file.sha256 or next_member < len(members):
            return Differs(head)
    if body.read(1):
        return Differs(None)
    return msgspec.structs.replace(made.file, sha256=whole.hexdigest())


def _exactly(body: Readable, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := body.read(size - len(data))):
        data += more
    return data
