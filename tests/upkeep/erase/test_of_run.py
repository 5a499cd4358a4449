"""What one run brought, told by headers: in its own files, in joined ones, and where there are no headers."""

from __future__ import annotations

import msgspec

from singerlake.format.extra_fields import FileHeader, Provenance, empty_member
from singerlake.format.lines.holes import HOLE
from singerlake.singer_file import compress_member
from singerlake.upkeep.erase.find import FindMessages, Sought
from singerlake.upkeep.erase.match import OfRun, Ready, RunMatcher
from singerlake.upkeep.erase.rewrite import RewriteFiles, Rewritten
from tests.upkeep.erase.test_rewrite import AT, PREFIX, SCHEMA, kept, memory, rewritten, stored, text

ACTIVATE = b'{"type":"ACTIVATE_VERSION","stream":"s","version":1}\n'


def header(run: str) -> bytes:
    return msgspec.json.encode(FileHeader(id="f", created="2026-01-01T00:00:00.000000Z", run=run, seq=0))


def test_all_messages_of_a_run_are_meant_and_no_schema_or_hole() -> None:
    matcher = RunMatcher("bad")
    matcher.begin(header("bad"))
    assert matcher(SCHEMA).lines == []
    matcher.begin(None)
    found = matcher(kept(1) + ACTIVATE + HOLE + SCHEMA + kept(2))
    assert (list(found.lines), found.records) == ([0, 1, 4], 2)
    plain = matcher(kept(1) + kept(2))
    assert (list(plain.lines), plain.records) == ([0, 1], 2)


def test_the_next_header_ends_it() -> None:
    matcher = RunMatcher("bad")
    front = msgspec.json.encode(Provenance(id="j", lineage="l", offset=0, replaces=(("a", 1),)))
    met = []
    for extra in (front, header("good"), None, header("bad"), None, b"{", header("good"), None):
        matcher.begin(extra)
        met.append(bool(matcher(kept(1)).lines))
    assert met == [False, False, False, True, True, True, False, False]


def test_a_file_without_a_header_is_of_no_run() -> None:
    matcher = Ready(OfRun("")).matcher()
    matcher.begin(None)
    assert not matcher(kept(1)).lines


def test_the_word_in_a_record_is_a_record() -> None:
    matcher = RunMatcher("bad")
    matcher.begin(header("bad"))
    line = b'{"type":"RECORD","stream":"s","record":{"a":"SCHEMA","b":"ACTIVATE_VERSION"}}\n'
    found = matcher(line + line)
    assert (list(found.lines), found.records) == ([0, 1], 2)


def front(*counts: int) -> bytes:
    replaces = tuple((f"original{at}", count) for at, count in enumerate(counts))
    return msgspec.json.encode(Provenance(id="j", lineage="l", offset=0, replaces=replaces))


def test_in_a_joined_file_a_run_ends_with_its_file_though_the_next_one_has_no_header() -> None:
    matcher = RunMatcher("bad")
    members = [
        (front(3, 1), b""),
        (front(1, 1), b""),
        (header("bad"), SCHEMA),
        (None, kept(1) + HOLE),
        (None, SCHEMA + kept(2)),
        (None, SCHEMA + kept(3)),
        (header("bad"), SCHEMA + kept(4)),
        (None, b""),
        (None, kept(5)),
    ]
    met = []
    for extra, lines in members:
        matcher.begin(extra)
        met.append(len(matcher(lines).lines))
    assert met == [0, 0, 0, 1, 1, 0, 1, 0, 0]


def test_what_a_file_without_a_header_brought_stays_when_a_run_is_dropped_from_a_joined_file() -> None:
    storage = memory()
    mine = compress_member(SCHEMA + kept(0) + kept(1), 1, extra=header("bad"))
    file = stored(storage, SCHEMA + kept(2), front=empty_member(front(2, 1)) + mine, header=False)
    made = rewritten(storage, file, RewriteFiles(Ready(OfRun("bad")), PREFIX, "s", AT, "kim@desk"))
    assert isinstance(made, Rewritten)
    assert made.file is not None
    assert text(storage, made.file.path) == SCHEMA + HOLE + HOLE + SCHEMA + kept(2)
    found = FindMessages(Ready(OfRun("bad")))(storage, Sought(PREFIX + file.path, file.bytes))
    assert (found.messages, found.records) == (2, 2)
