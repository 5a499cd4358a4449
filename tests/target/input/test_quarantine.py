"""``invalid_records: quarantine``: what does not match its schema is in a stream beside, and nothing is lost."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import InvalidMessageError, InvalidSchemaError
from singerlake.format.quarantine import COLUMNS, released
from singerlake.lake import Lake
from target_singerlake.errors import RecordAgainstSchemaError
from tests.target.support import TAP, ingest, kept

SCHEMA = (
    b'{"type":"SCHEMA","stream":"s","schema":{"properties":{"id":{"type":"integer"},"n":{"type":"number"}}},'
    b'"key_properties":["id"],"bookmark_properties":["n"]}'
)
GOOD = [
    b'{"type":"RECORD","stream":"s","record":{"id":1,"n":1.50}}',
    b'{"type":"RECORD","stream":"s","record":{"id":2}}',
]
WRONG = (
    b'{"type":"RECORD","stream":"s","record":{"id":"x","n":1.000000000000000000001,"more":[1]},'
    b'"time_extracted":"2026-01-02T08:00:00Z","version":3}'
)
KEYLESS = b'{"type":"RECORD","stream":"s","record":{"n":2}}'
STATE = b'{"type":"STATE","value":{"at":1}}'
QUARANTINE = "s__quarantine"


def quarantine(folder: Path, *lines: bytes, **more: Any) -> list[str]:
    return ingest(folder, lines, invalid_records="quarantine", **more)


def messages(folder: Path, stream: str) -> list[bytes]:
    return [line for line in kept(folder, stream) if b'"RECORD"' in line]


def reasons(folder: Path) -> list[tuple[str, str]]:
    records = [json.loads(line)["record"] for line in messages(folder, QUARANTINE)]
    return [(record["_quarantine_property"], record["_quarantine_rule"]) for record in records]


def test_the_others_stay_as_they_came_and_the_state_behind_is_emitted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert quarantine(tmp_path, SCHEMA, GOOD[0], WRONG, KEYLESS, GOOD[1], STATE) == ['{"at":1}']
    assert messages(tmp_path, "s") == GOOD
    assert reasons(tmp_path) == [("id", "type"), ("id", "key_properties")]
    (warning,) = [record.message for record in caplog.records if "quarantine" in record.message]
    assert "line 3" in warning
    assert "1.0000" not in warning


def test_a_record_keeps_all_that_it_had_and_is_released_as_it_came(tmp_path: Path) -> None:
    quarantine(tmp_path, SCHEMA, WRONG, KEYLESS)
    first, second = messages(tmp_path, QUARANTINE)
    assert b'"n":1.000000000000000000001,"more":[1],"_quarantine_property"' in first
    assert [released(line, "s") for line in (first, second)] == [WRONG, KEYLESS]


def test_its_schema_is_that_of_the_stream_without_a_key(tmp_path: Path) -> None:
    quarantine(tmp_path, SCHEMA, WRONG)
    (version,) = Lake.open(str(tmp_path)).stream(TAP, QUARANTINE).snapshot().schemas.values()
    assert [*version.schema["properties"]] == ["id", "n", *COLUMNS]
    assert (version.key_properties, version.bookmark_properties) == ((), ())
    (line,) = messages(tmp_path, QUARANTINE)
    (of_stream,) = Lake.open(str(tmp_path)).stream(TAP, "s").snapshot().schemas
    assert json.loads(line)["record"]["_quarantine_schema"] == of_stream


def test_a_schema_that_changes_changes_there_too(tmp_path: Path) -> None:
    wider = SCHEMA.replace(b'"id":{"type":"integer"}', b'"id":{"type":"integer"},"m":{"type":"null"}')
    quarantine(tmp_path, SCHEMA, WRONG, wider, WRONG, SCHEMA, WRONG)
    state = Lake.open(str(tmp_path)).stream(TAP, QUARANTINE).snapshot()
    assert [("m" in version.schema["properties"]) for version in state.schemas.values()] == [False, True]
    assert [file.version for file in state.files] == [*state.schemas, next(iter(state.schemas))]


def test_a_key_that_a_map_drops_is_missing_there_too(tmp_path: Path) -> None:
    quarantine(tmp_path, SCHEMA, GOOD[0], KEYLESS, add_record_metadata=True)
    assert reasons(tmp_path) == [("id", "key_properties")]


@pytest.mark.parametrize("more", [{}, {"max_file_records": 1}, {"atomic_run": True, "manifest_store": "log"}])
def test_nothing_is_lost_or_there_twice(tmp_path: Path, more: dict[str, Any]) -> None:
    lines = [
        line for number in range(20) for line in (b'{"type":"RECORD","stream":"s","record":{"id":%d}}' % number, WRONG)
    ]
    quarantine(tmp_path, SCHEMA, *lines, STATE, **more)
    assert len(messages(tmp_path, "s")) == len(messages(tmp_path, QUARANTINE)) == 20
    assert Lake.open(str(tmp_path)).verify().findings == ()


def test_a_person_is_found_there(tmp_path: Path) -> None:
    schema = SCHEMA.replace(b'"n":{"type":"number"}', b'"mail":{"type":"string"}')
    quarantine(tmp_path, schema, b'{"type":"RECORD","stream":"s","record":{"id":null,"mail":"kim@example.com"}}')
    found = Lake.open(str(tmp_path)).erase("mail = 'kim@example.com'", dry_run=True)
    assert [(each.stream, each.records) for each in found.streams if each.records] == [(QUARANTINE, 1)]


@pytest.mark.parametrize(
    ("line", "error"),
    [(b"{", InvalidMessageError), (b'{"type":"RECORD","stream":"s","record":3}', InvalidMessageError)],
)
def test_what_is_no_record_ends_the_run_as_ever(tmp_path: Path, line: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        quarantine(tmp_path, SCHEMA, GOOD[0], line)


def test_so_does_a_schema_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidSchemaError):
        quarantine(tmp_path, SCHEMA.replace(b'"integer"', b'"whole"'), GOOD[0])


def test_without_it_the_run_ends_there(tmp_path: Path) -> None:
    with pytest.raises(RecordAgainstSchemaError):
        ingest(tmp_path, [SCHEMA, GOOD[0], WRONG], validate_records=True)
    assert messages(tmp_path, "s") == GOOD[:1]
