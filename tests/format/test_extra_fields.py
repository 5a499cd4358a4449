"""What a data file says of itself in the headers of its gzip members."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec

from singerlake.format.extra_fields import FileHeader, Provenance, empty_member, read_header, read_provenance
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
