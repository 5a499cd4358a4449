"""What goes into the lake: the very bytes, in files of the size asked for, each with its schema."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from singer_sdk.exceptions import InvalidInputLine

from singerlake.format.extra_fields import read_header
from singerlake.format.lines import scanner
from singerlake.format.schema_hash import schema_hash
from singerlake.lake import Lake
from tests.target.support import (
    TAP,
    USERS,
    WIDER,
    activate,
    ingest,
    kept,
    kept_ids,
    manifest,
    record,
    records,
    schema,
    state,
    text,
)


def test_messages_are_kept_byte_for_byte_in_order(tmp_path: Path) -> None:
    odd = [
        record(1, version=7, time_extracted="2026-01-01T00:00:00.001Z"),
        b'{"record":{"id":2, "n":1.10e5,"big":123456789012345678901234567890},  "stream":"users","type":"RECORD"}',
        b'  {"type": "RECORD", "stream": "users", "record": {"id": 3, "name": "\\u00e9 \xc3\xa9"}}\r',
        b'{"type": "RECORD", "stream": "users", "record": {"id": 4, "name": NaN}}',
        b'{"type": "RECORD", "stream": "users", "record": {"id": 5, "name": "\\ud800"}, "other": {"kept": true}}',
        activate(7),
        b'{"type": "ACTIVATE_VERSION", "version": 8, "stream": "users", "why": "\xe2\x82\xac"}',
        *records(*range(6, 40)),
    ]
    assert ingest(tmp_path, [schema(), *odd, state({"at": 1})]) == ['{"at": 1}']
    assert kept(tmp_path) == odd
    (file,) = manifest(tmp_path).files
    assert (file.messages, file.records) == (len(odd), len(odd) - 2)
    stored = gzip.decompress((tmp_path / "raw" / TAP / "users" / file.path).read_bytes())
    assert stored == text([schema(), *odd])
    assert file.raw_bytes == len(stored)


def test_a_file_names_its_run_and_the_span_of_its_times(tmp_path: Path) -> None:
    lines = [record(id, time_extracted=f"2026-01-0{id}T12:00:00+01:00") for id in (2, 3, 1)]
    ingest(tmp_path, [schema(), *lines, activate(1)])
    (file,) = manifest(tmp_path).files
    assert file.path.split("/")[1].startswith("users-20260101T110000.000000Z-20260103T110000.000000Z-")
    assert (file.first, file.last) == ("2026-01-01T11:00:00.000000Z", "2026-01-03T11:00:00.000000Z")
    header = read_header((tmp_path / "raw" / TAP / "users" / file.path).read_bytes())
    (run,) = manifest(tmp_path).runs
    assert header is not None
    assert (header.id, header.run, header.seq) == (file.id, run.id, 1)
    assert (run.status, run.records, run.files) == ("finished", 3, 1)


def test_times_of_records_without_one_are_those_of_their_receipt(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(), record(1, time_extracted="no time"), record(2)])
    (file,) = manifest(tmp_path).files
    assert file.first[:2] == file.last[:2] == "20"
    assert file.first <= file.last


def test_the_span_covers_every_record_however_many_members_lie_around_it(tmp_path: Path) -> None:
    lines = [record(id, time_extracted="2026-01-01T00:00:00Z", filler="x" * 1000) for id in range(3000)]
    lines[1500] = record(1500, time_extracted="2031-01-01T00:00:00Z")
    lines[1600] = record(1600, time_extracted="1999-01-01T00:00:00Z")
    ingest(tmp_path, [schema(), *lines], max_memory_bytes=1 << 20)
    (file,) = manifest(tmp_path).files
    assert len(file.members) > 2
    assert (file.first, file.last) == ("1999-01-01T00:00:00.000000Z", "2031-01-01T00:00:00.000000Z")


def test_each_file_has_the_span_of_its_own_records_where_a_block_of_lines_goes_into_several(tmp_path: Path) -> None:
    lines = [record(id, time_extracted=f"2026-01-{id:02}T00:00:00Z") for id in range(1, 28)]
    ingest(tmp_path, [schema(), *lines, activate(1)], max_file_records=9)
    spans = [(file.first[:10], file.last[:10]) for file in manifest(tmp_path).files if file.records]
    assert spans == [("2026-01-01", "2026-01-09"), ("2026-01-10", "2026-01-18"), ("2026-01-19", "2026-01-27")]


@pytest.mark.parametrize(
    "odd",
    [
        b'"2025-06-01 12:00"',
        b'"2025-06-01T12:00:00,5+00"',
        b'"2025-06-01T12Z"',
        b'"2025-06-01T12:00:00Z", "note": NaN',
        b'"2025-06-01T12:00:00Z", "time_extracted": "2025-06-01T12:00:00.1Z"',
        b'"2025\\u002d06-01T12:00:00Z"',
    ],
)
@pytest.mark.parametrize("place", [0, 15, 39])
def test_a_time_that_is_written_otherwise_counts_like_any(tmp_path: Path, odd: bytes, place: int) -> None:
    lines = [record(id, time_extracted=f"2026-01-01T00:00:{id:02}Z") for id in range(40)]
    lines[place] = b'{"type": "RECORD", "stream": "users", "record": {"id": 99}, "time\\u005fextracted": ' + odd + b"}"
    ingest(tmp_path, [schema(), *lines])
    assert kept(tmp_path) == lines
    (file,) = manifest(tmp_path).files
    assert file.first.startswith("2025-06-01T12:00:00")
    assert file.last == f"2026-01-01T00:00:{38 if place == 39 else 39}.000000Z"


@pytest.mark.parametrize("value", ["no time", "", None, 5, {"a": 1}, "2026-13-01T00:00:00Z"])
def test_what_is_no_time_does_not_count_beside_what_is(tmp_path: Path, value: object) -> None:
    lines = [record(id, time_extracted=value) for id in range(20)]
    lines[7] = record(7, time_extracted="2026-01-07T00:00:00Z")
    ingest(tmp_path, [schema(), *lines, record(20)])
    assert kept_ids(tmp_path) == list(range(21))
    (file,) = manifest(tmp_path).files
    assert file.first == file.last == "2026-01-07T00:00:00.000000Z"


def test_a_time_inside_of_a_record_does_not_count(tmp_path: Path) -> None:
    inner = {"id": 1, "time_extracted": "1999-01-01T00:00:00Z"}
    line = {"type": "RECORD", "stream": "users", "record": inner, "time_extracted": "2026-01-01T00:00:00Z"}
    ingest(tmp_path, [schema(), json.dumps(line).encode()])
    (file,) = manifest(tmp_path).files
    assert file.first == file.last == "2026-01-01T00:00:00.000000Z"


def test_a_50_megabyte_line_is_kept(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(1 << 16).hex() * 400
    long = json.dumps({"type": "RECORD", "stream": "users", "record": {"id": 2, "name": noise}}).encode()
    assert len(long) > 50 << 20
    ingest(tmp_path, [schema(), record(1), long, record(3)])
    assert kept(tmp_path) == [record(1), long, record(3)]


def test_a_last_line_that_only_lacks_its_newline_is_kept(tmp_path: Path) -> None:
    assert ingest(tmp_path, text([schema(), record(1)]) + state({"at": 1})) == ['{"at": 1}']
    assert ingest(tmp_path, text([schema()]) + record(2)) == []
    assert kept_ids(tmp_path) == [1, 2]


def test_an_input_without_records_leaves_no_file_and_passes_its_state_on(tmp_path: Path) -> None:
    assert ingest(tmp_path, [schema(), state({"at": 1})]) == ['{"at": 1}']
    assert not list(tmp_path.rglob("*.singer.gz"))
    assert ingest(tmp_path, b"") == []


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_max_file_records_is_exact(tmp_path: Path, limit: int) -> None:
    lines = [schema(), *records(1, 2, 3), activate(1), *records(*range(4, 21))]
    ingest(tmp_path, lines, max_file_records=limit)
    counts = [file.records for file in manifest(tmp_path).files]
    assert counts[:-1] == [limit] * (20 // limit) or counts == [limit] * (20 // limit)
    assert sum(counts) == 20
    assert kept(tmp_path) == lines[1:]


def test_max_file_bytes_counts_compressed_bytes(tmp_path: Path) -> None:
    noise = random.Random(2)
    lines = [
        json.dumps({"type": "RECORD", "stream": "users", "record": {"id": id, "name": noise.randbytes(500).hex()}})
        for id in range(4000)
    ]
    sent = [line.encode() for line in lines]
    ingest(tmp_path, [schema(), *sent], max_file_bytes=300_000)
    sizes = [file.bytes for file in manifest(tmp_path).files]
    assert len(sizes) > 3
    assert all(300_000 <= size <= 900_000 for size in sizes[:-1])
    assert kept(tmp_path) == sent


def test_no_limit_means_one_file(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(), *records(*range(500))], max_file_records=0, max_file_bytes=0, max_file_age_seconds=0)
    assert len(manifest(tmp_path).files) == 1


def test_streams_share_the_memory_and_lose_nothing(tmp_path: Path) -> None:
    names = [f"s{index}" for index in range(7)]
    lines = [schema(name, keys=()) for name in names]
    filler = "x" * 1000
    for id in range(6000):
        lines.append(record(id, names[id % 7 if id < 4000 else 0], filler=filler))
    ingest(tmp_path, lines, max_memory_bytes=1 << 20)
    for index, name in enumerate(names):
        expected = [id for id in range(6000) if (id % 7 if id < 4000 else 0) == index]
        assert kept_ids(tmp_path, name) == expected
        (file,) = manifest(tmp_path, name).files
        assert len(file.members) >= 1
    assert len(manifest(tmp_path, "s0").files[0].members) > 3


@pytest.mark.parametrize("level", range(1, 10))
def test_every_compression_level_is_read_back(tmp_path: Path, level: int) -> None:
    ingest(tmp_path, [schema(), *records(*range(200))], compression_level=level)
    assert kept_ids(tmp_path) == list(range(200))


def test_a_new_schema_closes_the_file_and_a_repeated_one_does_not(tmp_path: Path) -> None:
    reordered = dict(reversed(list(USERS.items())))
    lines = [
        schema(),
        *records(1),
        schema(),
        *records(2),
        schema(schema=reordered),
        *records(3),
        schema(schema=WIDER),
        *records(4),
        schema(),
        *records(5),
        schema(keys=()),
        *records(6),
        schema(keys=(), bookmark_properties=["id"]),
        *records(7),
    ]
    ingest(tmp_path, lines)
    found = manifest(tmp_path)
    assert [(found.versions[file.version], file.records) for file in found.files] == [
        ("v1", 3),
        ("v2", 1),
        ("v1", 1),
        ("v1", 1),
        ("v1", 1),
    ]
    assert list(found.versions) == [schema_hash(USERS), schema_hash(WIDER)]
    assert found.schemas[schema_hash(USERS)].bookmark_properties == ("id",)
    assert found.schemas[schema_hash(USERS)].key_properties == ()
    assert kept_ids(tmp_path) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    "name",
    [
        "../../etc",
        "a/b",
        "catalogue.json",
        "singerlake.json",
        "test:SpecialChars!in?attributes",
        ".hidden",
        "é ☃",
        "_log",
    ],
)
def test_any_stream_name_is_kept_below_its_tap(tmp_path: Path, name: str) -> None:
    root = tmp_path / "lake"
    ingest(root, [schema(name), *records(1, 2, stream=name)])
    assert kept_ids(root, name) == [1, 2]
    assert Lake.open(str(root)).streams(TAP) == [name]
    assert {path.name for path in tmp_path.iterdir()} == {"lake"}


@pytest.mark.parametrize(
    "unusual",
    [
        {"properties": {"id": True, "name": False}},
        {"properties": {"id": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}}},
        {"properties": {"id": {"$ref": "#/$defs/key"}}, "$defs": {"key": {"type": "integer"}}, "type": "object"},
        {"properties": {}, "additionalProperties": True},
    ],
)
def test_unusual_schemas_are_kept_as_they_are(tmp_path: Path, unusual: dict[str, object]) -> None:
    ingest(tmp_path, [schema(schema=unusual), *records(1)])
    assert manifest(tmp_path).schemas[schema_hash(unusual)].schema == unusual
    assert kept_ids(tmp_path) == [1]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_state_promises_only_what_is_in_the_lake(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """However files are cut, the STATE that comes out last is the last one sent, and all sent records are kept."""
    root = tmp_path_factory.mktemp("lake")
    lines = [schema("a"), schema("b")]
    sent: dict[str, list[int]] = {"a": [], "b": []}
    steps = data.draw(st.lists(st.sampled_from(("a", "b", "state", "wider")), min_size=1, max_size=30))
    values = []
    for number, step in enumerate(steps):
        if step == "state":
            values.append({"number": number})
            lines.append(state(values[-1]))
        elif step == "wider":
            lines.append(schema("a", WIDER if number % 2 else USERS))
        else:
            sent[step].append(number)
            lines.append(record(number, step))
    emitted = [json.loads(line) for line in ingest(root, lines, max_file_records=data.draw(st.integers(0, 4)))]
    assert emitted == [value for value in values if value in emitted]
    assert emitted[-1:] == values[-1:]
    for name, ids in sent.items():
        if ids:
            assert kept_ids(root, name) == ids


def _sent(stream: str, day: int, times: int) -> list[bytes]:
    return [record(day, stream, time_extracted=f"1999-01-{day:02}{' 12:00' if day % 2 else 'T12:00:00Z'}")] * times


STEPS = st.lists(
    st.builds(_sent, st.sampled_from("abc"), st.integers(1, 31), st.sampled_from((1, 2, 9)))
    | st.sampled_from([[state({"at": 1})], [schema("a", WIDER)], [schema("b")], [activate(1, "a")], [b""], [b"no"]]),
    max_size=12,
)


@settings(max_examples=10, deadline=None)
@given(STEPS, st.integers(0, 4))
def test_the_lake_is_the_same_without_the_compiled_scanner(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[bytes]], limit: int
) -> None:
    lines = [schema("a"), schema("b"), schema("c", keys=()), *(line for step in steps for line in step)]
    with pytest.MonkeyPatch.context() as patch:
        scanned = _left_by(tmp_path_factory.mktemp("lake"), lines, limit)
        patch.setattr(scanner, "compiled", None)
        assert _left_by(tmp_path_factory.mktemp("lake"), lines, limit) == scanned


def _left_by(root: Path, lines: list[bytes], limit: int) -> tuple[object, ...]:
    """How a run ended, and the files and messages of each stream."""
    try:
        end: object = ingest(root, lines, max_file_records=limit)
    except InvalidInputLine as error:
        end = str(error)
    streams = Lake.open(str(root)).streams(TAP)
    # A file without a record has the times of its receipt.
    files = {
        stream: [
            (file.messages, file.records, file.raw_bytes, file.version, file.records and (file.first, file.last))
            for file in manifest(root, stream).files
        ]
        for stream in streams
    }
    return end, files, {stream: kept(root, stream) for stream in streams}


@pytest.mark.parametrize("odd", [{"title": "\udfff"}, {"default": float("nan")}, {"const": 10**400}])
def test_names_and_schemas_that_only_json_takes_are_kept(tmp_path: Path, odd: dict[str, object]) -> None:
    name = "odd \ud800"
    ingest(tmp_path, [schema(name, {"properties": {"id": odd}}), *records(1, stream=name)])
    assert kept_ids(tmp_path, name) == [1]


def test_a_schema_message_spelt_with_escapes_is_found_by_readers(tmp_path: Path) -> None:
    escaped = schema().replace(b'"SCHEMA"', b'"\\u0053CHEMA"')
    assert json.loads(escaped)["type"] == "SCHEMA"
    ingest(tmp_path, [escaped, *records(1)])
    assert kept_ids(tmp_path) == [1]


def test_a_run_s_end_is_told_also_to_streams_whose_last_file_was_committed_before(tmp_path: Path) -> None:
    early = [schema("early"), record(1, "early"), schema("early", WIDER)]
    ingest(tmp_path, [*early, schema("late"), record(1, "late")])
    for stream in ("early", "late"):
        (run,) = manifest(tmp_path, stream).runs
        assert (run.status, run.records, run.files) == ("finished", 1, 1)
