"""Joining data files by their members: what goes in front, what the result is said to be, and what is found wrong."""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.clock import timestamp
from singerlake.errors import BrokenFileError
from singerlake.format.extra_fields import EXTRA_LIMIT, Provenance, member_extra, read_provenance, split_provenance
from singerlake.format.lines.times import known_span
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.singer_file import compress_member
from singerlake.storage.port import Part
from singerlake.upkeep.scan import scan
from singerlake.upkeep.vacuum.join import (
    Differs,
    FileHead,
    JoinedFile,
    alike,
    checked,
    join,
    provenance_members,
    read_head,
)
from tests.fakes import START
from tests.upkeep.shelf import (
    OTHER,
    STREAM,
    file_bytes,
    file_id,
    header,
    numbered,
    schema_line,
    vacuumed_bytes,
)


def listed(number: int, body: bytes, *, offset: int = 0, first: str = "", last: str = "") -> DataFile:
    """A file as a manifest lists it, by what its own bytes say."""
    facts = scan(io.BytesIO(body), key="")
    return DataFile(
        id=file_id(number),
        path=f"v/{number}",
        version="v",
        offset=offset,
        first=first,
        last=last,
        **{name: getattr(facts, name) for name in ("messages", "records", "bytes", "raw_bytes", "sha256", "members")},
    )


def head_of(number: int, body: bytes, **more: object) -> FileHead:
    file = listed(number, body, **more)  # type: ignore[arg-type]
    return read_head(file, body[: file.members[0][0]])


def original(number: int, messages: int = 3, schema: bytes | None = None) -> bytes:
    half = numbered(number, messages)
    return file_bytes([half[:1], half[1:]], extra=header(number), schema=schema)


def made_of(
    *bodies: bytes, numbers: tuple[int, ...] = (), id: str = "new", **times: object
) -> tuple[JoinedFile, bytes]:
    """The join of some files, and the bytes that it comes to."""
    offset, heads = 7, []
    for number, body in zip(numbers or range(1, len(bodies) + 1), bodies, strict=True):
        heads.append(head_of(number, body, offset=offset, **times))
        offset = heads[-1].file.end
    made = join(heads, id=id, lineage="l", stream=STREAM, now=START)
    store = {"p/" + head.file.path: body for head, body in zip(heads, bodies, strict=True)}
    pieces = made.pieces("p/")
    return made, b"".join(
        store[piece.key][piece.start : piece.end] if isinstance(piece, Part) else piece for piece in pieces
    )


ROWS = st.lists(
    st.tuples(st.text('0123456789abcdefv\u00fc"', min_size=1, max_size=20), st.integers(0, 10**9)), max_size=900
)


@given(ROWS, ROWS)
def test_provenance_takes_as_many_members_as_its_limit_asks_for(
    sources: list[tuple[str, int]], through: list[tuple[str, int]]
) -> None:
    told = Provenance(id="i", lineage="l", offset=3, replaces=tuple(sources), through=tuple(through))
    made = provenance_members(told)
    assert split_provenance(made + b"rest") == (told, len(made))
    assert read_provenance(made) == told
    position, members = 0, 0
    while position < len(made):
        extra, length = member_extra(made[position:]) or (None, 0)
        assert extra is not None
        assert len(extra) <= EXTRA_LIMIT
        position += length + 10
        members += 1
    text = len(msgspec.json.encode(told))
    assert members <= text // (EXTRA_LIMIT - 200) + 1


@given(st.lists(st.integers(2, 5), min_size=2, max_size=5))
def test_a_join_is_what_reading_it_says(sizes: list[int]) -> None:
    made, body = made_of(*(original(number, size) for number, size in enumerate(sizes, 1)))
    found = scan(io.BytesIO(body), key="")
    file = checked(io.BytesIO(body), made)
    assert isinstance(file, NewFile)
    for fact in ("messages", "records", "bytes", "raw_bytes", "sha256", "members"):
        assert getattr(file, fact) == getattr(found, fact)
    assert found.provenance == Provenance(
        id="new", lineage="l", offset=7, replaces=tuple((file_id(n), size) for n, size in enumerate(sizes, 1))
    )


def test_a_joined_file_is_joined_again_without_what_it_says_of_itself() -> None:
    again = vacuumed_bytes(9, [(1, 3), (2, 2), (3, 4)], each_part=1)
    made, body = made_of(original(4), again, numbers=(4, 9))
    assert made.heads[1].dropped == again[: len(made.heads[1].dropped)] != b""
    assert isinstance(checked(io.BytesIO(body), made), NewFile)
    found = scan(io.BytesIO(body), key="").provenance
    assert found is not None
    assert found.replaces == ((file_id(4), 3), (file_id(1), 3), (file_id(2), 2), (file_id(3), 4))
    assert body.count(b"replaces") == 1
    assert found.through == ((file_id(9), 3),)


