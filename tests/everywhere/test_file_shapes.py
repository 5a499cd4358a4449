"""Data files in every shape that the format document allows, each read by every reader there is: they agree."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from singerlake.arrow.plan.splits import Split, splits
from singerlake.clock import timestamp
from singerlake.format import layout
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state import bookmark as bookmarks
from singerlake.format.state import selection
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.format.state.model import StreamSchema
from singerlake.format.state.transactions import AddFiles, Transaction
from singerlake.lake import Lake
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded
from singerlake.stream import LakeStream
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.scan import scan
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from singerlake.upkeep.verify import verify_stream
from tap_singerlake.replay import MessageBlock, Reader, SchemaLine
from tests.fakes import START
from tests.tap.runs import replay
from tests.upkeep.shelf import SCHEMA, STREAM, TAP, file_id, header, record, schema_line

FIRST = schema_line()
SECOND = schema_line(key_properties=["n"])
"""Of the same version as the first, and another message."""
ACTIVATE = b'{"type": "ACTIVATE_VERSION", "stream": "s", "version": 1}\n'


def lines(number: int) -> list[bytes]:
    """Three records and an ACTIVATE_VERSION, with a word in them that is not a message's type."""
    odd = json.dumps({"type": "RECORD", "stream": STREAM, "record": {"n": 10 * number + 2, "x": '"SCHEMA"'}})
    return [record(10 * number), record(10 * number + 1), ACTIVATE, odd.encode() + b"\r\n"]


@dataclass(frozen=True)
class Member:
    """A gzip member of some lines, with the parts of a header that RFC 1952 knows."""

    text: bytes
    extra: tuple[tuple[bytes, bytes], ...] = ()
    name: bytes | None = None
    comment: bytes | None = None
    checksum: bool = False
    flags: int = 0
    level: int = 6

    @property
    def stored(self) -> bytes:
        fields = b"".join(id + struct.pack("<H", len(data)) + data for id, data in self.extra)
        flags = self.flags | (4 if fields else 0) | (8 if self.name is not None else 0)
        flags |= (16 if self.comment is not None else 0) | (2 if self.checksum else 0)
        head = b"\x1f\x8b\x08" + bytes((flags,)) + b"\x01\x02\x03\x04\x00\x03"
        if fields:
            head += struct.pack("<H", len(fields)) + fields
        head += b"".join(text + b"\0" for text in (self.name, self.comment) if text is not None)
        if self.checksum:
            head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
        squeezer = zlib.compressobj(self.level, zlib.DEFLATED, -15)
        deflated = squeezer.compress(self.text) + squeezer.flush()
        return head + deflated + struct.pack("<II", zlib.crc32(self.text), len(self.text))


def own(number: int) -> tuple[bytes, bytes]:
    """The field in which a file says which one it is."""
    return b"SL", header(number)


Shape = Callable[[int], Sequence[Member]]
"""The members of file ``number``."""

OTHERS = ((b"AB", b"of somebody else"), (b"ab", b""))
EMPTY = Member(b"")


def text(*parts: bytes) -> bytes:
    return b"".join(parts)


def _split(number: int, first: Sequence[bytes], *rest: Sequence[bytes], **more: Any) -> list[Member]:
    return [Member(text(*first), extra=(own(number),), **more), *(Member(text(*part), **more) for part in rest)]


