"""Whole members at once give what ``read_blocks`` gives in pieces, and what it refuses; and they see more."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Callable, Iterator
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake import reading
from singerlake.errors import BrokenFileError
from singerlake.format.extra_fields import Provenance, empty_member
from singerlake.format.state.files.data_file import DataFile
from singerlake.reading import read_members, verified
from singerlake.singer_file import Block, compress_member, read_blocks

SCHEMA = b'{"type":"SCHEMA","stream":"s","schema":{"properties":{}}}\n'
LINES = (
    b'{"type":"RECORD","stream":"s","record":{"id":%d}}\n',
    b'{"type":"RECORD","stream":"s","record":{"id":%d,"x":"\\"SCHEMA\\"","type":"SCHEMA"}}\r\n',
    b'{"type":"ACTIVATE_VERSION","stream":"s","version":%d}\n',
    b'{"type":"RECORD","stream":"s","record":{"id":%d,"x":"' + b"y" * 300 + b'"}}\n',
)
LEADING = empty_member(msgspec.json.encode(Provenance(id="f", lineage="l", offset=0, replaces=(("a", 1),))))

Read = Callable[..., Iterator[Block]]


def in_pieces(stream: io.BytesIO, file: DataFile, *, member: int = 0) -> Iterator[Block]:
    return verified(read_blocks(stream, file, member=member), file)


def outcome(read: Read, body: bytes, file: DataFile, member: int = 0) -> tuple[list[tuple[int, bytes]], str]:
    """The lines that are given, each with its offset, and the error behind them."""
    stream = io.BytesIO(body)
    stream.seek(file.members[member][0] if member else 0)
    lines: list[tuple[int, bytes]] = []
    try:
        for block in read(stream, file, member=member):
            these = block.data.splitlines(keepends=True)
            assert len(these) == block.messages
            lines += enumerate(these, block.offset)
    except BrokenFileError as error:
        return lines, str(error)
    return lines, ""


def described(body: bytes, table: list[tuple[int, int]], *, offset: int = 0) -> DataFile:
    messages = sum(count for _, count in table)
    return DataFile(
        id="f",
        path="v/f",
        version="v",
        messages=messages,
        records=messages,
        bytes=len(body),
        raw_bytes=0,
        sha256=hashlib.sha256(body).hexdigest(),
        first="",
        last="",
        members=tuple(table),
        offset=offset,
    )


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, DataFile]:
    """Files as targets, vacuums and others write them."""
    body = LEADING if draw(st.booleans()) else b""
    alone = draw(st.booleans())
    body += compress_member(SCHEMA, 1) if alone else b""
    table, number = [], 0
    for place in range(draw(st.integers(1, 5))):
        lines = draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=8))
        texts = [line % (number + index) for index, line in enumerate(lines)]
        number += len(texts)
        if not place and not alone:
            texts.insert(0, SCHEMA)
        elif draw(st.integers(0, 5)) == 0:
            texts.insert(draw(st.integers(0, len(texts))), SCHEMA)
        table.append((len(body), len(lines)))
        body += compress_member(b"".join(texts), draw(st.sampled_from([0, 1, 6])))
        body += draw(st.sampled_from([b"", b"", b"", LEADING, compress_member(SCHEMA, 1)]))
    return body, described(body, table, offset=draw(st.sampled_from([0, 70])))


SIZES = st.tuples(st.sampled_from([50, 400, 1 << 24]), st.sampled_from([16, 300, 1 << 19]))
"""Of what is inflated whole, and of a piece."""


@settings(deadline=None)
@given(files(), SIZES, st.data())
def test_files_of_any_make_are_read_as_in_pieces_from_any_member(made, sizes, data):
    body, file = made
    member = data.draw(st.integers(0, len(file.members) - 1))
    with patch.object(reading, "LARGEST", sizes[0]), patch.object(reading, "_PIECE", sizes[1]):
        given = outcome(read_members, body, file, member)
    assert given == outcome(in_pieces, body, file, member)
    assert given[1] == ""


def damages(body: bytes) -> Iterator[bytes]:
    """The body cut at every byte, and with each byte changed, left out and twice; with more behind it."""
    for at in range(len(body)):
        yield body[:at]
        yield body[:at] + bytes((body[at] ^ 0x21,)) + body[at + 1 :]
        yield body[:at] + body[at + 1 :]
    yield from (body + more for more in (b"\0", b"x", body, LEADING, compress_member(SCHEMA, 1)))


def test_what_is_damaged_is_refused_where_pieces_are_and_no_message_of_the_damaged_member_is_given():
    lines = [LINES[number % 4] % number for number in range(12)]
    body, table = LEADING + compress_member(SCHEMA, 1), []
    for start in (0, 5, 9):
        part = lines[start : start + (5 if start == 0 else 4 if start == 5 else 3)]
        table.append((len(body), len(part)))
        body += compress_member(b"".join(part), 1)
    file = described(body, table)
    good = list(enumerate(lines))
    seen = set()
    for damaged in damages(body):
        if damaged == body:
            continue
        given, error = outcome(read_members, damaged, file)
        old, refused = outcome(in_pieces, damaged, file)
        assert error
        assert error == refused or ("SHA-256" in error and not refused)
        # As much as pieces give, or one member more, which had ended well.
        assert given == good[: len(given)]
        assert len(given) in (0, 5, 9)
        assert old[: len(given)] == given[: len(old)]
        assert not refused or len(given) >= len(old)
        seen.add((len(given), "SHA-256" in error))
    assert {(0, False), (5, False), (9, False), (9, True)} <= seen


@pytest.mark.parametrize("member", [0, 1])
def test_another_file_of_the_same_shape_is_seen_where_all_of_it_is_read(member: int) -> None:
    def body(word: bytes) -> tuple[bytes, list[tuple[int, int]]]:
        lines = [b'{"type":"RECORD","stream":"s","record":{"id":"%s%d"}}\n' % (word, n) for n in range(4)]
        # Not deflated, so that both files have the same places.
        head, first, last = (gzip.compress(b"".join(part), 0) for part in ([SCHEMA], lines[:2], lines[2:]))
        return head + first + last, [(len(head), 2), (len(head + first), 2)]

    (mine, table), (other, _) = body(b"a"), body(b"b")
    lines, error = outcome(read_members, other, described(mine, table), member)
    if member:
        assert (len(lines), error) == (2, ""), "its digest is of all of the file"
    else:
        assert [offset for offset, _ in lines] == [0, 1]
        assert "size or SHA-256 is another" in error


@pytest.mark.parametrize(
    "table",
    [[(0, 4)], [(10**9, 2), (5, 2)], [(-4, 2), (20, 2)], []],
    ids=["no room for the schema", "behind the end", "before the beginning", "none"],
)
def test_a_table_that_is_wrong_is_read_as_in_pieces(table: list[tuple[int, int]]) -> None:
    body = compress_member(SCHEMA, 1) + compress_member(b"".join(LINES[0] % n for n in range(4)), 1)
    file = msgspec.structs.replace(described(body, table), messages=4)
    assert outcome(read_members, body, file) == outcome(in_pieces, body, file)