def test_a_file_joined_over_and_over_tells_all_that_it_was_in_between() -> None:
    _, first = made_of(original(1), original(2), id=file_id(8))
    _, second = made_of(original(3), first, numbers=(3, 8), id=file_id(9))
    _, third = made_of(original(4), second, original(5), numbers=(4, 9, 5))
    told = scan(io.BytesIO(third), key="").provenance
    assert told is not None
    assert [source for source, _ in told.replaces] == [file_id(n) for n in (4, 3, 1, 2, 5)]
    assert told.through == ((file_id(9), 3), (file_id(8), 6))


@pytest.mark.parametrize("before", [-1, 5])
def test_a_joined_file_that_names_a_place_beyond_itself_is_refused(before: int) -> None:
    told = Provenance(id=file_id(2), lineage="l", offset=0, replaces=((file_id(3), 5),), through=(("x", before),))
    body = provenance_members(told) + file_bytes([numbered(3, 5)], extra=header(3))
    with pytest.raises(BrokenFileError, match="names a member that it does not have"):
        head_of(2, body)


def test_the_same_schema_message_under_another_header_is_alike_and_no_other_is() -> None:
    other = schema_line(key_properties=["n"])
    heads = [head_of(1, original(1)), head_of(2, original(2)), head_of(3, original(3, schema=other))]
    vacuumed = head_of(9, vacuumed_bytes(9, [(4, 2), (5, 2)]))
    groups = alike([vacuumed, *heads, head_of(6, original(6, schema=schema_line(OTHER)))])
    assert [[head.file.id for head in group] for group in groups] == [
        [file_id(9), file_id(1), file_id(2)],
        [file_id(3)],
        [file_id(6)],
    ]


def test_a_schema_message_is_found_in_a_member_with_records_once_enough_of_it_is_there() -> None:
    bodies = [
        compress_member(schema_line() + b"".join(numbered(number, 2)), 1, extra=header(number)) for number in (1, 2)
    ]
    assert [len(group) for group in alike(head_of(at, body) for at, body in enumerate(bodies, 1))] == [1, 1]
    whole = [read_head(listed(at, body), body) for at, body in enumerate(bodies, 1)]
    assert {head.schema for head in whole} == {schema_line()}
    assert [len(group) for group in alike([*whole, head_of(3, original(3))])] == [3]


def test_the_first_of_two_schema_messages_is_the_one_that_counts() -> None:
    other = schema_line(key_properties=["n"])
    bodies = original(1), original(2, schema=schema_line() + other), original(3, schema=other + schema_line())
    heads = [head_of(at, body) for at, body in enumerate(bodies, 1)]
    assert [head.schema for head in heads] == [schema_line(), schema_line(), other]


def foreign_empty(extra: bytes) -> bytes:
    """An empty member as no vacuum of this package writes it: deflated otherwise, and with a name and a checksum."""
    fields = b"SL" + struct.pack("<H", len(extra)) + extra
    head = b"\x1f\x8b\x08\x0e\0\0\0\0\0\xff" + struct.pack("<H", len(fields)) + fields + b"name\0"
    return head + struct.pack("<H", zlib.crc32(head) & 0xFFFF) + b"\x01\0\0\xff\xff" + b"\0" * 8


def test_the_members_in_front_are_read_in_any_shape() -> None:
    parts = [Provenance(id=file_id(9), lineage="x", offset=0, replaces=((file_id(n), 3),)) for n in (1, 2)]
    front = [foreign_empty(msgspec.json.encode(part)) for part in parts]
    bare = compress_member(b"", 1)
    for members in ([*front], [bare, *front], [front[0], bare, front[1]], [*front, bare]):
        body = b"".join(members) + original(1) + original(2)
        found, size = split_provenance(body)
        assert found == Provenance.joined(parts)
        assert body[:size] == b"".join(members[: members.index(front[1]) + 1])
        assert scan(io.BytesIO(body), key="").provenance == found
        assert head_of(9, body).sources == ((file_id(1), 3), (file_id(2), 3))


def test_a_member_with_content_does_not_say_what_a_file_was_joined_from() -> None:
    words = msgspec.json.encode(Provenance(id=file_id(9), lineage="x", offset=0, replaces=((file_id(1), 3),)))
    body = file_bytes([numbered(1, 3)], extra=words)
    assert read_provenance(body) is None
    assert scan(io.BytesIO(body), key="").provenance is None
    assert head_of(5, body).sources == ((file_id(5), 3),)


def test_a_file_that_does_not_begin_with_a_schema_message_is_alone() -> None:
    sound = head_of(1, original(1))
    damaged = read_head(sound.file, b"\x1f\x8b\x08" + bytes(sound.file.members[0][0] - 3))
    assert damaged.schema is None
    records = compress_member(b"".join(numbered(1, 1)), 1)
    assert read_head(sound.file, records + original(1)).schema is None


