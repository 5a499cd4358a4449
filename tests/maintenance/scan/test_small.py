"""Scanning small files together: each is left, or says what the other scan says of it."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.clock import SystemClock, random_id
from singerlake.errors import BrokenFileError
from singerlake.maintenance.scan import small as module
from singerlake.maintenance.scan.scan import Scanned, scan
from singerlake.maintenance.scan.small import MOST_BYTES, scan_small
from singerlake.singer_file import compress_member
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.port import Storage
from tests import sanitized
from tests.fakes import FakeClock, counting_ids
from tests.maintenance.shelf import (
    PREFIX,
    STREAM,
    Shelf,
    file_bytes,
    header,
    numbered,
    record,
    schema_line,
    vacuumed_bytes,
)
from tests.storage.memory import MemoryStorage

ACTIVATE = b'{"type":"ACTIVATE_VERSION","stream":"s","version":1}\n'


def memory() -> MemoryStorage:
    return MemoryStorage(clock=FakeClock(), ids=counting_ids())


def scanned_small(body: bytes, stream: str = STREAM, *, times: bool = True) -> Scanned | None:
    storage = memory()
    storage.put("k", body)
    (found,) = scan_small(storage, [("k", len(body))], stream, times=times)
    return found


def agrees(body: bytes, *, times: bool = True) -> Scanned | None:
    """What is said of a small file, which is what the other scan says of it."""
    found = scanned_small(body, times=times)
    try:
        expected = scan(io.BytesIO(body), key="k", times=times)
    except BrokenFileError:
        expected = None
    assert found is None or found == expected
    return found


TAKEN = {
    "as a target writes it": file_bytes([numbered(1, 3)], extra=header(1)),
    "several members": file_bytes([numbered(1, 3), numbered(2, 1), [ACTIVATE]], extra=header(1)),
    "no header": file_bytes([numbered(1, 3)], extra=None),
    "one member for all": compress_member(schema_line() + record(1) + ACTIVATE, 1, extra=header(1)),
    "zlib's own": compress_member(schema_line() + record(1), 9, extra=header(1)),
    "no message": file_bytes([], extra=header(1)),
    "somebody else's header": file_bytes([numbered(1, 1)], extra=b"{}"),
    "somebody else's deep header": file_bytes([numbered(1, 1)], extra=b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}"),
    "a header that is not UTF-8": file_bytes([numbered(1, 1)], extra=b'{"id":"\xff"}'),
    "times": file_bytes(
        [
            [record(1, time_extracted="2026-01-02T00:00:00.5Z"), record(2, time_extracted=None)],
            [record(3, time_extracted="2026-01-01T00:00:00+00:00"), record(4)],
        ],
        extra=header(1),
    ),
    "not ASCII": file_bytes([['{"type":"RECORD","stream":"s","record":{"ä":"ü"}}\n'.encode()]], extra=None),
    "what compresses well": file_bytes([[record(1)] * 1000], extra=header(1)),
}


@pytest.mark.parametrize("body", TAKEN.values(), ids=TAKEN.keys())
@pytest.mark.parametrize("times", [False, True])
def test_what_targets_write_is_taken(body: bytes, times: bool) -> None:
    assert len(body) <= MOST_BYTES
    assert agrees(body, times=times) is not None


LEFT = {
    "empty": b"",
    "a byte": b"\x1f",
    "a cut header": file_bytes([], extra=header(1))[:30],
    "a joined file": vacuumed_bytes(9, [(1, 2), (2, 3)]),
    "joined by hand": file_bytes([numbered(1, 1)], extra=header(1)) + file_bytes([numbered(2, 1)], extra=header(2)),
    "a header that says it was joined": file_bytes(
        [numbered(1, 1)], extra=b'{"id":"x","lineage":"l","offset":0,"replaces":[["y",1]]}'
    ),
    "an empty member": file_bytes([[]], extra=header(1)),
    "a line over two members": file_bytes([[record(1)[:9]], [record(1)[9:]]], extra=header(1)),
    "another stream": file_bytes([[record(1, stream="t")]], extra=header(1), schema=schema_line(stream="t")),
    "records of another stream": file_bytes([[record(1, stream="t")]], extra=header(1)),
    "two schemas": file_bytes([[record(1), schema_line(), record(2)]], extra=header(1)),
    "more text than is held": file_bytes([[record(1)] * 10_000], extra=header(1)),
    "more members than are held": file_bytes([[record(1)]] * 40, extra=header(1)),
    "longer": file_bytes([], extra=header(1)) + b"\0" * MOST_BYTES,
    "a name in the gzip header": b"\x1f\x8b\x08\x08"
    + compress_member(schema_line(), 1)[4:10]
    + b"n\0"
    # What follows the fixed header of a member without a name.
    + compress_member(schema_line(), 1)[10:],
    "a long time": file_bytes([[record(1, time_extracted=f"2026-01-01T00:00:00.{'0' * 70}Z")]], extra=None),
    "a time that is none": file_bytes([[record(1, time_extracted="2026-13-01T00:00:00Z")]], extra=None),
}


@pytest.mark.parametrize("body", LEFT.values(), ids=LEFT.keys())
def test_what_needs_more_than_a_look_is_left(body: bytes) -> None:
    assert agrees(body) is None


@pytest.mark.parametrize("stream", ["", "t", "S", "\udc80", "s\\", "s" * 1000])
def test_a_file_of_another_stream_is_left(stream: str) -> None:
    assert scanned_small(TAKEN["as a target writes it"], stream) is None


def test_each_of_several_gets_its_own_answer() -> None:
    storage = memory()
    bodies = [TAKEN["no header"], b"broken", TAKEN["times"], None, TAKEN["several members"]]
    for number, body in enumerate(bodies):
        if body is not None:
            storage.put(f"k{number}", body)
    found = scan_small(storage, [(f"k{number}", 1) for number in range(len(bodies))], STREAM, times=True)
    assert [said is None for said in found] == [False, True, False, True, False]
    for body, said in zip(bodies, found, strict=True):
        assert said is None or (body is not None and said == scan(io.BytesIO(body), key="k"))
    assert scan_small(storage, [], STREAM, times=True) == []


def test_without_a_compiler_all_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "compiled", None)
    assert scanned_small(TAKEN["no header"]) is None


@pytest.mark.parametrize("times", [False, True])
def test_every_cut_and_every_flipped_bit_is_left_or_means_what_it_says(times: bool) -> None:
    body = TAKEN["times"]
    for at in range(len(body)):
        agrees(body[:at], times=times)
        damaged = bytearray(body)
        damaged[at] ^= 1 << at % 8
        agrees(bytes(damaged), times=times)


LINES = st.sampled_from(
    [
        record(1),
        record(2, time_extracted="2026-01-02T00:00:00Z"),
        record(3, time_extracted="2026-01-01T00:00:00.25+00:00"),
        record(4, time_extracted=5),
        record(5, stream="t"),
        ACTIVATE,
        schema_line(),
        b"\n",
        b"{}\n",
        b"x",
    ]
)


@settings(max_examples=300)
@given(
    st.lists(st.lists(LINES, max_size=4), max_size=4),
    st.sampled_from([None, header(1), b"", b"{}", b"\xff"]),
    st.sampled_from([schema_line(), schema_line(stream="t"), b"{}\n", b"", record(1), schema_line() + record(1)]),
    st.integers(1, 9),
)
def test_any_file_is_left_or_means_what_it_says(
    members: list[list[bytes]], extra: bytes | None, first: bytes, level: int
) -> None:
    body = compress_member(first, level, extra=extra)
    agrees(body + b"".join(compress_member(b"".join(lines), level) for lines in members))


def local(folder: Path) -> Storage:
    return LocalStorage(folder, clock=SystemClock(), ids=random_id)


def test_a_survey_of_a_folder_finds_the_same_with_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from singerlake.maintenance.rebuild.survey import data_files, survey

    shelf, storage = Shelf(), local(tmp_path)
    for number, body in enumerate([*TAKEN.values(), *LEFT.values()]):
        storage.put(PREFIX + shelf.path(number), body)
    entries = list(data_files(storage, "t", "s"))
    assert len(entries) == len(TAKEN) + len(LEFT)
    assert module.compiled is not None, "installed without a C compiler or zlib: install them, and the package again"
    with_it = survey(storage, "t", "s", entries)
    monkeypatch.setattr(module, "compiled", None)
    assert with_it == survey(storage, "t", "s", entries)
    assert len(with_it.found) > len(TAKEN)
    assert with_it.findings


FUZZ = r"""
import json, random, struct, sys, zlib
from _whole import scan