SHAPES: dict[str, Shape] = {
    "as a target writes it": lambda n: _split(n, [FIRST], lines(n)),
    "several members": lambda n: _split(n, [FIRST], lines(n)[:1], lines(n)[1:3], lines(n)[3:]),
    "a schema among the first records": lambda n: _split(n, [FIRST, *lines(n)[:2]], lines(n)[2:]),
    "one member": lambda n: _split(n, [FIRST, *lines(n)]),
    "a schema again in a member of its own": lambda n: _split(n, [FIRST], lines(n)[:2], [FIRST], lines(n)[2:]),
    "a schema again among records": lambda n: _split(n, [FIRST], [*lines(n)[:1], SECOND, *lines(n)[1:]]),
    "a schema again at the end": lambda n: _split(n, [FIRST], lines(n), [SECOND]),
    "two schemas in one member": lambda n: _split(n, [FIRST, SECOND], lines(n)),
    "two schemas in two members": lambda n: _split(n, [FIRST], [SECOND], lines(n)),
    "two schemas and records in one member": lambda n: _split(n, [FIRST, SECOND, *lines(n)[:3]], lines(n)[3:]),
    "empty members everywhere": lambda n: [
        EMPTY,
        EMPTY,
        *(part for each in _split(n, [FIRST], lines(n)[:2], lines(n)[2:]) for part in (each, EMPTY)),
    ],
    "an empty member before all in one": lambda n: [EMPTY, *_split(n, [FIRST, *lines(n)])],
    "says nothing of itself": lambda n: [Member(FIRST), Member(text(*lines(n)))],
    "says nothing of itself, in one member": lambda n: [Member(text(FIRST, *lines(n)))],
    "fields of others before its own": lambda n: [
        Member(FIRST, extra=(*OTHERS, own(n))),
        Member(text(*lines(n)), extra=OTHERS),
    ],
    "fields of others behind its own": lambda n: [Member(FIRST, extra=(own(n), *OTHERS)), Member(text(*lines(n)))],
    "a name": lambda n: _split(n, [FIRST], lines(n), name=b"flights.jsonl"),
    "a comment": lambda n: _split(n, [FIRST], lines(n), comment=b"of a test"),
    "a checksum of the header": lambda n: _split(n, [FIRST], lines(n), checksum=True),
    "all that a header may have": lambda n: _split(
        n, [FIRST, *lines(n)[:1]], lines(n)[1:], name=b"", comment=b"\xe9", checksum=True, flags=1
    ),
    "not deflated": lambda n: _split(n, [FIRST], lines(n), level=0),
    "not deflated, with empty members": lambda n: [Member(b"", level=0), *_split(n, [FIRST], lines(n), level=0)],
    "a schema longer than a read": lambda n: _split(
        n, [schema_line(SCHEMA, note=hashlib.shake_128(b"").hexdigest(100_000)), *lines(n)[:1]], lines(n)[1:]
    ),
    "spaces around the schema": lambda n: _split(n, [b" \t" + FIRST[:-1] + b" \r\n"], lines(n)),
}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES.keys())
def shape(request: pytest.FixtureRequest) -> Shape:
    made: Shape = request.param
    return made


def described(number: int, members: Sequence[Member]) -> tuple[bytes, NewFile]:
    """A file's bytes, and how the manifest lists it, by the shape alone."""
    body, table, messages = b"", [], 0
    for member in members:
        kept = [line for line in member.text.splitlines() if json.loads(line)["type"] != "SCHEMA"]
        if kept:
            table.append((len(body), len(kept)))
            messages += len(kept)
        body += member.stored
    version = schema_hash(SCHEMA)
    now = timestamp(START)
    return body, NewFile(
        id=file_id(number),
        path=layout.file_path(STREAM, version, START, START, file_id(number)),
        version=version,
        messages=messages,
        records=messages - 1,
        bytes=len(body),
        raw_bytes=sum(len(member.text) for member in members),
        sha256=hashlib.sha256(body).hexdigest(),
        first=now,
        last=now,
        members=tuple(table),
    )


def stream_of(root: Path, *files: tuple[bytes, NewFile]) -> LakeStream:
    """A stream of those files, as their writer would have committed them."""
    lake = Lake.open(str(root))
    stream = lake.stream(TAP, STREAM)
    # Before its files: of a stream with files and no state the state would be made of what is read in them.
    assert stream.writer(writer_id="w", store="lockfile").open().next_offset == 0
    for body, file in files:
        lake.storage.put(stream.prefix + file.path, body)
    store = stream.store("lockfile")
    change = AddFiles(
        files=tuple(file for _, file in files),
        schemas={files[0][1].version: StreamSchema(schema=SCHEMA)},
    )
    base = store.load()
    assert base is not None
    transaction = Transaction(id=lake.ids(), at=timestamp(START), change=change)
    loaded = commit_transaction(store, base, transaction, clock=lake.clock)
    assert isinstance(loaded, Loaded)
    lake.announce(loaded.manifest)
    return stream


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def stream(root: Path, shape: Shape) -> LakeStream:
    """Two files of one shape: offsets 0 to 3 and 4 to 7."""
    return stream_of(root, *(described(number, shape(number)) for number in (1, 2)))


WANTED = [line for number in (1, 2) for line in lines(number)]
NUMBERS = [json.loads(line)["record"]["n"] for line in WANTED if line != ACTIVATE]


def by_the_library(stream: LakeStream, offset: int) -> list[bytes]:
    parts = selection.select(stream.snapshot(), offset=offset)
    return b"".join(block.data for part in parts for block in stream.read(part)).splitlines(keepends=True)


