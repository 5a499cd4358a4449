"""Scanning a data file: every fact from its own bytes, and no damage taken for content."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import BrokenFileError
from singerlake.format.extra_fields import FileHeader, member_extra
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import StreamSchema
from singerlake.singer_file import Spool, compress_member, read_blocks
from singerlake.upkeep.scan import CUT, ScanResult, scan
from tests.upkeep.shelf import (
    SCHEMA,
    file_bytes,
    file_id,
    header,
    numbered,
    record,
    schema_line,
    vacuumed_bytes,
)

ACTIVATE = b'{"type":"ACTIVATE_VERSION","stream":"s","version":1}\n'


class Dribble(io.RawIOBase):
    """Gives a few bytes at a time, as a slow connection does."""

    def __init__(self, body: bytes, step: int) -> None:
        self._body = io.BytesIO(body)
        self._step = step

    def read(self, size: int = -1) -> bytes:
        return self._body.read(min(size, self._step) if size >= 0 else self._step)


def scanned(body: bytes) -> ScanResult:
    return scan(io.BytesIO(body), key="k")


def replayed(body: bytes, facts: ScanResult, member: int) -> bytes:
    """What a reader gets from a member on, with the table that the scan made."""
    file = DataFile(
        id="i",
        path="p",
        version="v",
        messages=facts.messages,
        records=facts.records,
        bytes=facts.bytes,
        raw_bytes=facts.raw_bytes,
        sha256=facts.sha256,
        first="",
        last="",
        members=facts.members,
        offset=0,
    )
    start = facts.members[member][0] if member else 0
    return b"".join(block.data for block in read_blocks(io.BytesIO(body[start:]), file, member=member))


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=5))
@settings(max_examples=40)
def test_the_scan_of_a_spooled_file_is_what_its_spool_described(
    tmp_path_factory: pytest.TempPathFactory, members: list[list[bool]]
) -> None:
    path: Path = tmp_path_factory.mktemp("spool") / "file"
    spool = Spool(path, schema_line(), FileHeader(id=file_id(7), created="2026-01-01", run="r", seq=3), level=1)
    for member in members:
        lines = [record(1) if is_record else ACTIVATE for is_record in member]
        raw = b"".join(lines)
        spool.append(compress_member(raw, 1), raw_bytes=len(raw), messages=len(lines), records=sum(member))
    described = spool.describe(path="p", version="v", first="f", last="l")
    found = scanned(path.read_bytes())
    for fact in ("messages", "records", "bytes", "raw_bytes", "sha256", "members"):
        assert getattr(found, fact) == getattr(described, fact)
    assert found.header == spool.header
    assert found.schema == StreamSchema(schema=SCHEMA)


@given(st.integers(1, 60))
@settings(max_examples=30)
def test_it_does_not_matter_how_the_bytes_arrive(step: int) -> None:
    body = vacuumed_bytes(9, [(1, 3), (2, 2), (3, 4)], each_part=1)
    assert scan(Dribble(body, step), key="k") == scanned(body)  # type: ignore[arg-type]


def test_every_tabled_member_can_be_read_on_its_own() -> None:
    lines = [record(n) for n in range(12)]
    body = file_bytes([lines[:5], lines[5:6], lines[6:]], extra=header(1))
    facts = scanned(body)
    assert [messages for _, messages in facts.members] == [5, 1, 6]
    for member, begin in enumerate((0, 5, 6)):
        assert replayed(body, facts, member) == b"".join(lines[begin:])


@given(st.lists(st.integers(1, 900), max_size=6, unique=True).map(sorted))
def test_members_that_do_not_begin_on_a_line_are_not_in_the_table(cuts: list[int]) -> None:
    lines = [record(n) for n in range(15)]
    text = schema_line() + b"".join(lines)
    borders = [0, *(cut for cut in cuts if cut < len(text)), len(text)]
    body = b"".join(gzip.compress(text[start:end]) for start, end in itertools.pairwise(borders))
    facts = scanned(body)
    assert facts.messages == sum(messages for _, messages in facts.members) == 15
    begin = 0
    for member, (_, messages) in enumerate(facts.members):
        assert replayed(body, facts, member) == b"".join(lines[begin:])
        begin += messages


def test_a_foreign_gzip_file_of_one_member_is_read_from_its_start() -> None:
    body = gzip.compress(schema_line() + record(1) + ACTIVATE)
    facts = scanned(body)
    assert (facts.header, facts.provenance) == (None, None)
    assert facts.members == ((0, 2),)
    assert (facts.messages, facts.records) == (2, 1)
    assert facts.sha256 == hashlib.sha256(body).hexdigest()


def test_times_are_the_earliest_and_the_latest_of_the_records() -> None:
    lines = [
        ACTIVATE,
        record(1, time_extracted="2026-01-31T01:00:00"),
        record(2, time_extracted="nonsense"),
        record(3, time_extracted="2026-01-01T01:00:00+01:00"),
        record(4, time_extracted="2026-02-02T00:00:00Z"),
        record(5, time_extracted="2026-01-31T01:00:00Z"),
        ACTIVATE,
    ]
    facts = scanned(file_bytes([lines[:2], lines[2:]], extra=header(1)))
    assert facts.first == "2026-01-01T00:00:00.000000Z"
    assert facts.last == "2026-02-02T00:00:00.000000Z"


@pytest.mark.parametrize("value", ["nonsense", 5, None, {"a": 1}, ""])
def test_a_time_that_does_not_parse_is_none(value: object) -> None:
    facts = scanned(file_bytes([[record(1, time_extracted=value)]], extra=header(1)))
    assert (facts.first, facts.last) == (None, None)


def test_lines_that_only_the_standard_library_accepts_are_counted() -> None:
    odd = [
        b'{"type":"RECORD","stream":"s","record":{"n":NaN}}\n',
        b'{"type":"RECORD","stream":"s","record":{"n":"\\ud800"}}\n',
        b'{"type":"RECORD","stream":"s","record":{"n":1}}\r\n',
        b'{"type":"RECORD","type":"RECORD","stream":"s","record":{"n":1}}\n',
        b'{"type":"RECORD","stream":"s","record":{"n":"\\"SCHEMA\\""}}\n',
    ]
    facts = scanned(file_bytes([odd], extra=header(1)))
    assert (facts.messages, facts.records) == (5, 5)


def test_keys_and_bookmarks_are_the_schema_messages_own() -> None:
    line = schema_line(key_properties=["n"], bookmark_properties=["n"])
    facts = scanned(file_bytes([[record(1)]], extra=header(1), schema=line))
    assert facts.schema == StreamSchema(schema=SCHEMA, key_properties=("n",), bookmark_properties=("n",))


@pytest.mark.parametrize("absent", [None, {"n": 1}, 5])
def test_keys_that_are_no_list_are_none_at_all(absent: object) -> None:
    line = schema_line(key_properties=absent, bookmark_properties=absent)
    facts = scanned(file_bytes([[record(1)]], extra=header(1), schema=line))
    assert (facts.schema.key_properties, facts.schema.bookmark_properties) == ((), ())


def test_a_name_that_stands_alone_is_a_list_of_one() -> None:
    facts = scanned(file_bytes([[record(1)]], extra=header(1), schema=schema_line(key_properties="n")))
    assert facts.schema.key_properties == ("n",)


def test_a_vacuumed_file_tells_its_sources_over_all_leading_members() -> None:
    sources = [(n, n) for n in range(1, 8)]
    facts = scanned(vacuumed_bytes(99, sources, each_part=2))
    assert facts.provenance is not None
    assert facts.provenance.id == file_id(99)
    assert facts.provenance.replaces == tuple((file_id(n), n) for n in range(1, 8))
    assert facts.header is not None
    assert facts.header.id == file_id(1)
    assert facts.messages == sum(range(1, 8))


def test_a_vacuumed_file_that_lost_its_end_is_broken() -> None:
    body = vacuumed_bytes(99, [(1, 2), (2, 2)])
    with pytest.raises(BrokenFileError, match="holds 2 messages, its header says 4"):
        scanned(body[: -len(file_bytes([numbered(2, 2)], extra=header(2)))])


def test_somebody_elses_header_field_changes_nothing() -> None:
    assert scanned(file_bytes([[record(1)]], extra=b"not json")).header is None
    assert scanned(file_bytes([[record(1)]], extra=b'{"id": 5}')).header is None


def test_a_cut_anywhere_but_between_members_is_noticed() -> None:
    body = file_bytes([numbered(1, 3), numbered(2, 3)], extra=header(1))
    borders = {facts_start for facts_start, _ in scanned(body).members} | {0, len(body)}
    for end in range(len(body)):
        if end in borders and end:
            assert scanned(body[:end]).messages in (0, 3)
        else:
            with pytest.raises(BrokenFileError):
                scanned(body[:end])


def test_a_copy_that_was_cut_between_members_is_known_for_one() -> None:
    body = file_bytes([numbered(1, 3), numbered(2, 3)], extra=header(1))
    whole = scanned(body)
    for start, _ in whole.members:
        assert scanned(body[:start]).content in CUT.iter_unpack(whole.cuts)
    assert whole.content not in CUT.iter_unpack(whole.cuts)


def test_a_flipped_bit_is_noticed_wherever_gzip_has_a_checksum() -> None:
    body = file_bytes([numbered(1, 3)], extra=header(1))
    found = member_extra(body)
    assert found is not None
    untouched = scanned(body)
    for position in range(found[1], len(body)):
        damaged = bytearray(body)
        damaged[position] ^= 0x10
        try:
            seen = scanned(bytes(damaged))
        except BrokenFileError:
            continue
        assert seen.content == untouched.content, position


def deep(levels: int) -> Any:
    """A schema of so many levels."""
    return {} if levels == 1 else {"properties": deep(levels - 1)}


BROKEN: Sequence[tuple[str, bytes, str]] = (
    ("nothing", b"", "holds no message"),
    ("text", schema_line() + record(1), "not a gzip file"),
    ("garbage after", file_bytes([[record(1)]], extra=None) + b"garbage", "no gzip member at byte"),
    ("padding after", file_bytes([[record(1)]], extra=None) + b"\0" * 100, "no gzip member at byte"),
    ("no schema", file_bytes([[record(1)]], extra=None, schema=record(0)), "does not begin with a SCHEMA"),
    ("schema without schema", file_bytes([], extra=None, schema=b'{"type":"SCHEMA","stream":"s"}\n'), "SCHEMA"),
    (
        "deep schema",
        file_bytes([], extra=None, schema=schema_line(deep(401))),
        "nested more than 400 levels",
    ),
    ("empty member only", compress_member(b"", 1), "holds no message"),
    ("half a line", file_bytes([[record(1)[:-1]]], extra=None), "middle of a line"),
    ("a blank line", file_bytes([[record(1), b"\n"]], extra=None), "not JSON"),
    ("not JSON", file_bytes([[b"{]\n"]], extra=None), "not JSON"),
    ("too deep", file_bytes([[b"[" * 100_000 + b"\n"]], extra=None), "not JSON"),
    ("invalid UTF-8", file_bytes([[b'{"type":"RECORD","stream":"s","record":{"n":"\xff"}}\n']], extra=None), "UTF-8"),
    ("a byte order mark", file_bytes([[b"\xef\xbb\xbf" + record(1)]], extra=None), "not JSON"),
    ("a half character", file_bytes([[b'{"type":"RECORD","stream":"s","x":"\xed\xa0\x80"}\n']], extra=None), "UTF-8"),
    ("not an object", file_bytes([[b"[1]\n"]], extra=None), "not a JSON object"),
    ("two on a line", file_bytes([[record(1)[:-1] + record(2)]], extra=None), "not JSON"),
    ("a state", file_bytes([[b'{"type":"STATE","stream":"s","value":{}}\n']], extra=None), "'STATE'"),
    ("another stream", file_bytes([[record(1, stream="other")]], extra=None), "'other'"),
)


@pytest.mark.parametrize(("body", "message"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_what_is_no_data_file_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(BrokenFileError, match=message) as raised:
        scanned(body)
    assert raised.value.context == {"key": "k"}


def test_a_schema_may_be_deep() -> None:
    facts = scanned(file_bytes([[record(1)]], extra=None, schema=schema_line(deep(400))))
    assert facts.schema.schema == deep(400)


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ([b"x\n"], 2),
        ([record(1), b"x\n", record(2)], 3),
        ([record(1), b"[1]\n"], 3),
        ([record(1), schema_line(), record(2), b"x\n", b"y\n"], 5),
        ([record(1)] * 20_000 + [schema_line()] + [record(1)] * 20_000 + [b"x\n"], 40_003),
    ],
)
@pytest.mark.parametrize("split", [False, True])
def test_the_line_that_is_no_message_is_named(lines: list[bytes], number: int, split: bool) -> None:
    members = [[line] for line in lines] if split and len(lines) < 10 else [lines]
    with pytest.raises(BrokenFileError, match=f"line {number} is not a Singer message"):
        scanned(file_bytes(members, extra=None))


def test_no_error_gives_a_record_away() -> None:
    secret = b'{"type":"RECORD","stream":"s","record":{"password":"hunter2"}\n'
    with pytest.raises(BrokenFileError) as raised:
        scanned(file_bytes([[secret]], extra=None))
    assert "hunter2" not in str(raised.value)


def test_a_line_longer_than_any_block_is_one_message() -> None:
    long = json.dumps({"type": "RECORD", "stream": "s", "record": {"n": "x" * (9 << 20)}}).encode() + b"\n"
    facts = scanned(file_bytes([[record(1), long, record(2)]], extra=None))
    assert facts.messages == 3
