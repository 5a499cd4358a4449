"""What a data file says of itself in the headers of its gzip members."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.format.extra_fields import (
    FileHeader,
    Provenance,
    empty_member,
    own_words,
    read_header,
    read_provenance,
)
from singerlake.singer_file import Spool

SCHEMA = b'{"type": "SCHEMA", "stream": "s", "schema": {"properties": {}}}\n'
HEADER = FileHeader(id="0123456789abcdef", created="2026-01-01T00:00:00.000000Z", run="r", seq=7)


def test_the_header_says_which_file_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.singer.gz"
    Spool(path, SCHEMA, HEADER, level=1)
    assert read_header(path.read_bytes()[:500]) == HEADER
    assert read_header(gzip.compress(b"x")) is None
    assert read_header(b"") is None
    assert read_header(b"no gzip at all") is None


def test_what_a_vacuumed_file_replaced_is_in_its_leading_empty_members(tmp_path: Path) -> None:
    parts = [
        Provenance(id="new", lineage="l", offset=5, replaces=(("a", 2), ("b", 3))),
        Provenance(id="new", lineage="l", offset=5, replaces=(("c", 4),)),
    ]
    path = tmp_path / "x"
    Spool(path, SCHEMA, HEADER, level=1)
    leading = b"".join(empty_member(msgspec.json.encode(part)) for part in parts)
    whole = leading + path.read_bytes()
    assert gzip.decompress(whole) == SCHEMA
    assert read_provenance(whole) == msgspec.structs.replace(parts[0], replaces=(("a", 2), ("b", 3), ("c", 4)))
    assert read_provenance(path.read_bytes()) is None


@pytest.mark.parametrize(
    "bad",
    [
        {"id": ""},
        {"id": None},
        {"created": ""},
        {"run": ""},
        {"run": 7},
        {"seq": "7"},
        {"seq": 7.0},
        {"seq": True},
        {"lake_id": 7},
    ],
    ids=repr,
)
def test_a_field_that_says_anything_else_is_no_header(bad: dict[str, Any]) -> None:
    said = msgspec.to_builtins(HEADER)
    assert own_words(msgspec.json.encode(said)) == HEADER
    assert own_words(msgspec.json.encode({**said, "more": 1, "lake_id": None})) == HEADER
    assert own_words(msgspec.json.encode({**said, **bad})) is None
    assert read_header(empty_member(msgspec.json.encode({**said, **bad}))) is None


JOINED: dict[str, Any] = {"id": "new", "lineage": "l", "offset": 5, "replaces": [["a", 2]]}


@pytest.mark.parametrize(
    "bad",
    [
        {"id": None},
        {"lineage": None},
        {"offset": "5"},
        {"replaces": None},
        {"replaces": {"a": 2}},
        {"replaces": [["a"]]},
        {"replaces": [["a", 2, 3]]},
        {"replaces": [["a", 2.0]]},
        {"through": None},
        {"through": [["b"]]},
        {"erased": None},
        {"erased": [["a", 1]]},
        {"lake_id": 7},
    ],
    ids=repr,
)
def test_a_field_that_says_anything_else_replaces_nothing(bad: dict[str, Any]) -> None:
    assert isinstance(own_words(msgspec.json.encode(JOINED)), Provenance)
    assert own_words(msgspec.json.encode({**JOINED, **bad})) is None
    assert read_provenance(empty_member(msgspec.json.encode({**JOINED, **bad}))) is None


def test_what_could_be_both_is_a_header() -> None:
    both = msgspec.json.encode({**JOINED, **msgspec.to_builtins(HEADER)})
    assert own_words(both) == HEADER
    assert read_provenance(empty_member(both)) is None


def test_other_empty_members_may_stand_among_those_that_say_what_was_replaced() -> None:
    others = [empty_member(said) for said in (b"", b"{}", b'{"attached":[]}', msgspec.json.encode(HEADER))]
    first, second = ({**JOINED, "replaces": [[name, 2]]} for name in "ab")
    body = b"".join(
        [*others, empty_member(msgspec.json.encode(first)), *others, empty_member(msgspec.json.encode(second))]
    )
    found = read_provenance(body + gzip.compress(SCHEMA))
    assert found is not None
    assert found.replaces == (("a", 2), ("b", 2))
