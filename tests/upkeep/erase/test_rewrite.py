"""A file written again with holes: every other line as it was, and the file says what it is."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.clock import random_id
from singerlake.conditions import parse_condition
from singerlake.errors import StorageFullError, StorageUnavailableError
from singerlake.format.extra_fields import FileHeader, Provenance, read_header, read_provenance
from singerlake.format.lines.holes import HOLE, around_holes
from singerlake.format.state.files.data_file import DataFile
from singerlake.singer_file import compress_member, inflate
from singerlake.upkeep.erase import members, rewrite
from singerlake.upkeep.erase.match import Ready
from singerlake.upkeep.erase.rewrite import Rewrite, RewriteFiles, Rewritten
from singerlake.upkeep.result import Finding
from singerlake.upkeep.scan import scan
from singerlake.upkeep.vacuum.join import provenance_members
from tests.fakes import FakeClock
from tests.storage.memory import MemoryStorage

AT = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
PREFIX = "raw/t/s/"
SCHEMA = b'{"type":"SCHEMA","stream":"s","schema":{"type":"object"},"key_properties":[]}\n'
HEADER = FileHeader(id="0000000000000001", created="2026-01-01T00:00:00.000000Z", run="r", seq=0, lake_id="lake")


def memory() -> MemoryStorage:
    return MemoryStorage(clock=FakeClock(), ids=random_id)


TASK = RewriteFiles(Ready(parse_condition("gone = true", str)), PREFIX, "s", AT, "kim@desk")


def record(number: int, *, gone: bool = False) -> bytes:
    """A line of its own for each number."""
    return json.dumps({"type": "RECORD", "stream": "s", "record": {"n": number, "gone": gone}}).encode() + b"\n"


def kept(number: int) -> bytes:
    return record(number)


def gone(number: int) -> bytes:
    return record(number, gone=True)


def stored(storage: MemoryStorage, *texts: bytes, front: bytes = b"", header: bool = True) -> DataFile:
    """A data file of a gzip member for each text, as the manifest lists it."""
    extras = [msgspec.json.encode(HEADER) if header else None, *(None for _ in texts[1:])]
    body = front + b"".join(compress_member(text, 1, extra=extra) for text, extra in zip(texts, extras, strict=True))
    storage.put(PREFIX + "v/old.singer.gz", body)
    facts = scan(io.BytesIO(body), key="old")
    return DataFile(
        id=facts.provenance.id if facts.provenance else HEADER.id,
        path="v/old.singer.gz",
        version="v",
        messages=facts.messages,
        records=facts.records,
        bytes=facts.bytes,
        raw_bytes=facts.raw_bytes,
        sha256=facts.sha256,
        first="2026-01-01T00:00:00.000000Z",
        last="2026-01-01T00:00:00.000000Z",
        members=facts.members,
        erased=facts.erased,
        offset=40,
    )


def rewritten(storage: MemoryStorage, file: DataFile, task: RewriteFiles = TASK) -> Rewritten | Finding:
    return task(storage, Rewrite(file, "0000000000000009", "lineage", "lake"))


def text(storage: MemoryStorage, path: str) -> bytes:
    with storage.open(PREFIX + path) as body:
        return b"".join(inflate(body, where={}))


def body_of(storage: MemoryStorage, key: str) -> bytes:
    with storage.open(key) as body:
        return body.read()


def told(storage: MemoryStorage, path: str) -> Provenance:
    provenance = read_provenance(body_of(storage, PREFIX + path))
    assert provenance is not None
    return provenance


def test_each_record_that_goes_leaves_a_hole(storage: MemoryStorage) -> None:
    file = stored(storage, SCHEMA, kept(0) + gone(1) + kept(2), kept(3), gone(4) + gone(5))
    made = rewritten(storage, file)
    assert isinstance(made, Rewritten)
    assert made.file is not None
    new = made.file
    assert text(storage, new.path) == SCHEMA + kept(0) + HOLE + kept(2) + kept(3) + HOLE + HOLE
    assert (made.records, new.messages, new.records, new.erased) == (3, 6, 3, 3)
    assert [messages for _, messages in new.members] == [3, 1, 2]
    assert (new.id, new.version, new.first, new.last) == ("0000000000000009", "v", file.first, file.last)
    assert told(storage, new.path) == Provenance(
        id=new.id,
        lineage="lineage",
        offset=40,
        replaces=((file.id, 6),),
        erased=((file.id, 3, "2026-11-24T09:30:00.000000Z", "kim@desk"),),
        lake_id="lake",
    )


def test_what_holds_nothing_is_copied_and_keeps_its_header(storage: MemoryStorage) -> None:
    file = stored(storage, SCHEMA, kept(0), gone(1))
    made = rewritten(storage, file)
    assert isinstance(made, Rewritten)
    assert made.file is not None
    old, new = body_of(storage, PREFIX + file.path), body_of(storage, PREFIX + made.file.path)
    untouched = old[: file.members[1][0]]
    front = new.index(untouched)
    assert read_header(new[front:]) == HEADER
    assert made.file.members[0][0] == front + file.members[0][0]


def test_a_member_that_is_written_anew_keeps_its_header(storage: MemoryStorage) -> None:
    file = stored(storage, SCHEMA + kept(0) + gone(1))
    made = rewritten(storage, file)
    assert isinstance(made, Rewritten)
    assert made.file is not None
    assert scan(storage.open(PREFIX + made.file.path), key="").header == HEADER


def test_nothing_is_written_where_nothing_goes(storage: MemoryStorage) -> None:
    file = stored(storage, SCHEMA, kept(0))
    assert rewritten(storage, file) == Rewritten()
    assert [entry.key for entry in storage.list("")] == [PREFIX + file.path]


def test_each_original_is_told_what_it_lost_and_when(storage: MemoryStorage) -> None:
    front = provenance_members(
        Provenance(
            id="0000000000000003",
            lineage="lineage",
            offset=40,
            replaces=(("one", 2), ("two", 3), ("six", 1)),
            through=(("joined", 2),),
            erased=(("two", 1, "2026-01-01T00:00:00.000000Z", "lee@desk"),),
        )
    )
    file = stored(storage, SCHEMA, kept(0) + gone(1) + SCHEMA + HOLE + gone(2) + gone(3), kept(4), front=front)
    made = rewritten(storage, file)
    assert isinstance(made, Rewritten)
    assert made.file is not None
    said = told(storage, made.file.path)
    at = "2026-11-24T09:30:00.000000Z"
    assert said.replaces == (("one", 2), ("two", 3), ("six", 1))
    assert said.through == (("0000000000000003", 0), ("joined", 2))
    assert said.erased == (
        ("two", 1, "2026-01-01T00:00:00.000000Z", "lee@desk"),
        ("one", 1, at, "kim@desk"),
        ("two", 2, at, "kim@desk"),
    )
    assert (made.file.erased, made.file.records) == (4, 2)


def test_a_line_that_crosses_members_is_found(storage: MemoryStorage) -> None:
    line = gone(1)
    file = stored(storage, SCHEMA, kept(0) + line[:10], line[10:] + kept(2))
    made = rewritten(storage, file)
    assert isinstance(made, Rewritten)
    assert made.file is not None
    assert text(storage, made.file.path) == SCHEMA + kept(0) + HOLE + kept(2)


lists = st.lists(st.lists(st.sampled_from(["kept", "gone", "schema"]), max_size=6), max_size=5)


@given(lists, st.booleans(), st.integers(1, 400))
@settings(deadline=None)
def test_any_layout_is_written_again_with_all_else_in_place(layout: list[list[str]], alone: bool, held: int) -> None:
    storage = memory()
    number = 0
    texts: list[bytes] = [] if alone else [SCHEMA]
    for kinds in layout:
        part = b""
        for kind in kinds:
            number += kind != "schema"
            part += {"kept": kept(number), "gone": gone(number), "schema": SCHEMA}[kind]
        texts.append(part)
    if alone:
        texts = [SCHEMA + (texts[0] if texts else b""), *texts[1:]]
    if not number:
        return
    file = stored(storage, *texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "HELD_BYTES", held)
        patch.setattr(members, "_AHEAD", 1 << 18)
        patch.setattr(rewrite, "MEMBER_BYTES", 150)
        made = rewritten(storage, file)
    assert isinstance(made, Rewritten)
    before = b"".join(texts).splitlines(keepends=True)
    expected = [HOLE if b'"gone": true' in line else line for line in before]
    if made.file is None:
        assert expected == before
        return
    assert text(storage, made.file.path) == b"".join(expected)
    facts = scan(storage.open(PREFIX + made.file.path), key="")
    for fact in ("messages", "records", "erased", "bytes", "raw_bytes", "sha256", "members"):
        assert getattr(facts, fact) == getattr(made.file, fact)
    assert facts.header == HEADER


def test_a_large_member_is_not_held_whole(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "HELD_BYTES", 1 << 16)
    lines = [gone(n) if n % 1000 == 7 else kept(n) for n in range(60_000)]
    file = stored(storage, SCHEMA + b"".join(lines[:50_000]), b"".join(lines[50_000:]))
    longest = 0
    take = rewrite._NewBody.take

    def watched(self: Any, extra: bytes | None, stored: bytes | None, part: bytes) -> None:
        nonlocal longest
        longest = max(longest, len(part))
        take(self, extra, stored, part)

    monkeypatch.setattr(rewrite._NewBody, "take", watched)
    made = rewritten(storage, file)
    assert isinstance(made, Rewritten)
    assert made.file is not None
    assert longest < 1 << 19
    parts = list(around_holes(text(storage, made.file.path)))
    assert b"".join(part for part, _ in parts) == SCHEMA + b"".join(line for line in lines if b"true" not in line)
    assert sum(holes for _, holes in parts) == 60


def test_a_line_longer_than_what_is_held_is_joined_once(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "HELD_BYTES", 1 << 16)
    parts = 0
    part = members._Members._part

    def counted(self: Any) -> None:
        nonlocal parts
        parts += 1
        part(self)

    monkeypatch.setattr(members._Members, "_part", counted)
    long = json.dumps({"type": "RECORD", "stream": "s", "record": {"x": "y" * (4 << 20)}}).encode() + b"\n"
    made = rewritten(storage, stored(storage, SCHEMA + kept(1) + long + gone(2) + kept(3)))
    assert isinstance(made, Rewritten)
    assert made.file is not None
    assert text(storage, made.file.path) == SCHEMA + kept(1) + long + HOLE + kept(3)
    # In pieces of 128 KiB there were 32 of them.
    assert parts <= 2


@pytest.mark.parametrize(
    ("damage", "kind", "why"),
    [
        (lambda body: body[:-1], "broken", "has .* bytes, listed are"),
        (lambda body: body[:-9] + bytes((body[-9] ^ 0xFF,)) + body[-8:], "broken", "damaged gzip|cut short"),
        (lambda body: body[:-1] + bytes((body[-1] ^ 1,)), "broken", "damaged gzip"),
        (lambda body: body[:5] + b"\1" + body[6:], "differs", "not those that the manifest lists"),
    ],
)
def test_a_damaged_file_stays_and_is_reported(storage: MemoryStorage, damage: Any, kind: str, why: str) -> None:
    file = stored(storage, SCHEMA, kept(0), gone(1))
    key = PREFIX + file.path
    storage.put(key, damage(body_of(storage, key)))
    found = rewritten(storage, file)
    assert isinstance(found, Finding)
    assert (found.kind, found.key) == (kind, key)
    assert re.search(why, found.message)
    assert found.message.endswith("nothing was erased from it")
    assert [entry.key for entry in storage.list("")] == [key]


def test_a_missing_file_is_reported(storage: MemoryStorage) -> None:
    file = replace_path(stored(storage, SCHEMA, gone(1)), "v/other.singer.gz")
    found = rewritten(storage, file)
    assert isinstance(found, Finding)
    assert (found.kind, found.message) == ("missing", "is listed but missing; nothing was erased from it")


def replace_path(file: DataFile, path: str) -> DataFile:
    return msgspec.structs.replace(file, path=path)


def test_a_full_disk_is_said(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/singerlake-erase-x/file")

    monkeypatch.setattr(rewrite.shutil, "copyfileobj", full)
    with pytest.raises(StorageFullError, match="no space is left"):
        rewritten(storage, stored(storage, SCHEMA, gone(1)))


def test_what_storage_gives_back_is_held_against_what_was_written(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stored(storage, SCHEMA, kept(0), gone(1))
    upload = storage.upload

    def torn(key: str, path: Any) -> None:
        path.write_bytes(provenance_members(Provenance(id="x", lineage="", offset=0, replaces=(("x", 1),))))
        with path.open("ab") as out:
            out.write(compress_member(SCHEMA + kept(0), 1))
        upload(key, path)

    monkeypatch.setattr(storage, "upload", torn)
    with pytest.raises(StorageUnavailableError, match=r"other bytes than were written.*stays as it is"):
        rewritten(storage, file)


@given(st.lists(st.sampled_from([HOLE, b"\n", b'{"a":{"type":"ERASED"}}\n', kept(1), b' {"type":"ERASED"}\n'])))
def test_holes_are_lines_of_their_own(given: list[bytes]) -> None:
    parts = list(around_holes(b"".join(given)))
    assert sum(count for _, count in parts) == given.count(HOLE)
    assert b"".join(lines or HOLE * count for lines, count in parts) == b"".join(given)
    assert all(bool(lines) != bool(count) for lines, count in parts)


@pytest.fixture
def storage() -> MemoryStorage:
    return memory()


def test_the_task_can_travel() -> None:
    assert replace(TASK, who="lee") == RewriteFiles(TASK.ready, PREFIX, "s", AT, "lee")
