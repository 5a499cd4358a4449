"""Input that no Singer reader can accept ends the run with one clear line; what came before it is in the lake, and
its STATE is out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from singer_sdk.exceptions import (
    InvalidInputLine,
    MissingKeyPropertiesError,
    RecordsWithoutSchemaException,
)

from singerlake.errors import (
    InvalidSchemaError,
    SettingError,
    SingerlakeError,
    TruncatedInputError,
)
from target_singerlake.errors import RecordAgainstSchemaError
from target_singerlake.settings import EXTRACTOR_NAME
from tests.target.support import ingest, kept, kept_ids, record, records, run, schema, state, text

ROADS: list[dict[str, Any]] = [{}, {"stream_maps": {"users": {"extra": "'1'"}}}]
"""The raw road, and the rewriting one."""


def deep(levels: int) -> dict[str, Any]:
    """A schema of so many levels."""
    inner: dict[str, Any] = {}
    for _ in range(levels - 3):
        inner = {"items": inner}
    return {"type": "object", "properties": {"id": inner}}


BAD_LINES = [
    (b"not json", InvalidInputLine, "not JSON"),
    (b"[]", InvalidInputLine, "not an object"),
    (b'{"stream": "users", "record": {"id": 1}}', InvalidInputLine, "no type"),
    (b'{"type": "UPSERT", "stream": "users"}', InvalidInputLine, "unknown type 'UPSERT'"),
    (record(1, "orders"), RecordsWithoutSchemaException, "before its stream's SCHEMA"),
    (b'{"type": "RECORD", "stream": "users"}', InvalidInputLine, "no object as its record"),
    (b'{"type": "RECORD", "stream": "users", "record": {"name": "x"}}', MissingKeyPropertiesError, "key property"),
    (b'{"type": "SCHEMA", "stream": "users", "key_properties": []}', InvalidSchemaError, "no object as its schema"),
    (b'{"type": "SCHEMA", "stream": "users", "schema": true}', InvalidSchemaError, "no object as its schema"),
    (schema(schema={"type": "object"}), InvalidSchemaError, "no properties"),
    (schema(schema={"properties": []}), InvalidSchemaError, "no properties"),
    (schema(schema=deep(401)), InvalidSchemaError, "nested more than 400 levels"),
    (schema(keys=(7,)), InvalidSchemaError, "not a list of names"),  # type: ignore[arg-type]
    (schema(""), InvalidInputLine, "names no stream"),
    (b'{"type": "STATE"}', InvalidInputLine, "no value"),
    (record(1) + record(2), InvalidInputLine, "not JSON"),
    (b'{"type": "RECORD", "stream": "users",\n"record": {"id": 9}}', InvalidInputLine, "not JSON"),
    (b'{"type": "RECORD", "stream": "users", "record": {"id": "\xff"}}', InvalidInputLine, "not UTF-8"),
]


@pytest.mark.crossed("bad", "road")
@pytest.mark.parametrize("road", ROADS, ids=["raw", "rewriting"])
@pytest.mark.parametrize(("bad", "kind", "says"), BAD_LINES)
def test_a_bad_line_is_named_after_what_came_before_it_is_committed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], bad: bytes, kind: type, says: str, road: dict[str, Any]
) -> None:
    lines = [schema(), *records(1, 2), state({"at": 2}), bad, *records(3), state({"at": 3})]
    out: list[str] = []
    with pytest.raises(kind, match=says) as raised:
        out += ingest(tmp_path, lines, **road)
    assert isinstance(raised.value, SingerlakeError)
    assert kept_ids(tmp_path) == [1, 2]
    assert raised.value.context["line"] == 5


def test_the_process_says_one_line_and_ends_with_1(tmp_path: Path) -> None:
    lines = [schema(), *records(1, 2), state({"at": 2}), b"oops", state({"at": 3})]
    done = run(tmp_path / "lake", tmp_path, lines)
    assert (done.code, done.states) == (1, ['{"at": 2}'])
    assert done.errors == [
        "a line is not JSON (expecting value); look at what the tap writes (line=5, length=5, begins='oops\\n')"
    ]
    assert "Traceback" not in done.log
    assert kept_ids(tmp_path / "lake") == [1, 2]


@pytest.mark.parametrize("road", ROADS, ids=["raw", "rewriting"])
def test_a_cut_last_line_commits_the_whole_ones_and_ends_with_1(tmp_path: Path, road: dict[str, Any]) -> None:
    data = text([schema(), *records(1, 2), state({"at": 2}), record(3)]) + record(4)[:-5]
    done = run(tmp_path / "lake", tmp_path, data, **road)
    assert (done.code, done.states) == (1, ['{"at": 2}'])
    assert len(done.errors) == 1
    assert "ended in the middle of a line" in done.errors[0]
    assert kept_ids(tmp_path / "lake") == [1, 2, 3]
    with pytest.raises(TruncatedInputError):
        ingest(tmp_path / "lake", data, **road)


@pytest.mark.parametrize("value", ["{}", "null", "{ }"])
def test_a_state_that_would_erase_bookmarks_is_not_passed_on(tmp_path: Path, value: str) -> None:
    nothing = b'{"type": "STATE", "value": ' + value.encode() + b"}"
    assert ingest(tmp_path, [schema(), *records(1), state({"at": 1}), nothing]) == ['{"at": 1}']


def test_the_bytes_of_a_state_are_passed_on(tmp_path: Path) -> None:
    value = '{"b":1.10, "a" : [1e3,"\\u00e9é"],"a":2}'
    odd = b'{"value": {"n": NaN, "d": 1.10}, "type": "STATE"}'
    assert ingest(tmp_path, [b'{"type": "STATE", "value": %s}' % value.encode(), odd]) == [value, '{"n":NaN,"d":1.10}']


def test_a_stream_name_that_is_too_long_is_named_and_what_came_before_is_kept(tmp_path: Path) -> None:
    long = [schema("x" * 300), *records(2, stream="x" * 300), state({"at": 2})]
    done = run(tmp_path / "lake", tmp_path, [schema(), *records(1), state({"at": 1}), *long])
    assert (done.code, done.states) == (1, ['{"at": 1}'])
    assert "stream name takes 300 bytes" in done.errors[0]
    assert kept_ids(tmp_path / "lake") == [1]


def test_a_missing_tap_id_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EXTRACTOR_NAME, raising=False)
    for missing in (None, ""):
        with pytest.raises(SettingError, match="set tap_id"):
            ingest(tmp_path, [schema(), *records(1)], tap_id=missing)
    done = run(tmp_path / "lake", tmp_path, [schema()], tap_id=None)
    assert done.code == 1
    assert "tap_id is not set" in done.errors[0]


def test_the_tap_id_is_the_extractor_that_meltano_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTRACTOR_NAME, "tap-meltano")
    ingest(tmp_path, [schema(), *records(1)], tap_id=None)
    assert (tmp_path / "raw" / "tap-meltano" / "users").is_dir()


def test_a_tap_id_in_the_environment_that_nothing_reads_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As Meltano starts the target where meltano.yml does not name the setting."""
    monkeypatch.setenv(EXTRACTOR_NAME, "tap-meltano")
    monkeypatch.setenv("TARGET_SINGERLAKE_TAP_ID", "other")
    with pytest.raises(SettingError, match=r"\$TARGET_SINGERLAKE_TAP_ID is set and not read; name the setting in"):
        ingest(tmp_path, [schema(), *records(1)], tap_id=None)
    assert not (tmp_path / "raw").exists()
    ingest(tmp_path, [schema(), *records(1)])
    assert kept_ids(tmp_path) == [1]
    monkeypatch.setenv("TARGET_SINGERLAKE_TAP_ID", "")
    monkeypatch.setenv("TARGET_SINGERLAKE_POSTGRES_URL", "hunter2")
    monkeypatch.setenv("TARGET_SINGERLAKE_MAX_FILE_BYTES", "1000")
    monkeypatch.setenv("TARGET_SINGERLAKE_VALIDATE_RECORDS", "false")
    caplog.clear()
    ingest(tmp_path, [schema(), *records(2)], tap_id=None)
    (told,) = [text for text in caplog.messages if "not read" in text]
    assert told.startswith("$TARGET_SINGERLAKE_MAX_FILE_BYTES, $TARGET_SINGERLAKE_POSTGRES_URL is set and not read")
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("road", ROADS, ids=["raw", "rewriting"])
def test_validate_records_stops_at_a_record_its_schema_forbids_and_shows_no_value(
    tmp_path: Path, road: dict[str, Any]
) -> None:
    bad = b'{"type": "RECORD", "stream": "users", "record": {"id": "hunter2", "name": "x"}}'
    with pytest.raises(RecordAgainstSchemaError) as raised:
        ingest(tmp_path, [schema(), *records(1, 2), bad], validate_records=True, **road)
    assert "hunter2" not in str(raised.value)
    assert raised.value.context == {"line": 4, "stream": "users", "property": "id", "rule": "type"}
    assert kept_ids(tmp_path) == [1, 2]


def test_validate_records_keeps_the_line_as_it_came(tmp_path: Path) -> None:
    odd = b'{"type":"RECORD","stream":"users","record":{"id":1,   "name":"\\u00e9"},"n":1.10}'
    ingest(tmp_path, [schema(), odd], validate_records=True)
    assert kept(tmp_path) == [odd]


def test_without_validate_records_anything_is_kept(tmp_path: Path) -> None:
    ingest(tmp_path, [schema(), b'{"type": "RECORD", "stream": "users", "record": {"id": "text"}}'])
    assert kept_ids(tmp_path) == ["text"]
