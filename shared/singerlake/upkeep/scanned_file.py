"""A sound data file as a survey keeps it: there may be a million, so most of what one says is packed."""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import datetime

import msgspec

from singerlake.clock import parse_timestamp, timestamp
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, encode
from singerlake.format.state.attached import Attached
from singerlake.format.state.model import StreamSchema
from singerlake.upkeep.scan import CUT, HOLES, Bytes, ScanResult


class FileFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a sound data file says of itself, beside its identity and its messages.

    ``created`` is when its writer began it, RFC 3339 UTC, or, where it has no header, when it was stored. ``atomic``:
    an atomic run wrote it, and it was not vacuumed since. ``crc`` is of the raw text; ``cuts`` and ``holes`` are those
    of a ``ScanResult``. ``stood`` is where a vacuumed file's first message stood when it was made: the lineage and the
    offset. The others are those of a ``NewFile``; ``first`` and ``last`` are None where no record has a time.
    """

    created: str
    run: str
    seq: int
    atomic: bool
    holes: Bytes
    records: int
    bytes: int
    raw_bytes: int
    sha256: str
    first: str | None
    last: str | None
    members: tuple[tuple[int, int], ...]
    crc: int
    cuts: Bytes
    erased: int = 0
    stood: tuple[str, int] | None = None
    attached: tuple[Attached, ...] = ()


class FileOrder(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first of what a ``FileFacts`` has, and all that choosing and ordering files needs."""

    created: str
    run: str
    seq: int
    atomic: bool
    holes: Bytes


_ORDER = msgspec.json.Decoder(FileOrder)


class ScannedFile(msgspec.Struct, frozen=True, gc=False):
    """A sound data file of one stream. ``path`` is relative to the stream's folder, ``schema`` its SCHEMA message's
    content; ``replaces`` are the files whose messages it holds, ``(id, messages)``, where it was vacuumed; ``packed``
    is a ``FileFacts`` in JSON."""

    path: str
    id: str
    messages: int
    schema: StreamSchema
    packed: bytes
    replaces: tuple[tuple[str, int], ...] = ()

    @property
    def facts(self) -> FileFacts:
        return decode(self.packed, FileFacts)

    @property
    def sources(self) -> tuple[tuple[str, int], ...]:
        """The files whose messages it holds, ``(id, messages)``: itself alone unless it was vacuumed."""
        return self.replaces or ((self.id, self.messages),)

    @property
    def file_order(self) -> FileOrder:
        return _ORDER.decode(self.packed)

    @property
    def holes(self) -> int:
        """Which of its messages are erased, as bits: the lowest is the first message."""
        bits = 0
        for first, count in HOLES.iter_unpack(self.file_order.holes):
            bits |= ((1 << count) - 1) << first
        return bits

    @property
    def atomic_run(self) -> str | None:
        """The id of the atomic run that wrote it; None where it is of another run, or was vacuumed."""
        said = self.file_order
        return said.run if said.atomic else None

    @property
    def order(self) -> tuple[bool, str, str, int, str, str]:
        """Its place among the files of a stream: the writers' clocks, then the run and the number in it. Files that
        say nothing of the kind come last, as what their storage says of them changes with each copy."""
        order = self.file_order
        return not order.run, order.created, order.run, order.seq, self.id, self.path

    def has_all_of(self, part: ScannedFile) -> bool:
        """Whether the raw text of ``part`` is this one's, whole or cut between two members."""
        mine, other = self.facts, part.facts
        end = other.raw_bytes, other.crc
        return end == (mine.raw_bytes, mine.crc) or end in CUT.iter_unpack(mine.cuts)


def identify(path: str, modified: datetime, scanned: ScanResult) -> ScannedFile:
    """A scanned file with its identity: its own header's, else its name's, else one derived from its content."""
    provenance, header = scanned.provenance, scanned.header
    own = provenance or header
    facts = FileFacts(
        created=(_utc(header.created) if header else None) or timestamp(modified),
        run=header.run if header else "",
        seq=header.seq if header else 0,
        atomic=header is not None and header.atomic and provenance is None,
        holes=scanned.holes,
        records=scanned.records,
        bytes=scanned.bytes,
        raw_bytes=scanned.raw_bytes,
        sha256=scanned.sha256,
        first=scanned.first,
        last=scanned.last,
        members=scanned.members,
        crc=scanned.content[1],
        cuts=scanned.cuts,
        erased=scanned.erased,
        stood=(provenance.lineage, provenance.offset) if provenance else None,
        attached=scanned.attached,
    )
    return ScannedFile(
        path=path,
        id=own.id if own else layout.file_id_in(path) or content_id(scanned.sha256),
        messages=scanned.messages,
        schema=scanned.schema,
        packed=encode(facts),
        replaces=provenance.replaces if provenance else (),
    )


def _utc(text: str) -> str | None:
    """The moment that a text names, as ``timestamp`` writes it; None where it names none."""
    with suppress(ValueError):
        # What every writer of this package wrote is that already, which is told in a third of the time.
        marks = text[4:5] + text[7:8] + text[10:11] + text[13:14] + text[16:17] + text[19:20] + text[26:]
        digits = text.isascii() and text[20:26].isdigit() and text[11:13] < "24"
        if marks == "--T::.Z" and digits and datetime.fromisoformat(text[:-1]):
            return text
    moment = parse_timestamp(text)
    return timestamp(moment) if moment else None


def content_id(sha256: str) -> str:
    """A file identity derived from content, the same for every copy: 16 characters of lower-case base32hex."""
    return base64.b32hexencode(bytes.fromhex(sha256)[:10]).decode("ascii").lower()


def is_by_content(id: str, sha256: str) -> bool:
    """Whether an id was derived from the content with this checksum, which may be any text."""
    with suppress(ValueError):
        return id == content_id(sha256)
    return False


prepare_decoders(FileFacts, FileOrder, ScannedFile)
