"""Small data files are had many at once, and what is said of each is what is said of one that is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.format.state.files.data_file import DataFile
from singerlake.singer_file import compress_member
from singerlake.storage.local.storage import LocalStorage
from singerlake.upkeep.checks import VerifyTask, check_file
from singerlake.upkeep.context import data_files
from singerlake.upkeep.rebuild.survey import SurveyTask, survey
from singerlake.upkeep.scan import SMALL_BYTES, small_bodies
from tests.fakes import FakeClock, counting_ids
from tests.storage.memory import MemoryStorage
from tests.upkeep.shelf import (
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

ACTIVATE = b'{"type":"ACTIVATE_VERSION","stream":"s","version":1}\n'


SOUND = {
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


ODD = {
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
    "longer": file_bytes([], extra=header(1)) + b"\0" * SMALL_BYTES,
    "a name in the gzip header": b"\x1f\x8b\x08\x08"
    + compress_member(schema_line(), 1)[4:10]
    + b"n\0"
    # What follows the fixed header of a member without a name.
    + compress_member(schema_line(), 1)[10:],
    "a long time": file_bytes([[record(1, time_extracted=f"2026-01-01T00:00:00.{'0' * 70}Z")]], extra=None),
    "a time that is none": file_bytes([[record(1, time_extracted="2026-13-01T00:00:00Z")]], extra=None),
}


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """With a file of each kind."""
    made = LocalStorage(tmp_path, clock=SystemClock(), ids=random_id)
    shelf = Shelf()
    for number, body in enumerate([*SOUND.values(), *ODD.values()]):
        made.put(PREFIX + shelf.path(number), body)
    return made


def test_only_small_files_are_had_and_each_in_its_place() -> None:
    storage = MemoryStorage(clock=FakeClock(), ids=counting_ids())
    bodies = {"a": b"1", "b": b"2" * (SMALL_BYTES + 1), "c": b"3" * SMALL_BYTES, "d": b""}
    for key, body in bodies.items():
        storage.put(key, body)
    files = [("gone", 1), *((key, len(body)) for key, body in bodies.items()), ("b", 1)]
    assert list(small_bodies(storage, files)) == [None, b"1", None, bodies["c"], b"", None]
    assert list(small_bodies(storage, [])) == []


def opened_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: LocalStorage, keys: Sequence[str], most: int) -> Sequence[None]:
        return [None] * len(keys)

    monkeypatch.setattr(LocalStorage, "bodies", none)


def test_a_survey_finds_the_same_as_of_files_that_are_opened(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = list(data_files(storage, "t", STREAM))
    assert len(entries) == len(SOUND) + len(ODD)
    at_once = survey(storage, "t", STREAM, entries)
    opened_alone(monkeypatch)
    assert at_once == survey(storage, "t", STREAM, entries)
    assert len(at_once.files) >= len(SOUND)
    assert at_once.findings


def test_a_verification_finds_the_same_as_of_files_that_are_opened(storage: LocalStorage) -> None:
    prefix = PREFIX + "a/"
    facts: dict[str, Any] = {"version": "a", "messages": 1, "records": 1, "raw_bytes": 1, "sha256": "", "members": ()}
    times: dict[str, Any] = {"first": "2026-01-01T00:00:00Z", "last": "2026-01-01T00:00:00Z"}
    files = [
        DataFile(id=str(at), path=entry.key[len(prefix) :], offset=at, bytes=entry.size, **facts, **times)
        for at, entry in enumerate(data_files(storage, "t", STREAM))
    ]
    at_once = VerifyTask(STREAM, prefix).together(storage, files)
    assert at_once == [check_file(storage, STREAM, file, prefix + file.path) for file in files]


def test_of_small_files_none_is_opened_by_itself(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [entry for entry in data_files(storage, "t", STREAM) if entry.size <= SMALL_BYTES]
    assert len(entries) == len(SOUND) + len(ODD) - 1
    monkeypatch.delattr(LocalStorage, "open")
    assert len(SurveyTask(STREAM, PREFIX).together(storage, entries)) == len(entries)
