"""Streams as nobody wants them: wide, deep, empty, damaged, with keys that are null or change their type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import polars
import pyarrow as pa
import pytest

from singerlake.conditions import named_condition_of
from singerlake.errors import (
    BrokenFileError,
    CheckFailedError,
    CorruptObjectError,
    MissingFileError,
    SettingError,
    SingerlakeError,
    UnknownNameError,
)
from singerlake.lake import Lake
from singerlake.tables.declaration.model import ColumnRule, Keep, TableDeclaration
from singerlake.tables.maintain.verify import verify_rows
from singerlake.tables.read import LakeTable
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import state_key, table_prefix
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.drop import drop_stream
from tests.lakes import activate_version_line, build_stream, record_line
from tests.storage.memory import MemoryStorage
from tests.tables.cases import Batch
from tests.tables.recompute import Declared, expected
from tests.tables.tables import (
    STREAM,
    TABLE,
    TAP,
    capture,
    declaration_of,
    memory_lake,
    messages_of,
    rows_of,
    run_and_check,
    runner_of,
    small_sizes,
)

LATEST = Declared("latest")
SIZES = {"rows": 3, "chunk": 2, "split": 600, "file": 4, "member": 2}
KEEPS = [Declared("append"), LATEST, Declared("history")]
keeps = pytest.mark.parametrize("declared", KEEPS, ids=lambda declared: declared.keep)


def batch(properties: dict[str, Any], *records: dict[str, Any], key: tuple[str, ...] = ("id",), **more: Any) -> Batch:
    schema = {"properties": {"id": {"type": "integer"}, **properties}, **more}
    return Batch(schema, key, tuple({"type": "RECORD", "stream": STREAM, "record": record} for record in records))


def check(declared: Declared, *batches: Batch) -> Lake:
    """Capture and run each; the table is what the recomputation says each time."""
    lake = memory_lake()
    with small_sizes(SIZES):
        for number, each in enumerate(batches):
            capture(lake, each, SIZES)
            wanted = expected(messages_of(batches[: number + 1]), declared)
            run_and_check(runner_of(lake), declaration_of(declared), wanted, f"after capture {number}")
    return lake


@pytest.mark.sampled(declared=1)
@keeps
def test_a_thousand_columns(declared: Declared) -> None:
    many = {f"c{number}": {"type": ["null", "integer", "string"][: 2 + number % 2]} for number in range(1000)}
    first = batch(many, *({"id": row, **{f"c{n}": n + row for n in range(0, 1000, 3)}} for row in range(3)))
    second = batch({**many, "c1000": {}}, {"id": 1, "c999": 7, "c1000": [1]})
    check(declared, first, second)


@keeps
def test_names_in_all_scripts_and_such_that_differ_in_case_alone(declared: Declared) -> None:
    names = [
        "größe",
        "GRÖSSE",
        "Größe",
        "値",
        "имя",
        "اسم",
        "नाम",
        "a b",
        "a.b",
        'q"',
        "'",
        "%",
        "/",
        "\n",
        "😀",
        "ß",
        "SS",
    ]
    names += ["x", "X", "x_2", "X_2", "_", "__deleted", "__v", " ", "İ", "i̇"]
    properties = {name: {"type": ["null", "string"]} for name in names}
    records = [{"id": row, **{name: f"{name}{row}" for name in names}} for row in range(3)]
    check(declared, batch(properties, *records), batch({**properties, "ID": {"type": "integer"}}, {"id": 1, "ID": 2}))


@keeps
def test_twenty_levels(declared: Declared) -> None:
    def nested(inner: Any, levels: int) -> Any:
        for level in range(levels):
            inner = {"type": ["null", "object"], "properties": {f"l{level}": inner, "n": {"type": "integer"}}}
        return inner

    def value(inner: Any, levels: int) -> Any:
        for level in range(levels):
            inner = {f"l{level}": inner, "n": level}
        return inner

    leaf = {"type": "integer"}
    deeper = {"type": ["null", "object"], "properties": {"l": leaf, "n": leaf}}
    check(
        declared,
        batch({"deep": nested(leaf, 20)}, {"id": 1, "deep": value(1, 20)}, {"id": 2, "deep": value(None, 20)}),
        batch({"deep": nested(leaf, 20)}, {"id": 3}, {"id": 1, "deep": value("x", 20)}),
        batch({"deep": nested(deeper, 20)}, {"id": 2, "deep": value({"l": 1}, 20)}, {"id": 3, "deep": value(1, 20)}),
    )


@keeps
def test_nested_fields_that_are_added_below_arrays(declared: Declared) -> None:
    def items(**fields: Any) -> Any:
        return {"type": ["null", "array"], "items": {"type": ["null", "object"], "properties": fields}}

    number = {"type": ["null", "integer"]}
    check(
        declared,
        batch({"of": items(a=number)}, {"id": 1, "of": [{"a": 1}, None, {}]}, {"id": 2, "of": []}, {"id": 3}),
        batch({"of": items(a=number, b=items(c=number))}, {"id": 2, "of": [{"a": 2, "b": [{"c": 3}]}]}),
        batch({"of": items(a=number, b=items(c=number, d=number))}, {"id": 4, "of": [{"b": [None, {"d": 3}]}]}),
    )


def test_a_key_of_integers_beyond_64_bits() -> None:
    bound, plain = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, {"type": "integer"}
    large = {"id": 2**64 - 1}
    lake = check(
        LATEST, batch({"id": bound, "n": bound}, large, {"id": 0, "n": 2**63}), batch({"id": plain}, {"id": 0})
    )
    assert lake.table(TABLE).schema.field("id").type == pa.decimal128(20, 0)
    # What no schema tells, a cast does, and the error says so.
    lake = memory_lake()
    capture(lake, batch({"id": plain}, large), SIZES)
    with pytest.raises(CheckFailedError, match=r"cast it under 'columns', as a large integer to decimal\(38,0\)"):
        runner_of(lake).run(declaration_of(LATEST))
    casting = replace(declaration_of(LATEST), columns={"id": ColumnRule(cast="decimal(38,0)")})
    runner_of(lake).run(casting)
    assert lake.table(TABLE).to_arrow().read_all()["id"].to_pylist() == [Decimal(2**64 - 1)]
    # Where a table has 64 bits and a later version declares more, it is made anew.
    lake = check(LATEST, batch({}, {"id": 1}), batch({"id": bound}, large))
    assert lake.table(TABLE).state.generation == 2


def test_a_stream_without_messages_makes_a_table_without_rows_or_an_error_that_names_it() -> None:
    lake = memory_lake()
    build_stream(lake, TAP, STREAM, {"properties": {"id": {"type": "integer"}}}, [], key_properties=("id",))
    writer = lake.stream(TAP, STREAM).writer(writer_id="a-test")
    writer.open()
    with pytest.raises(SettingError, match="has no key"):
        runner_of(lake).run(declaration_of(LATEST))
    assert load(lake.storage, TABLE) is None


@pytest.mark.parametrize("full_refresh", [False, True])
def test_a_table_of_a_stream_that_was_dropped_stays_as_it_is(full_refresh: bool) -> None:
    lake = memory_lake()
    build_stream(lake, TAP, STREAM, {}, [{"id": 1, "x": "y"}])
    runner_of(lake).run(declaration_of(Declared("append")))
    before = load(lake.storage, TABLE)
    context = StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, lake.stream(TAP, STREAM).store())
    drop_stream(context, dry_run=False)
    with pytest.raises(UnknownNameError, match="was dropped and has no version, so that the table stays as it is"):
        runner_of(lake).run(declaration_of(Declared("append")), full_refresh=full_refresh)
    assert load(lake.storage, TABLE) == before


@keeps
def test_a_stream_whose_schema_has_no_types(declared: Declared) -> None:
    records = [{"id": 1, "x": {"a": [1, 2.0]}}, {"id": 2, "x": None}, {"id": 1, "x": "text"}]
    check(declared, batch({"x": {}}, *records), batch({"x": {}, "y": {"format": "date"}}, {"id": 1, "y": "2024-01-02"}))


def test_a_stream_whose_schema_names_no_properties_keeps_its_records() -> None:
    lake = memory_lake()
    build_stream(lake, TAP, STREAM, {}, [{"id": 1, "x": "y"}])
    runner_of(lake).run(declaration_of(Declared("append")))
    (row,) = rows_of(LakeTable.load(lake.storage, TABLE))
    assert row == {"_singerlake_offset": 0, "_singer_version": None, "_rescued_data": {"id": 1, "x": "y"}}


@pytest.mark.parametrize("keep", ["latest", "history"])
def test_null_keys_refuse_a_run_or_are_left_out(keep: str) -> None:
    records = [{"id": 1}, {"id": None}, {}, {"id": "x"}]
    check(Declared(keep, null_keys="drop"), batch({}, *records), batch({}, {"id": None}, {"id": 1}))
    lake = memory_lake()
    capture(lake, batch({}, *records), SIZES)
    with pytest.raises(CheckFailedError, match=r"key not_null: 3 rows, as at offset 1, 2, 3"):
        runner_of(lake).run(declaration_of(Declared(keep)))
    found = load(lake.storage, TABLE)
    assert found is not None
    assert not found.state.is_published
    assert [entry.key for entry in lake.storage.list(table_prefix(TABLE))] == [state_key(TABLE)]


@pytest.mark.parametrize("keep", ["latest", "history"])
@pytest.mark.parametrize(
    ("kinds", "values"),
    [
        (["integer", "number"], [1, 1.5, 1.0]),
        (["integer", "string"], [1, "1", 2]),
        (["boolean", "integer"], [True, 1, 0]),
    ],
)
def test_keys_of_other_types_after_a_schema_change(keep: str, kinds: list[str], values: list[Any]) -> None:
    records = [{"id": value, "x": str(place)} for place, value in enumerate([*values, *values])]
    text = {"x": {"type": "string"}}
    batches = [batch({**text, "id": {"type": kind}}, *records) for kind in kinds]
    check(Declared(keep, null_keys="drop"), *batches, batches[0])


@pytest.mark.parametrize("keep", ["latest", "history"])
def test_a_key_that_the_stream_changes_makes_the_table_anew(keep: str) -> None:
    text = {"x": {"type": "string"}}
    records = [{"id": row % 2, "x": f"{row}"} for row in range(5)]
    first, second = batch(text, *records), batch({**text, "y": {}}, *records, key=("x",))
    check(Declared(keep), first, second, batch({**text, "y": {}}, {"id": 9, "x": "0"}, key=("x",)))


@keeps
def test_decimals_of_38_digits(declared: Declared) -> None:
    exact = {"type": "string", "format": "singer.decimal", "precision": 38, "scale": 19}
    digits = ["9" * 19 + "." + "9" * 19, "-" + "9" * 19 + "." + "9" * 18 + "8", "0." + "0" * 18 + "1", "1" + "0" * 19]
    records = [{"id": place, "exact": text} for place, text in enumerate(digits)]
    lake = check(declared, batch({"exact": exact}, *records), batch({"exact": exact}, {"id": 0, "exact": digits[2]}))
    rows = rows_of(LakeTable.load(lake.storage, TABLE))
    assert Decimal(digits[1]) in [row["exact"] for row in rows]
    keyed = Declared("latest", key=("exact",), null_keys="drop")
    check(keyed, batch({"exact": exact}, *records), batch({"exact": exact}, *records[::-1]))


class Damaged:
    """A lake with a table over the first of two captures, of which an object is to be damaged."""

    def __init__(self) -> None:
        self.lake = memory_lake()
        assert isinstance(self.lake.storage, MemoryStorage)
        self.storage = self.lake.storage
        text = {"x": {"type": "string"}}
        self.batches = [batch(text, *({"id": row, "x": f"{n}"} for row in range(6))) for n in range(2)]
        capture(self.lake, self.batches[0], SIZES)
        runner_of(self.lake).run(declaration_of(LATEST))
        self.raw = {entry.key for entry in self.storage.list("raw/")}
        capture(self.lake, self.batches[1], SIZES)
        self.before = self.there()

    def there(self) -> dict[str, bytes]:
        """All of the table."""
        return {key: stored.body for key, stored in self.storage._objects.items() if key.startswith("published/")}

    def refused(self, error: type[SingerlakeError], key: str) -> None:
        """A run names the object and leaves the table as it is."""
        before = self.there()
        with pytest.raises(error) as raised:
            runner_of(self.lake).run(declaration_of(LATEST))
        assert key in str(raised.value)
        assert self.there() == before


@pytest.fixture
def damaged() -> Iterator[Damaged]:
    with small_sizes(SIZES):
        yield Damaged()


def _new_raw(damaged: Damaged) -> str:
    return next(
        entry.key
        for entry in damaged.storage.list("raw/")
        if entry.key.endswith(".singer.gz") and entry.key not in damaged.raw
    )


def _table_file(damaged: Damaged) -> str:
    return next(key for key in damaged.before if key.endswith(".parquet"))


@pytest.mark.parametrize("which", [_new_raw, _table_file], ids=["raw", "table"])
def test_a_missing_file_is_named(damaged: Damaged, which: Any) -> None:
    key = which(damaged)
    damaged.storage.delete(key)
    damaged.refused(MissingFileError, key)


@pytest.mark.parametrize(
    "change", [lambda body: body[:-9], lambda body: body[:40] + b"?" + body[41:], lambda body: b""]
)
@pytest.mark.parametrize("which", [_new_raw, _table_file], ids=["raw", "table"])
def test_a_damaged_file_is_named(damaged: Damaged, which: Any, change: Any) -> None:
    key = which(damaged)
    body = damaged.storage._objects[key].body
    damaged.storage.put(key, change(body))
    damaged.refused(BrokenFileError, key)


def test_a_full_refresh_mends_a_table_that_lost_a_file(damaged: Damaged) -> None:
    damaged.storage.delete(_table_file(damaged))
    runner_of(damaged.lake).run(declaration_of(LATEST), full_refresh=True)
    wanted = expected(messages_of(damaged.batches), LATEST)
    run_and_check(runner_of(damaged.lake), declaration_of(LATEST), wanted, "made anew")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 1, "table": 2}'])
def test_a_damaged_state_is_named(damaged: Damaged, body: bytes) -> None:
    damaged.storage.put(state_key(TABLE), body)
    damaged.refused(CorruptObjectError, state_key(TABLE))


@pytest.mark.parametrize("other", [b"2", b"0", b"-1"])
def test_a_table_of_another_format_is_left_alone(damaged: Damaged, other: bytes) -> None:
    body = damaged.storage._objects[state_key(TABLE)].body
    damaged.storage.put(state_key(TABLE), body.replace(b'"format": 1', b'"format": ' + other, 1))
    with pytest.raises(SingerlakeError, match="upgrade singerlake"):
        runner_of(damaged.lake).run(declaration_of(LATEST))


@pytest.mark.parametrize("metadata", [False, True])
@pytest.mark.parametrize("keep", Keep)
def test_a_time_that_does_not_fit_is_rescued_whatever_messages_are_beside_it(keep: Keep, metadata: bool) -> None:
    lake = memory_lake()
    declared = TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, keep=keep, metadata=metadata)
    schema = {"properties": {"id": {"type": "integer"}}}
    for number in range(2):
        lines = [record_line(STREAM, {"id": number}, time_extracted="nope", version=1)]
        lines += [activate_version_line(STREAM, 1)] * number
        build_stream(lake, TAP, STREAM, schema, lines, key_properties=["id"])
        runner_of(lake).run(declared)
    table = LakeTable.load(lake.storage, TABLE)
    wanted = '{"_time_extracted":"nope"}' if metadata or keep is Keep.HISTORY else None
    assert [row["_rescued_data"] for row in table.to_arrow().read_all().to_pylist()] == [wanted] * 2
    assert list(verify_rows(runner_of(lake), table.state)) == []


def test_polars_takes_a_table_without_rows() -> None:
    lake = memory_lake()
    declared = TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, deleted_when=named_condition_of("id > 0"))
    build_stream(lake, TAP, STREAM, {"properties": {"id": {"type": "integer"}}}, [{"id": 1}], key_properties=["id"])
    runner_of(lake).run(declared)
    table = LakeTable.load(lake.storage, TABLE)
    assert table.files() == []
    frame = polars.from_arrow(table.to_arrow())
    assert isinstance(frame, polars.DataFrame)
    assert (frame.columns, frame.height) == (table.schema.names, 0)