def test_times_are_the_earliest_and_the_latest() -> None:
    bodies = [original(number) for number in (1, 2, 3)]
    moments = [timestamp(START + timedelta(seconds=seconds)) for seconds in (5, 1, 9)]
    heads = [
        head_of(at, body, first=moment, last=moment)
        for at, (body, moment) in enumerate(zip(bodies, moments, strict=True), 1)
    ]
    file = join(heads, id="new", lineage="l", stream=STREAM, now=START).file
    assert (file.first, file.last) == (moments[1], moments[2])
    assert "20260101T000001.000000Z-20260101T000009.000000Z-new" in file.path


def test_a_time_that_names_no_moment_stays_one_that_names_none() -> None:
    heads = [head_of(1, original(1), first="2026-01-01T00:00:00Z", last="soon"), head_of(2, original(2), first="2026")]
    file = join(heads, id="new", lineage="l", stream=STREAM, now=START).file
    assert (file.first, file.last) == ("2026-01-01T00:00:00Z", "soon")


def test_times_that_say_nothing_are_not_narrowed_by_those_of_other_files() -> None:
    """A file that begins later than it ends holds records of any time."""
    unknown = {"first": "2026-01-01T00:00:19Z", "last": "2026-01-01T00:00:00Z"}
    known = {"first": "2026-01-01T00:00:05Z", "last": "2026-01-01T00:00:06Z"}
    for order in ((unknown, known), (known, unknown), (known, unknown, known)):
        heads = [head_of(at, original(at), **times) for at, times in enumerate(order, 1)]
        file = join(heads, id="new", lineage="l", stream=STREAM, now=START).file
        assert known_span(file.first, file.last) is None


def test_a_member_table_that_does_not_add_up_is_refused() -> None:
    body = original(1)
    file = listed(1, body)
    start = file.members[0][0]
    for members in [file.members[:1], (*file.members, (start, 0)), tuple(reversed(file.members)), ()]:
        with pytest.raises(BrokenFileError, match="do not add up"):
            read_head(msgspec.structs.replace(file, members=members), body[:start])


def test_a_file_that_says_it_is_another_is_refused() -> None:
    for body in (original(2), vacuumed_bytes(2, [(3, 2)])):
        with pytest.raises(BrokenFileError, match=f"says that it is file {file_id(2)}, listed as {file_id(1)}"):
            head_of(1, body)


def test_a_listed_checksum_may_be_any_text() -> None:
    body = original(1)
    file = listed(2, body)
    with pytest.raises(BrokenFileError, match="says that it is file"):
        read_head(msgspec.structs.replace(file, sha256="no checksum"), body[: file.members[0][0]])


def test_a_joined_file_whose_originals_do_not_add_up_is_refused() -> None:
    body = vacuumed_bytes(2, [(3, 2)])
    file = listed(2, body)
    more = msgspec.structs.replace(file, messages=3, members=((file.members[0][0], 3),))
    with pytest.raises(BrokenFileError, match="other messages than the files that it names"):
        read_head(more, body[: file.members[0][0]])


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda body: body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


@pytest.mark.parametrize(
    ("damage", "blamed"),
    [
        (flip(30), None),
        (flip(-1), 2),
        (lambda body: body[:-1], 2),
        (lambda body: body + b"\0", None),
        (lambda body: b"", None),
        (lambda body: body[:400], 1),
    ],
    ids=["front", "last-byte", "cut", "longer", "empty", "cut-in-the-first"],
)
def test_bytes_that_are_not_the_join_are_found(damage: Callable[[bytes], bytes], blamed: int | None) -> None:
    made, body = made_of(original(1), original(2))
    found = checked(io.BytesIO(damage(body)), made)
    assert isinstance(found, Differs)
    assert (found.head and found.head.file.id) == (file_id(blamed) if blamed else None)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_no_change_of_a_byte_goes_unnoticed(place: int, bits: int) -> None:
    made, body = made_of(original(1), original(2))
    changed = bytearray(body)
    changed[place % len(body)] ^= bits
    assert isinstance(checked(io.BytesIO(bytes(changed)), made), Differs)


class Dribble(io.BytesIO):
    """A stream that gives a byte or two at a time, as sockets may."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(2, size or 0))


def test_a_stream_may_give_little_at_a_time() -> None:
    made, body = made_of(original(1), vacuumed_bytes(9, [(5, 2), (6, 2)]), numbers=(1, 9))
    file = checked(Dribble(body), made)
    assert isinstance(file, NewFile)
    assert file.sha256 == hashlib.sha256(body).hexdigest()


def test_a_member_table_that_points_beside_the_members_is_found() -> None:
    body = original(1)
    file = listed(1, body)
    (first, one), (second, two) = file.members
    for members in [((first, one), (second + 1, two)), ((first, one), (len(body) + 5, two))]:
        wrong = read_head(msgspec.structs.replace(file, members=members), body[:first])
        made = join([wrong, head_of(2, original(2))], id="new", lineage="l", stream=STREAM, now=START)
        found = checked(io.BytesIO(made.front + body + original(2)), made)
        assert isinstance(found, Differs)
        assert found.head == wrong
