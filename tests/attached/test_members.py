"""Rows in the members of data files: as few members as their limit asks for, and nothing hostile in them counts."""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.attached.members import Parts, attached_members, attached_rows
from singerlake.format.exact_json import encode
from singerlake.format.extra_fields import EXTRA_LIMIT, member_extra
from singerlake.format.state.attached import Attached

A = "a" * 64
TEXT = st.text(max_size=30) | st.sampled_from(["\ud800", "\udfff é", "\x00", '"\\', "日" * 40])
ROWS = st.lists(
    st.builds(
        Attached, st.integers(0, 10**6), TEXT, st.none() | TEXT, st.just(A), st.integers(0, 2**63), TEXT, st.just(1)
    )
    | st.builds(Attached, st.integers(0, 10**6), TEXT, st.none() | TEXT, st.none(), st.none(), st.none(), st.just(1)),
    max_size=200,
)


def extras(members: bytes) -> list[bytes]:
    """The ``SL`` fields of members that hold nothing else."""
    found, at = [], 0
    while at < len(members):
        extra, _ = member_extra(members[at:]) or (None, 0)
        assert extra is not None
        inflater = zlib.decompressobj(31)
        assert inflater.decompress(members[at:]) == b""
        assert inflater.eof
        found.append(extra)
        at = len(members) - len(inflater.unused_data)
    return found


def told(members: bytes, messages: int = 10**7) -> list[Attached]:
    return [row for extra in extras(members) for row in attached_rows(extra, messages)]


def a_row(message: int = 0, source: str | None = "x", property: str = "photo") -> Attached:
    return Attached(message, property, source, A, 5, "image/jpeg", 1)


@given(ROWS)
def test_rows_come_back_and_take_as_many_members_as_their_limit_asks_for(rows: list[Attached]) -> None:
    members = attached_members(rows)
    assert told(members) == rows
    if members:
        assert gzip.decompress(members) == b""
    each = extras(members)
    for extra in each:
        assert len(extra) <= EXTRA_LIMIT
    for before, after in itertools.pairwise(each):
        (first, *_) = attached_rows(after, 10**7)
        assert len(before) + 1 + len(encode(first)) > EXTRA_LIMIT


def test_many_rows_take_few_members() -> None:
    rows = [a_row(number, f"photos/{number}.jpg") for number in range(50_000)]
    members = attached_members(rows)
    assert told(members, 50_000) == rows
    text = sum(len(msgspec.json.encode(row)) + 1 for row in rows)
    assert len(extras(members)) <= text // (EXTRA_LIMIT - 200) + 1


@pytest.mark.parametrize("length", [7_800, 7_950, 8_001, 20_000, 60_000])
def test_a_row_longer_than_the_limit_is_alone_in_a_member(length: int) -> None:
    rows = [a_row(0), a_row(1, "y" * length), a_row(2), a_row(3, "z" * length), a_row(4, "z" * length), a_row(5)]
    members = attached_members(rows)
    assert told(members) == rows
    counts = [len(attached_rows(extra, 10)) for extra in extras(members)]
    if length > EXTRA_LIMIT:
        assert counts == [1] * 6
    for extra, count in zip(extras(members), counts, strict=True):
        assert len(extra) <= EXTRA_LIMIT or count == 1


def test_a_member_is_filled_to_the_last_byte() -> None:
    around = (
        len(b'{"attached":[]}') + len(msgspec.json.encode(a_row(0, ""))) + 1 + len(msgspec.json.encode(a_row(1, "")))
    )
    exact = [a_row(0, ""), a_row(1, "y" * (EXTRA_LIMIT - around))]
    assert [len(extra) for extra in extras(attached_members(exact))] == [EXTRA_LIMIT]
    over = [a_row(0, ""), a_row(1, "y" * (EXTRA_LIMIT - around + 1))]
    assert len(extras(attached_members(over))) == 2


def test_no_rows_take_no_member() -> None:
    assert attached_members([]) == b""


GOOD = [0, "p", None, A, 5, "t", 1]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"attached":null}',
        b'{"attached":{}}',
        b'{"attached":[null]}',
        b'{"attached":[[]]}',
        b'{"attached":[7]}',
        b'{"rows":[]}',
        b'\xff{"attached":[]}',
        b'{"attached":' + b"[" * 100_000,
        b'{"attached":[' + b"[" * 60_000 + b"]" * 60_000 + b"]}",
        msgspec.json.encode({"attached": [GOOD, [-1, *GOOD[1:]]]}),
        msgspec.json.encode({"attached": [GOOD, [3, *GOOD[1:]]]}),
        b'{"attached":[[%d,"p",null,"%b",5,"t",1]]}' % (2**70, A.encode()),
        msgspec.json.encode({"attached": [[0, "p", None, "../../../../x", 5, "t", 1]]}),
        msgspec.json.encode({"attached": [GOOD, GOOD[:6]]}),
        msgspec.json.encode({"attached": [GOOD, [0, "p", None, A, 5, "t", -1]]}),
    ],
    ids=lambda said: repr(said)[:50],
)
def test_a_field_that_says_anything_else_tells_of_nothing(said: bytes) -> None:
    assert attached_rows(said, 3) == ()


def test_rows_of_messages_up_to_the_member_count_and_all_of_a_field_or_none() -> None:
    (extra,) = extras(attached_members([a_row(0), a_row(2)]))
    assert attached_rows(extra, 3) == (a_row(0), a_row(2))
    assert attached_rows(extra, 2) == attached_rows(extra, 0) == ()


def test_a_field_may_say_more_than_rows() -> None:
    said: dict[str, Any] = {"more": 1, "attached": [GOOD], "and": None}
    assert attached_rows(msgspec.json.encode(said), 1) == (Attached(0, "p", None, A, 5, "t", 1),)


@pytest.mark.parametrize(
    ("originals", "headers", "begins"),
    [
        ([], {}, [0, 0, 0, 0, 0, 0, 0]),
        ([], {0: 0, 3: 3}, [0, 0, 0, 0, 3, 3, 3]),
        ([3, 1, 2], {}, [0, 0, 0, 0, 3, 4, 4]),
        ([3, 3], {0: 0, 5: 5}, [0, 0, 0, 0, 3, 3, 5]),
        ([0, 3, -5, 3], {}, [0, 0, 0, 0, 3, 3, 3]),
    ],
)
def test_a_part_begins_at_a_header_and_at_an_original(
    originals: Sequence[int], headers: dict[int, int], begins: Sequence[int]
) -> None:
    """``begins`` is for members behind 0, 1, 2, … messages."""
    parts = Parts(("id", each) for each in originals)
    found = []
    for messages in range(len(begins)):
        found.append(parts.begin(messages))
        if messages in headers:
            parts.header(headers[messages])
    assert found == list(begins)
