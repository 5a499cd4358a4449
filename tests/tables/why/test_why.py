"""Where a row comes from, why one is not there, and what cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from singerlake.conditions import condition_of, named_condition_of
from singerlake.errors import BrokenFileError, MissingFileError, SettingError, UnknownNameError
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Action, Check, Deletions, Keep, NullKeys, TableDeclaration
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.why import line
from singerlake.tables.why import rows as rows_of_files
from singerlake.tables.why.why import Typed
from tests.attached.lakes import attach, sha256
from tests.lakes import activate_version_line, build_stream, record_line
from tests.storage.memory import MemoryStorage
from tests.tables.tables import memory_lake, runner_of

TAP, STREAM = "t", "people"
SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": ["null", "integer"]},
        "email": {"type": ["null", "string"]},
        "n": {"type": ["null", "integer"]},
        "op": {"type": ["null", "string"]},
    },
}


def capture(lake: Lake, *records: Any, schema: Any = None, **more: Any) -> None:
    build_stream(lake, TAP, STREAM, schema or SCHEMA, records, key_properties=["id"], **more)


def run(lake: Lake, keep: Keep = Keep.LATEST, **more: Any) -> None:
    runner_of(lake).run(TableDeclaration(name="people", tap=TAP, stream=STREAM, keep=keep, **more))


@pytest.fixture
def lake() -> Lake:
    return memory_lake()


def why(lake: Lake, *given: Any, **more: Any) -> Any:
    return lake.table("people").why(*given, **more)


def test_earlier_values_are_newest_first(lake: Lake) -> None:
    for n in range(4):
        capture(lake, {"id": 1, "n": n}, {"id": 2, "n": -n}, file_size=1)
    capture(lake, {"id": 1, "n": "x"})
    run(lake)
    found = why(lake, {"id": 1}, column="n", earlier=3)
    assert found.offset == 8
    assert [(each.offset, each.value) for each in found.earlier] == [(6, 3), (4, 2), (2, 1)]
    assert [(cell.value, cell.captured, cell.made) for cell in found.cells] == [
        (None, '"x"', ("what does not fit its type stands in _rescued_data",))
    ]
    assert [each.offset for each in why(lake, {"id": 2}, column="n", earlier=9).earlier] == [5, 3, 1]


def test_a_table_with_an_order_has_values_captured_since_among_them(lake: Lake) -> None:
    capture(lake, *({"id": 1, "n": n} for n in (1, 7, 3)))
    run(lake, order_by=("n",))
    found = why(lake, {"id": 1}, column="n", earlier=9)
    assert [(each.offset, each.value) for each in found.earlier] == [(2, 3), (0, 1)]


def test_a_deletion_is_an_earlier_value(lake: Lake) -> None:
    capture(lake, {"id": 1, "n": 1}, {"id": 1, "op": "D"}, {"id": 1, "n": 2})
    run(lake, deleted_when=named_condition_of("op = 'D'"))
    found = why(lake, {"id": 1}, column="n", earlier=9)
    assert [(each.offset, each.deletes) for each in found.earlier] == [(1, True), (0, False)]


def test_rows_of_append_have_earlier_values_by_the_key_of_the_stream(lake: Lake) -> None:
    capture(lake, {"id": 1, "n": 1}, {"id": 2, "n": 1}, {"id": 1, "n": 2})
    run(lake, Keep.APPEND)
    assert [each.value for each in why(lake, offset=2, column="n", earlier=9).earlier] == [1]
    with pytest.raises(SettingError, match="several rows") as raised:
        why(lake, {"id": 1})
    assert "0, 2" in raised.value.hint
    assert why(lake, {"id": 1, "n": 2}).offset == 2


def test_of_a_history_the_newest_version_is_meant(lake: Lake) -> None:
    capture(lake, *({"id": 1, "n": n} for n in (1, 2, 2, 3)))
    run(lake, Keep.HISTORY)
    assert why(lake, {"id": 1}).offset == 3
    assert why(lake, offset=1).offset == 1
    absence = why(lake, offset=2).absence
    assert (absence.reason, absence.by) == ("replaced", 3)


def test_a_row_that_is_deleted_and_stays_is_of_the_record_that_deletes_it(lake: Lake) -> None:
    deleted = {**SCHEMA["properties"], "_sdc_deleted_at": {"type": "string"}}  # type: ignore[dict-item]
    schema = {"type": "object", "properties": deleted}
    capture(lake, {"id": 1}, {"id": 1, "_sdc_deleted_at": "2026-01-01"}, schema=schema)
    run(lake, deletions=Deletions.SOFT)
    found = why(lake, {"id": 1})
    assert (found.offset, found.trouble) == (1, None)


ABSENT: Mapping[str, tuple[Callable[[Lake], None], Any, Any, str, str]] = {
    "never": (lambda lake: capture(lake, {"id": 1}), {"id": 7}, None, "never", "no record of the stream has"),
    "beyond": (lambda lake: capture(lake, {"id": 1}), None, 7, "never", "the stream ends at offset 1"),
    "replaced": (lambda lake: capture(lake, {"id": 1}, {"id": 1}), None, 0, "replaced", "made of offset 1"),
    "changed": (
        lambda lake: capture(lake, {"id": 1, "n": 5}, {"id": 1, "n": 6}),
        {"n": 5},
        None,
        "replaced",
        "made of offset 1",
    ),
    "deleted": (lambda lake: capture(lake, {"id": 1}, {"id": 1, "op": "D"}), {"id": 1}, None, "deleted", "offset 1"),
    "before": (lambda lake: capture(lake, {"id": 1}, {"id": 1, "op": "D"}), None, 0, "unknown", "sent its row away"),
    "checked": (lambda lake: capture(lake, {"id": 1, "n": -1}), {"id": 1}, None, "check", "offset 0: n >= 0"),
    "null": (lambda lake: capture(lake, {"id": None, "n": 3}), {"n": 3}, None, "null_key", "offset 0 has a null"),
    "other version": (
        lambda lake: capture(
            lake, record_line(STREAM, {"id": 1}, version=1), activate_version_line(STREAM, 2), {"id": 2}
        ),
        {"id": 1},
        None,
        "activated",
        "offset 1 activated version 2",
    ),
    "no record": (
        lambda lake: capture(lake, activate_version_line(STREAM, 2), {"id": 2}),
        None,
        0,
        "no_record",
        "ACTIVATE_VERSION",
    ),
}


@pytest.mark.parametrize("case", ABSENT)
def test_why_a_row_is_not_there(lake: Lake, case: str) -> None:
    make, key, offset, reason, message = ABSENT[case]
    make(lake)
    run(
        lake,
        deleted_when=named_condition_of("op = 'D'"),
        checks=(Check("n", ">= 0", condition_of(">= 0"), Action.DROP),),
        null_keys=NullKeys.DROP,
    )
    found = why(lake, key, offset=offset, missing=True)
    assert (found.record, found.cells, found.offset) == (None, (), None)
    assert found.absence.reason == reason
    assert message in found.absence.message


def test_a_row_that_the_table_will_have(lake: Lake) -> None:
    capture(lake, {"id": 1})
    run(lake)
    capture(lake, {"id": 2})
    for found in (why(lake, {"id": 2}, missing=True), why(lake, offset=1)):
        assert (found.absence.reason, found.absence.offset) == ("behind", 1)
        assert "the table ends at offset 1" in found.absence.message


def test_only_missing_reads_the_log(lake: Lake) -> None:
    capture(lake, {"id": 1})
    run(lake)
    with pytest.raises(UnknownNameError, match="no row") as raised:
        why(lake, {"id": 2})
    assert "--missing" in raised.value.hint
    assert why(lake, {"id": 1}, missing=True).record is not None


def test_what_was_erased_is_told_by_whom_and_when_and_not_what(lake: Lake) -> None:
    capture(lake, {"id": 1, "email": "secret@x"}, {"id": 2, "email": "other@x"})
    run(lake)
    lake.stream(TAP, STREAM).erase("id = 1")
    held = why(lake, {"id": 1})
    assert held.record.offset == 0
    assert "the record was erased by " in held.trouble
    assert "2026-01-01" in held.trouble
    assert [cell.value for cell in held.cells if cell.column == "email"] == ["secret@x"]
    assert why(lake, {"id": 2}).trouble is None
    run(lake)
    for found in (why(lake, {"id": 1}, missing=True), why(lake, offset=0)):
        assert found.absence.reason == "erased"
        assert " by " in found.absence.message
        assert "secret" not in found.absence.message


def test_what_has_expired(lake: Lake) -> None:
    capture(lake, record_line(STREAM, {"id": 1}, time_extracted="2020-01-01T00:00:00Z"))
    capture(lake, {"id": 2}, {"id": 3})
    run(lake)
    lake.stream(TAP, STREAM).expire(older_than="365d")
    assert lake.stream(TAP, STREAM).snapshot().floor == 1
    found = why(lake, {"id": 1}, column="id")
    assert (found.record, found.cells[0].value) == (None, 1)
    assert "the stream begins at offset 1" in found.trouble
    assert why(lake, {"id": 9}, missing=True).absence.reason == "expired"


def test_a_stream_that_was_rebuilt_or_dropped_tells_nothing_of_offsets(lake: Lake) -> None:
    capture(lake, {"id": 1, "n": 5})
    run(lake)
    lineage = lake.stream(TAP, STREAM).snapshot().lineage
    lake.storage.delete(f"raw/{TAP}/{STREAM}/manifest.json")
    lake.rebuild(TAP, STREAM)
    found = why(lake, {"id": 1}, column="n", earlier=3)
    assert (found.offset, found.record, found.earlier) == (0, None, None)
    assert found.cells[0].value == 5
    assert lineage in found.trouble
    assert "project run" in found.trouble
    assert why(lake, {"id": 2}, missing=True).absence.reason == "unknown"
    assert why(lake, offset=8).absence.reason == "unknown"
    lake.drop(TAP, STREAM)
    assert "dropped" in why(lake, offset=0).trouble


def test_a_record_that_does_not_give_the_row_is_not_passed_off_as_its_own(lake: Lake) -> None:
    capture(lake, {"id": 1, "n": 5})
    run(lake)
    other = memory_lake()
    capture(other, {"id": 1, "n": 6})
    for entry in list(lake.storage.list("raw/")):
        lake.storage.delete(entry.key)
    for entry in other.storage.list("raw/"):
        stored = other.storage.get(entry.key)
        assert stored is not None
        lake.storage.put(entry.key, stored.body.replace(_lineage(other), _lineage_of_table(lake)))
    found = why(lake, {"id": 1}, column="n")
    assert "does not give this row, as in column 'n'" in found.trouble


def _lineage(lake: Lake) -> bytes:
    return (lake.stream(TAP, STREAM).snapshot().lineage or "").encode()


def _lineage_of_table(lake: Lake) -> bytes:
    return lake.table("people").state.sources[0].lineage.encode()


def test_attached_files_and_the_run_are_told(lake: Lake) -> None:
    manifest = attach(lake, TAP, STREAM, [[b"one"], [b"two", None], []])
    run(lake, key=("id",))
    found = why(lake, {"id": 1}).record
    assert [(each.property, each.sha256) for each in found.attached] == [("photo", sha256(b"two")), ("photo", None)]
    assert (found.version, found.schema) == ("v1", manifest.files[0].version)
    assert found.sha256 == manifest.files[0].sha256
    # Of a run that the state does not know any more, the file's header has the id alone.
    assert (found.run, found.writer, found.outcome) == ("a-test-run", None, None)


VALUES: Mapping[str, tuple[Any, Any, list[Any]]] = {
    "boolean": ({"type": "boolean"}, True, [True, Typed("true")]),
    "number": ({"type": "number"}, 1.5, [1.5, Decimal("1.5"), Typed("1.5")]),
    "zero": ({"type": "number"}, -0.0, [0.0, -0.0, 0, Typed("0")]),
    "decimal": ({"type": "number", "multipleOf": 0.01}, 1.25, [1.25, Decimal("1.25"), Typed("1.250")]),
    "text": ({"type": "string"}, "42", ["42", Typed("42")]),
    "quoted": ({"type": "string"}, 'it\'s = "é"\n', ['it\'s = "é"\n', Typed('it\'s = "é"\n')]),
    "date": ({"type": "string", "format": "date"}, "2026-01-02", [date(2026, 1, 2), "2026-01-02"]),
    "time": (
        {"type": "string", "format": "date-time"},
        "2026-01-02T03:04:05Z",
        [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), Typed("2026-01-02T04:04:05+01:00")],
    ),
    "json text": ({"type": ["string", "integer"]}, "é", ["é", Typed("é")]),
    "json number": ({"type": ["string", "integer"]}, 5, [5, Typed("5")]),
}


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("kind", VALUES)
def test_a_key_of_any_type(lake: Lake, kind: str, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    declared, value, asked = VALUES[kind]
    if not small:
        monkeypatch.setattr(rows_of_files, "_WHOLE", 0)
    schema = {"type": "object", "properties": {"k.é": declared, "k": {"type": "integer"}}}
    build_stream(lake, TAP, STREAM, schema, [{"k.é": value, "k": 1}], key_properties=["k.é"])
    run(lake)
    for each in asked:
        found = why(lake, {"k.é": each}, column="k.é")
        assert (found.offset, found.cells[0].pointer) == (0, "/record/k.é")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, SettingError, "one of key and offset"),
        ({"key": {"id": 1}, "offset": 0}, SettingError, "one of key and offset"),
        ({"key": {"nobody": 1}}, UnknownNameError, "no column 'nobody'"),
        ({"key": {"id": 1}, "column": "nobody"}, UnknownNameError, "no column 'nobody'"),
        ({"key": {"id": "x"}}, SettingError, "column of type integer is compared"),
        ({"key": {"id": 1}, "earlier": 1}, SettingError, "those of a column"),
        ({"key": {"id": 1}, "earlier": 1, "column": "_singerlake_offset"}, SettingError, "not a property"),
        ({"key": {"_singer_version": 9}, "missing": True}, SettingError, "no record has"),
        ({"key": {"id": 1.5}}, UnknownNameError, "no row"),
    ],
)
def test_arguments_that_mean_nothing(lake: Lake, given: Any, error: Any, message: str) -> None:
    capture(lake, {"id": 1})
    run(lake)
    with pytest.raises(error, match=message):
        why(lake, **given)


def test_a_table_without_any_key_has_no_earlier_values(lake: Lake) -> None:
    build_stream(lake, TAP, STREAM, SCHEMA, [{"id": 1}])
    run(lake, Keep.APPEND)
    with pytest.raises(SettingError, match="has a key"):
        why(lake, {"id": 1}, column="id", earlier=1)


@pytest.mark.parametrize(("given", "most"), [({"key": {"id": 500}}, 5), ({"offset": 500}, 6)])
def test_a_row_of_large_files_takes_few_requests(
    lake: Lake, given: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture(lake, *({"id": n, "email": f"{n}@example.com", "n": n} for n in range(1000)))
    run(lake)
    monkeypatch.setattr(rows_of_files, "_WHOLE", 0)
    monkeypatch.setattr(line, "WHOLE", 0)
    table, asked, read = lake.table("people"), [], MemoryStorage.read_range

    def counted(storage: MemoryStorage, key: str, start: int, size: int) -> bytes:
        asked.append(key)
        return read(storage, key, start, size)

    monkeypatch.setattr(MemoryStorage, "read_range", counted)
    assert table.why(column="email", **given).offset == 500
    # Of each file its directory and what is wanted, of parquet also the key before the rest.
    assert len(asked) <= most


def test_files_that_are_gone_or_changed(lake: Lake) -> None:
    capture(lake, {"id": 1})
    run(lake)
    state = lake.table("people").state
    of_table = table_prefix("people") + str(state.files[0].path)
    of_stream = f"raw/{TAP}/{STREAM}/" + lake.stream(TAP, STREAM).snapshot().files[0].path
    assert isinstance(lake.storage, MemoryStorage)
    for key in (of_table, of_stream):
        stored = lake.storage.get(key)
        assert stored is not None
        for body in (stored.body[:-1] + b"!", stored.body + b"!", stored.body[:-1]):
            lake.storage.put(key, body)
            if body != stored.body + b"!" or key == of_stream:
                with pytest.raises(BrokenFileError):
                    why(lake, {"id": 1})
        lake.storage.delete(key)
        with pytest.raises(MissingFileError):
            why(lake, {"id": 1})
        lake.storage.put(key, stored.body)
    assert why(lake, {"id": 1}).trouble is None
