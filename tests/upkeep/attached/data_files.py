"""Data files with rows of attached files, byte by byte, and what they come to by joins and erasures."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from singerlake.attached.members import attached_members
from singerlake.conditions import parse_condition
from singerlake.format.extra_fields import empty_member
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.singer_file import compress_member
from singerlake.storage.port import Part
from singerlake.upkeep.erase.match import Ready
from singerlake.upkeep.erase.rewrite import Rewrite, RewriteFiles, Rewritten
from singerlake.upkeep.result import Finding
from singerlake.upkeep.scan import ScanResult, scan
from singerlake.upkeep.vacuum.join import checked, join, read_head
from tests.fakes import START
from tests.storage.memory import MemoryStorage
from tests.upkeep.shelf import PREFIX, SCHEMA, STREAM, file_id, header, record, schema_line

AT = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
FACTS = ("messages", "records", "erased", "bytes", "raw_bytes", "sha256", "members", "attached")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def row(message: int, photo: str | None, copy: int = 1) -> Attached:
    """A row of a file with this text as its bytes."""
    if photo is None:
        return Attached(message, "photo", "gone.jpg", None, None, None, 1)
    return Attached(message, "photo", f"{photo}.jpg", digest(photo), len(photo), "image/jpeg", copy)


def rows_member(*rows: Attached) -> bytes:
    """One member, whatever its rows say."""
    return empty_member(b'{"attached":[%b]}' % b",".join(msgspec.json.encode(each) for each in rows))


def lines_member(*numbers: int) -> bytes:
    return compress_member(b"".join(record(number) for number in numbers), 1)


def body_of(number: int, *members: bytes, has_header: bool = True) -> bytes:
    """A data file: the SCHEMA message, then these members."""
    return compress_member(schema_line(), 1, extra=header(number) if has_header else None) + b"".join(members)


def scanned(body: bytes) -> ScanResult:
    return scan(io.BytesIO(body), key="k")


@dataclass
class Shelved:
    """Files of one stream in memory, as the manifest lists them."""

    storage: MemoryStorage
    offset: int = 0
    made: int = 100

    def put(self, number: int, body: bytes) -> DataFile:
        """A new file behind the others."""
        facts = scanned(body)
        file = self._listed(facts, file_id(number), self.offset)
        self.offset += facts.messages
        self.storage.put(PREFIX + file.path, body)
        return file

    def _listed(self, facts: ScanResult, id: str, offset: int) -> DataFile:
        said = {name: getattr(facts, name) for name in FACTS}
        return DataFile(
            id=id, path=f"v/{id}.singer.gz", version=schema_hash(SCHEMA), first="", last="", offset=offset, **said
        )

    def new_id(self) -> str:
        self.made += 1
        return file_id(self.made)

    def body(self, file: NewFile) -> bytes:
        stored = self.storage.get(PREFIX + file.path)
        assert stored is not None
        return stored.body

    def joined(self, files: Sequence[DataFile]) -> DataFile:
        """As a vacuum joins them."""
        heads = [read_head(file, self.body(file)[: file.members[0][0]]) for file in files]
        wanted = join(heads, id=self.new_id(), lineage="l", stream=STREAM, now=START)
        pieces = [
            self.storage.read_range(piece.key, piece.start, (piece.end or 0) - piece.start)
            if isinstance(piece, Part)
            else piece
            for piece in wanted.pieces(PREFIX)
        ]
        body = b"".join(pieces)
        file = checked(io.BytesIO(body), wanted)
        assert isinstance(file, NewFile)
        self.storage.put(PREFIX + file.path, body)
        return listed(file, files[0].offset)

    def erased(self, file: DataFile, *numbers: int) -> DataFile | Finding | None:
        """As an erasure writes it again without the records of these numbers; None where it has none of them."""
        if not numbers:
            return None
        wanted = parse_condition(f"n in ({', '.join(map(str, numbers))})", str)
        task = RewriteFiles(Ready(wanted), PREFIX, STREAM, AT, "kim@desk")
        made = task(self.storage, Rewrite(file, self.new_id(), "l", "lake"))
        if isinstance(made, Finding):
            return made
        assert isinstance(made, Rewritten)
        return None if made.file is None else listed(made.file, file.offset)


def listed(file: NewFile, offset: int) -> DataFile:
    return DataFile(**msgspec.structs.asdict(file), offset=offset)


def with_photos(shelved: Shelved, number: int, *photos: str | None, first: int = 0) -> DataFile:
    """A file of a record for each of ``photos``, numbered from ``first`` on, with that photo attached; None: none."""
    rows = [row(at, photo) for at, photo in enumerate(photos) if photo is not None]
    lines = [lines_member(first + at) for at in range(len(photos))]
    return shelved.put(number, body_of(number, *lines, attached_members(rows)))
