"""A data file written again with holes in the place of the messages that are to be erased.

What has no such message is copied, a gzip member at a time. What storage gives back of the new file is read once, and
held against the text and the bytes that it should have.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib

from singerlake.attached.members import Parts, attached_members, attached_rows
from singerlake.clock import timestamp
from singerlake.errors import BrokenFileError, MissingFileError, SingerlakeError, StorageUnavailableError
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader, Provenance, own_words
from singerlake.format.lines.holes import HOLE
from singerlake.format.lines.messages import messages_in
from singerlake.format.lines.times import known_span
from singerlake.format.state.attached import Attached, in_order, shifted
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.scratch import local_folder
from singerlake.singer_file import MEMBER_BYTES, compress_member
from singerlake.storage.port import Storage
from singerlake.upkeep.erase.match import Matcher, Matching
from singerlake.upkeep.erase.members import RowsOf, message_numbers, read_gzip_members, rows_of
from singerlake.upkeep.result import Finding
from singerlake.upkeep.scan import scan
from singerlake.upkeep.vacuum.join import FileHead, provenance_members, read_head
from singerlake.work.engine import Task

_BEGINNING = 1 << 16
_LEVEL = 1
_VERIFY = "run 'singerlake verify'"
_KEPT = "nothing was erased from it"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A listed file to be written again under the id ``id``. ``lineage`` and ``lake_id`` are the state's."""

    file: DataFile
    id: str
    lineage: str
    lake_id: str | None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The new ``file``, which is on storage and listed nowhere yet, and how many ``messages`` are holes in it that were
    none before, ``records`` of them RECORD messages; ``attached`` are their attached files. None of all where there was
    none to erase."""

    file: NewFile | None = None
    messages: int = 0
    records: int = 0
    attached: RowsOf = ()


@dataclass(frozen=True)
class RewriteFiles(Task[Rewrite, Rewritten | Finding]):
    """The task: files below ``prefix`` of ``stream``. ``at`` and ``who`` are what the new files say of the erasure."""

    ready: Matching
    prefix: str
    stream: str
    at: datetime
    who: str

    def size(self, item: Rewrite) -> int:
        return item.file.bytes

    def __call__(self, storage: Storage, item: Rewrite) -> Rewritten | Finding:
        """Write a file again; a finding where it is not what the manifest says. Raises what ``local_folder`` raises,
        ``StorageUnavailableError`` where storage gives back other bytes, and what storage raises."""
        key = self.prefix + item.file.path
        try:
            with local_folder("files without the erased records") as folder:
                return self._written(storage, item, key, folder)
        except MissingFileError:
            return Finding("missing", key, f"is listed but missing; {_KEPT}")
        except BrokenFileError as error:
            return Finding("broken", key, f"{error.message}; {_KEPT}")

    def _written(self, storage: Storage, item: Rewrite, key: str, folder: Path) -> Rewritten | Finding:
        head = self._head(storage, item.file, key)
        matcher = self.ready.matcher()
        if head.dropped:
            read_gzip_members(io.BytesIO(head.dropped), lambda extra, *_: matcher.begin(extra), key=key)
        made = _NewBody(head, matcher, folder / "body")
        with storage.open(key) as stored, made.path.open("wb") as made.out:
            checked = _Checked(stored, item.file)
            checked.skip(len(head.dropped))
            read_gzip_members(checked, made.take, key=key)  # type: ignore[arg-type]
        if not checked.is_whole():
            return Finding("differs", key, f"its bytes are not those that the manifest lists; {_KEPT}")
        if not made.erased:
            return Rewritten()
        if in_order(made.rows) != item.file.attached:
            told = "the attached files that it tells of are not those that the manifest lists"
            return Finding("differs", key, f"{told}; {_KEPT}")
        path = folder / "file"
        new = self._joined(item, head, made, path)
        self._upload(storage, new, path, made.crc)
        gone = rows_of(row for row in made.rows if row.message in made.hits)
        return Rewritten(new, sum(made.erased.values()), made.records, gone)

    def _head(self, storage: Storage, file: DataFile, key: str) -> FileHead:
        length = (file.members[0][0] if file.members else file.bytes) or min(_BEGINNING, file.bytes)
        beginning = storage.beginning(key, length)
        if beginning.size != file.bytes:
            raise BrokenFileError(f"has {beginning.size} bytes, listed are {file.bytes}", hint=_VERIFY)
        return read_head(file, beginning.data)

    def _joined(self, item: Rewrite, head: FileHead, made: _NewBody, path: Path) -> NewFile:
        old = item.file
        rows = tuple((source, count, timestamp(self.at), self.who) for source, count in made.erased.items())
        front = provenance_members(
            Provenance(
                id=item.id,
                lineage=item.lineage,
                offset=old.offset,
                replaces=head.sources,
                through=head.through,
                erased=head.erased + rows,
                lake_id=item.lake_id,
            )
        )
        with path.open("wb") as whole, made.path.open("rb") as body:
            whole.write(front)
            shutil.copyfileobj(body, whole, MEMBER_BYTES)
        with path.open("rb") as whole:
            digest = hashlib.file_digest(whole, "sha256").hexdigest()
        count = sum(made.erased.values())
        since, until = known_span(old.first, old.last) or (self.at, self.at)
        return NewFile(
            id=item.id,
            path=layout.file_path(self.stream, old.version, since, until, item.id),
            version=old.version,
            messages=old.messages,
            records=old.records - made.records,
            bytes=path.stat().st_size,
            raw_bytes=made.raw_bytes,
            sha256=digest,
            first=old.first,
            last=old.last,
            members=tuple((start + len(front), messages) for start, messages in made.members),
            erased=old.erased + count,
            attached=tuple(row for row in old.attached if row.message not in made.hits),
        )

    def _upload(self, storage: Storage, new: NewFile, path: Path, crc: int) -> None:
        key = self.prefix + new.path
        storage.upload(key, path)
        if not self._is_there(storage, new, key, crc):
            # Its id was in no transaction, so nothing can ever list it.
            with suppress(SingerlakeError):
                storage.delete(key)
            raise StorageUnavailableError(
                "storage returned other bytes than were written",
                hint="check the storage, then run again; the file that it was to replace stays as it is",
                key=key,
            )

    def _is_there(self, storage: Storage, new: NewFile, key: str, crc: int) -> bool:
        """Whether storage gives back what was written. What is damaged there says nothing of the old file."""
        try:
            with storage.open(key) as body:
                seen = scan(body, key=key, times=False)
        except (BrokenFileError, MissingFileError):
            return False
        facts = ("messages", "records", "erased", "bytes", "raw_bytes", "sha256", "members", "attached")
        return seen.content == (new.raw_bytes, crc) and all(getattr(seen, fact) == getattr(new, fact) for fact in facts)


@dataclass
class _NewBody:
    """All of a new file but its front. ``erased`` counts new holes by original, ``records`` those in the place of a
    RECORD, ``hits`` are the numbers of those messages in the file, ``crc`` is the CRC-32 of the text, ``members`` are
    those with messages, ``parts`` are where rows count from, and ``rows`` are those of the old file."""

    head: FileHead
    matcher: Matcher
    path: Path
    out: BinaryIO = field(init=False)
    erased: Counter[str] = field(default_factory=Counter)
    records: int = 0
    hits: set[int] = field(default_factory=set)
    parts: Parts = field(init=False)
    rows: list[Attached] = field(default_factory=list)
    crc: int = 0
    members: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0
    raw_bytes: int = 0
    messages: int = 0

    def __post_init__(self) -> None:
        self.parts = Parts(self.head.sources)

    def take(self, extra: bytes | None, stored: bytes | None, lines: bytes) -> None:
        """The next member of the old file, or a part of one. Raises ``BrokenFileError``."""
        self.matcher.begin(extra)
        words = own_words(extra) if extra is not None else None
        if isinstance(words, FileHeader):
            self.parts.header(self.messages)
        if extra is not None and words is None and not lines:
            self._append_rows(extra, stored)
            return
        try:
            matches = self.matcher(lines) if lines else None
        except (ValueError, RecursionError):
            raise BrokenFileError("holds a line that is not a Singer message", hint=_VERIFY) from None
        hits = matches.lines if matches is not None else ()
        if matches is not None and hits:
            self.records += matches.records
            lines = self._with_holes(lines, hits)
        self.crc = isal_zlib.crc32(lines, self.crc)
        if stored is not None and not hits:
            self._append(stored, lines)
            return
        for part in _parts(lines) if lines else (b"",):
            self._append(compress_member(part, _LEVEL, extra=extra), part)
            extra = None

    def _append_rows(self, extra: bytes, stored: bytes | None) -> None:
        """A member that has nothing but its field, without the rows of messages that are gone. A field that tells of
        no rows is read by nobody, and may hold anything: it goes."""
        begin = self.parts.begin(self.messages)
        rows = attached_rows(extra, self.messages - begin)
        self.rows += shifted(rows, begin)
        left = tuple(row for row in rows if begin + row.message not in self.hits)
        if left:
            self._append(stored if stored is not None and left == rows else attached_members(left), b"")

    def _with_holes(self, text: bytes, hits: Sequence[int]) -> bytes:
        lines = text.split(b"\n")
        for at, message in zip(hits, message_numbers(text, hits, self.messages), strict=True):
            self.erased[self._original(message)] += 1
            self.hits.add(message)
            lines[at] = HOLE[:-1]
        return b"\n".join(lines)

    def _original(self, message: int) -> str:
        """The original file that the message with that number, from 0 on, came from."""
        for source, messages in self.head.sources:
            if message < messages:
                return source
            message -= messages
        raise BrokenFileError("holds more messages than the manifest says", hint=_VERIFY)

    def _append(self, member: bytes, lines: bytes) -> None:
        count = messages_in(lines)
        if count:
            self.members.append((self.size, count))
        self.out.write(member)
        self.size += len(member)
        self.raw_bytes += len(lines)
        self.messages += count


def _parts(lines: bytes) -> Iterator[bytes]:
    """Whole lines of about the size of a member each."""
    at = 0
    while len(lines) - at > 2 * MEMBER_BYTES and (end := lines.find(b"\n", at + MEMBER_BYTES) + 1):
        yield lines[at:end]
        at = end
    if at < len(lines):
        yield lines[at:]


class _Checked:
    """Stored bytes, with their size and SHA-256 held against the manifest."""

    def __init__(self, stream: BinaryIO, file: DataFile) -> None:
        self._stream = stream
        self._file = file
        self._size = 0
        self._sha256 = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._size += len(data)
        self._sha256.update(data)
        return data

    def skip(self, size: int) -> None:
        """Read the next ``size`` bytes for nothing but the check."""
        while size and (data := self.read(size)):
            size -= len(data)

    def is_whole(self) -> bool:
        return (self._size, self._sha256.hexdigest()) == (self._file.bytes, self._file.sha256)