def by_the_tap_s_reader(stream: LakeStream, offset: int) -> list[bytes]:
    manifest = stream.snapshot()
    bookmark = bookmarks.Bookmark(lineage=manifest.lineage, offset=offset)
    events = list(Reader(stream, position=bookmark).events(manifest))
    schemas = {json.dumps(json.loads(event.line)) for event in events if isinstance(event, SchemaLine)}
    assert all("key_properties" not in json.loads(line) for line in schemas), "the first SCHEMA message rules"
    assert len(schemas) <= 1
    return b"".join(event.block.data for event in events if isinstance(event, MessageBlock)).splitlines(keepends=True)


def numbers(batches: Iterator[Any]) -> list[int]:
    return [n for batch in batches for n in batch.column("n").to_pylist()]


def by_runs_of_members(stream: LakeStream) -> list[int]:
    """As the tasks of an engine read it, each as few members as can be."""

    def smallest(
        files: Sequence[DataFile], first: int, stop: int, target: int, *, attached: bool = False
    ) -> Iterator[Split]:
        del target
        return splits(files, first, stop, 1, attached=attached)

    with patch("singerlake.arrow.scan.splits", smallest):
        return numbers(stream.to_arrow())


def every_reader_agrees(stream: LakeStream, root: Path | None = None) -> None:
    """``root``: the tap runs whole, too."""
    for offset in range(len(WANTED) + 1):
        assert by_the_library(stream, offset) == WANTED[offset:]
        assert by_the_tap_s_reader(stream, offset) == WANTED[offset:]
    assert numbers(stream.to_arrow()) == NUMBERS
    assert by_runs_of_members(stream) == NUMBERS
    if root is not None:
        whole_runs_agree(root)
    found = verify_stream(stream.lake.storage, TAP, STREAM, stream.state).findings
    assert [each for each in found if each.problem] == []
    again = stream.rebuilt(lineage="anew")
    facts = ("id", "version", "messages", "records", "bytes", "raw_bytes", "sha256", "members")
    # Nobody knows where a file stood that says nothing of itself.
    assert sorted([getattr(file, fact) for fact in facts] for file in again.files) == sorted(
        [getattr(file, fact) for fact in facts] for file in stream.snapshot().files
    )


def whole_runs_agree(root: Path) -> None:
    passed = replay(root, tap_id=TAP)
    assert [line + b"\n" for line in passed.lines if b'"SCHEMA",' not in line and b'"STATE"' not in line] == WANTED
    assert all("key_properties" not in message for message in passed.of("SCHEMA"))
    mapped = replay(root, tap_id=TAP, include_lake_metadata=True)
    assert [row["n"] for row in mapped.records()] == NUMBERS
    assert len(mapped.of("ACTIVATE_VERSION")) == 2


def test_every_reader_reads_every_shape(stream: LakeStream, root: Path) -> None:
    assert gzip.decompress(described(1, SHAPES["one member"](1))[0]).splitlines(keepends=True)[1:] == lines(1)
    every_reader_agrees(stream, root)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_scan_says_what_the_shape_is(shape: Shape, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr("singerlake.format.lines.counted.compiled", None)
    body, file = described(1, shape(1))
    facts = scan(io.BytesIO(body), key="k")
    for name in ("messages", "records", "bytes", "raw_bytes", "sha256", "members"):
        assert getattr(facts, name) == getattr(file, name)
    assert facts.schema == StreamSchema(schema=SCHEMA)


def test_files_of_every_shape_are_joined_and_read_as_before(stream: LakeStream, root: Path) -> None:
    vacuum(stream)
    every_reader_agrees(stream, root)


def vacuum(stream: LakeStream) -> None:
    lake = stream.lake
    done = vacuum_stream(
        StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, stream.store()), target_bytes=1 << 30
    )
    assert done.findings == ()
    (joined,) = stream.snapshot().files
    assert joined.messages == len(WANTED)


ALIKE = [name for name in SHAPES if name not in ("a schema longer than a read", "spaces around the schema")]
"""Shapes whose SCHEMA message is the same to the byte."""


@pytest.mark.crossed("shape", "foreign_first")
@pytest.mark.parametrize("shape", [SHAPES[name] for name in ALIKE], ids=ALIKE)
@pytest.mark.parametrize("foreign_first", [False, True])
def test_a_file_of_foreign_make_is_joined_with_a_target_s(root: Path, shape: Shape, foreign_first: bool) -> None:
    usual = SHAPES["as a target writes it"]
    shapes = (shape, usual) if foreign_first else (usual, shape)
    stream = stream_of(root, *(described(number, made(number)) for number, made in enumerate(shapes, 1)))
    vacuum(stream)
    every_reader_agrees(stream)