chance = random.Random(int(sys.argv[1]))
SCHEMA = b'{"type":"SCHEMA","stream":"s","schema":{}}\n'
LINE = b'{"type":"RECORD","stream":"s","record":{"a":"\xc3\xbc"},"time_extracted":"2026-01-02T00:00:00.25Z"}\n'
PIECES = [*(bytes([byte]) for byte in b'"\\{}[]:,\n\x00\xff'), b"\x1f\x8b\x08\x04", b"SL\xff\xff", b"\xff" * 9, SCHEMA]


def member(text, extra):
    squeezer = zlib.compressobj(chance.choice([0, 1, 6]), zlib.DEFLATED, -15)
    field = b"SL" + struct.pack("<H", len(extra)) + extra
    head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H", len(field)) + field
    if not extra:
        head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    crc = zlib.crc32(text) if chance.random() < 0.95 else 1
    return head + squeezer.compress(text) + squeezer.flush() + struct.pack("<II", crc, len(text))


taken = 0
for _ in range(int(sys.argv[2])):
    files = []
    for _ in range(chance.randint(0, 4)):
        texts = [SCHEMA]
        for _ in range(chance.randint(0, 20)):
            texts.append(damaged(chance, LINE, PIECES) if chance.random() < 0.1 else LINE)
        body = b"".join(member(text, b"{}" if not number else b"") for number, text in enumerate(texts))
        if chance.random() < 0.3:
            body = damaged(chance, body, PIECES)
        files.append(chance.choice([body, body, body, None]))
    found = scan(tuple(files), chance.choice([b"s", b"s", b"", b"x" * 99]), chance.random() < 0.7)
    taken += sum(said is not None for said in found)
print(taken)
"""
ROUNDS = 5000


@pytest.mark.sampled(seed=1)
@sanitized.linux
@pytest.mark.parametrize("seed", range(2))
def test_damaged_files_stay_within_their_memory(tmp_path: Path, seed: int) -> None:
    taken = sanitized.watched(tmp_path, "format/lines/_whole.c", FUZZ, seed, ROUNDS, libraries=("z",))
    assert int(taken) > ROUNDS / 10


@pytest.mark.parametrize("more", [b"", b"x"], ids=["taken", "left"])
def test_nothing_is_kept_of_a_file(more: bytes) -> None:
    bodies = (TAKEN["times"] + more, None) * 20

    def held_after(times: int) -> int:
        for _ in range(times):
            module.compiled.scan(bodies, b"s", True)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        once = held_after(1)
        assert held_after(500) - once < 500
    finally:
        tracemalloc.stop()


def test_what_is_asked_for_wrongly_is_refused() -> None:
    with pytest.raises(TypeError):
        module.compiled.scan((1,), b"s", True)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        module.compiled.scan([b""], b"s", True)  # type: ignore[arg-type]
