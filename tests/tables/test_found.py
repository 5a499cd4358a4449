"""Small streams that tables once got wrong, each told by what is special about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from singerlake.conditions import named_condition_of
from singerlake.tables.declaration.model import ColumnRule
from singerlake.tables.maintain.verify import verify_rows
from singerlake.tables.state.commit import load
from tests.tables.cases import Batch
from tests.tables.recompute import Declared, Rule, Test, expected
from tests.tables.tables import (
    STREAM,
    TABLE,
    capture,
    declaration_of,
    memory_lake,
    messages_of,
    run_and_check,
    runner_of,
    small_sizes,
)

Message = Mapping[str, Any]
SCHEMA: dict[str, Any] = {"properties": {"id": {"type": ["integer", "null"]}, "x": {"type": "string"}}}
SMALL = {"rows": 1, "chunk": 1, "split": 200}
LARGE = {"rows": 1000, "chunk": 1000, "split": 1 << 20}


def record(id: Any, x: Any = "x", /, version: int | None = None, second: int | None = None, **more: Any) -> Message:
    message = {"type": "RECORD", "stream": STREAM, "record": {"id": id, "x": x, **more}}
    message |= {} if version is None else {"version": version}
    return message | ({} if second is None else {"time_extracted": f"2026-01-01T00:00:{second:02d}Z"})


def activate(version: int) -> Message:
    return {"type": "ACTIVATE_VERSION", "stream": STREAM, "version": version}


def check(
    declared: Declared,
    *captures: list[Message],
    schemas: list[Any] | None = None,
    key: tuple[str, ...] = ("id",),
    sizes: Sequence[Mapping[str, int]] = (SMALL, LARGE),
) -> None:
    """Each capture is followed by a run, where each row is a file, and where one has all."""
    made = []
    for number, messages in enumerate(captures):
        schema = SCHEMA if schemas is None else schemas[min(number, len(schemas) - 1)]
        made.append(Batch(schema, key, tuple(messages)))
    for size in sizes:
        lake = memory_lake()
        with small_sizes(size):
            for number, each in enumerate(made):
                capture(lake, each, size)
                wanted = expected(messages_of(made[: number + 1]), declared)
                run_and_check(runner_of(lake), declaration_of(declared), wanted, f"after capture {number}")


HISTORY, LATEST, APPEND = Declared("history"), Declared("latest"), Declared("append")
keyed = pytest.mark.parametrize("declared", [HISTORY, LATEST], ids=["history", "latest"])


@keyed
def test_nan_is_behind_all_keys(declared: Declared) -> None:
    schema = {"properties": {"id": {"type": "number"}, "x": {"type": "string"}}}
    check(
        declared, [record(math.nan), record(1.0), record(-0.0)], [record(math.nan, "y"), record(0.0)], schemas=[schema]
    )


@keyed
def test_texts_of_nan_of_either_sign_are_one_key(declared: Declared) -> None:
    schema = {"properties": {"id": {"type": "string"}, "x": {"type": "string"}}}
    rules = {"id": Rule(cast="double")}
    for sort_by in ((), ("x",)):
        casting = Declared(declared.keep, sort_by=sort_by, rules=rules)
        check(casting, [record("nan"), record("-nan", "y", version=1)], [activate(2), record("NaN")], schemas=[schema])
        check(casting, [record("nan")], [record("-nan", "y")], schemas=[schema])


def test_a_record_that_is_appended_has_the_version_that_was_activated_before() -> None:
    check(APPEND, [record(1), activate(3)], [record(2)], [record(3), activate(3)])


def test_each_activation_of_a_run_sends_rows_away() -> None:
    check(APPEND, [record(1, version=1), record(2, version=1)], [activate(2), activate(1), record(3, version=1)])


@keyed
def test_a_record_of_an_older_version_loses_against_a_deletion(declared: Declared) -> None:
    deleting = Declared(declared.keep, deleted_when=("x", (Test("=", ("gone",)),)))
    check(deleting, [record(1, version=1), record(1, "gone", version=2)], [record(1, "y", version=1)])
    check(deleting, [record(1, version=1), record(1, "gone", version=2)], [activate(1)])


@keyed
def test_a_version_comes_back_that_others_had_replaced(declared: Declared) -> None:
    check(declared, [record(1, "a", version=1), record(1, "b", version=2), record(2)], [activate(1)])


def test_a_key_is_in_a_version_by_a_record_that_changes_nothing() -> None:
    check(HISTORY, [record(1, version=1), record(1, version=2)], [activate(2)])
    check(HISTORY, [record(1, version=1), record(1, version=2)], [record(2, version=2)], [activate(2)], [activate(3)])


@pytest.mark.parametrize("order_by", [(), ("at",)])
def test_a_key_comes_back_unchanged_after_its_deletion(order_by: tuple[str, ...]) -> None:
    schema = {"properties": {**SCHEMA["properties"], "at": {"type": "integer"}, "gone": {"type": "boolean"}}}
    declared = Declared("history", order_by=order_by, deleted_when=("gone", (Test("=", (True,)),)))
    first, last = record(1, second=1, at=1, gone=False), record(1, second=3, at=3, gone=False)
    check(declared, [first], [record(1, second=2, at=2, gone=True)], [last], schemas=[schema])


def test_an_activation_knows_when_the_last_record_of_an_earlier_run_was_captured() -> None:
    check(HISTORY, [record(1, version=1, second=7)], [activate(2)])
    check(HISTORY, [record(1, version=1, second=7)], [record(2, version=2)], [activate(2)], [record(1, version=2)])


def test_an_activation_ends_what_came_before_it_alone() -> None:
    check(HISTORY, [record(1)], [activate(1), activate(4), record(1, "y", version=2)])


def test_what_an_activation_ended_keeps_its_end() -> None:
    at = {"type": "string", "format": "date-time"}
    schema = {"properties": {**SCHEMA["properties"], "at": at}}
    declared = Declared("history", order_by=("at",))
    first = record(1, version=1, second=9, at="2026-01-01T00:00:01Z")
    late = record(1, "y", version=2, second=9, at="2026-01-01T00:00:00Z")
    check(declared, [first], [activate(2)], [late], [activate(3)], schemas=[schema])


def test_ends_that_one_activation_made_are_each_stored_once() -> None:
    schema = {"properties": {**SCHEMA["properties"], "at": {"type": "integer"}}}
    declared = Declared("history", order_by=("at",), sort_by=("x",))
    captures = [[*(record(id, f"x{id}", version=1, at=2) for id in range(6)), activate(2)]]
    captures += [[record(id, f"x{id}", version=1, at=at) for id in range(6)] for at in (1, 0)]
    captures += [[record(0, "x", version=2, at=1), activate(3)], captures[1], captures[2]]
    check(declared, *captures, schemas=[schema], sizes=[{"rows": 2, "chunk": 1, "split": 300}])


def test_the_end_of_an_interval_lies_in_the_partition_of_its_key() -> None:
    parted = Declared("history", key=("x",), order_by=("id",), partition_by=(("x", None),), null_keys="drop")
    check(parted, [record(1, ""), record(1, "a"), activate(3)], [record(2, ""), record(2, "a")], key=("x",))


@pytest.mark.parametrize("declared", [HISTORY, LATEST, APPEND], ids=["history", "latest", "append"])
def test_what_a_later_version_declares_leaves_the_rescued_values(declared: Declared) -> None:
    wider = {"properties": {**SCHEMA["properties"], "more": {"type": "integer"}}}
    check(declared, [record(1, more=1), record(2)], [record(3, more=2)], schemas=[SCHEMA, wider])


def test_a_cast_that_fails_beside_a_value_that_is_no_json() -> None:
    schema = {"properties": {**SCHEMA["properties"], "n": {"type": "integer"}}}
    casting = Declared("append", rules={"x": Rule(cast="integer")})
    check(casting, [record(1, "no", n=math.nan)], schemas=[schema])


@pytest.mark.parametrize("declared", [HISTORY, LATEST, APPEND], ids=["history", "latest", "append"])
def test_a_name_that_is_given_is_free_or_an_error(declared: Declared) -> None:
    three = {"properties": {**SCHEMA["properties"], "y": {"type": "string"}}}
    for rules in ({"id": Rule("x")}, {"x": Rule("y"), "y": Rule("x")}, {"id": Rule("X"), "y": Rule("id")}):
        renamed = Declared(declared.keep, rules=rules)
        check(renamed, [record(1, "a")], [record(1, "b", y="c"), record(2, y="d")], schemas=[three])


@keyed
def test_a_zero_character_in_a_name_does_not_cut_it(declared: Declared) -> None:
    schema = {"properties": {**SCHEMA["properties"], "x\0y": {"type": "string"}, "\0": {"type": "integer"}}}
    first, second = record(1, **{"x\0y": "a", "\0": 1}), record(1, "y", **{"x\0y": "b"})
    check(Declared(declared.keep, key=("x\0y",)), [first], [second, first], schemas=[schema])


def test_a_deletion_is_told_by_the_value_that_is_cast() -> None:
    for drop in (False, True):
        rules = {"x": Rule(drop=True) if drop else Rule("gone", cast="boolean")}
        tests = (Test("=", ("t",)),) if drop else (Test("=", (True,)),)
        for keep in ("latest", "history"):
            declared = Declared(keep, rules=rules, deleted_when=("x", tests))
            check(declared, [record(1, "t"), record(2, "no")], [record(2, "t"), record(3, "?"), record(1, "f")])


def test_a_property_that_stands_twice_in_the_key_of_a_stream_is_one() -> None:
    declared = Declared("latest", key=("id",), sort_by=("x",))
    lake = memory_lake()
    messages = (record(1, "a"), record(2, "b"))
    for number in range(2):
        made = [Batch(SCHEMA, ("id", "id"), messages)] * (number + 1)
        capture(lake, made[0], SMALL)
        run_and_check(
            runner_of(lake), replace(declaration_of(declared), key=None), expected(messages_of(made), declared), "again"
        )


@pytest.mark.parametrize("declares", [True, False])
def test_a_record_is_a_deletion_whether_its_schema_declares_the_property_or_not(declares: bool) -> None:
    time = {"type": ["null", "string"], "format": "date-time"}
    schema = {"properties": {**SCHEMA["properties"], **({"_sdc_deleted_at": time} if declares else {})}}
    deep: Any = {"_sdc_deleted_at": 1}
    for _ in range(300):
        deep = [deep]
    messages = [record(number) for number in range(7)]
    messages += [record(0, _sdc_deleted_at="2026-01-01T00:00:00Z"), record(1, _sdc_deleted_at="yesterday")]
    messages += [record(2, _sdc_deleted_at=None), record(3, more={"_sdc_deleted_at": "2026-01-01T00:00:00Z"})]
    messages += [record(4, more=deep), record(5, more=deep, _sdc_deleted_at=0)]
    lake = memory_lake()
    capture(lake, Batch(schema, ("id",), tuple(messages)), LARGE)
    for keep in (LATEST, HISTORY, Declared("latest", deletions="soft")):
        declaration = replace(declaration_of(keep), name=f"{keep.keep}-{keep.deletions}")
        runner_of(lake).run(declaration)
        rows = lake.table(declaration.name).to_arrow().read_all().to_pylist()
        there = {row["id"] for row in rows if row.get("_current", True) and not row.get("_deleted")}
        assert there == {2, 3, 4, 6}


def test_a_value_that_would_tell_a_deletion_and_does_not_fit_is_counted() -> None:
    time = {"type": ["null", "string"], "format": "date-time"}
    inner = {"type": "object", "properties": {"a": {"type": "integer"}}}
    schema = {"properties": {**SCHEMA["properties"], "gone": time, "o": inner}}
    bad, good = {"gone": "yesterday"}, {"gone": "2026-01-01T00:00:00Z"}
    messages = [record(1, **bad), record(2, **good), record(3, o=bad), record(4, more=math.nan, **bad)]
    messages += [record(5, gone=None, o=bad), record(6, **good, more=bad), record(7, x=bad), record(8)]
    lake = memory_lake()
    capture(lake, Batch(schema, ("id",), tuple(messages)), LARGE)
    plain = replace(declaration_of(LATEST), deleted_when=named_condition_of("gone not_null"))
    dropped = replace(plain, name="d", columns={"gone": ColumnRule(drop=True)})
    cast = replace(plain, name="c", columns={"x": ColumnRule(cast="integer")}, deleted_when=named_condition_of("x = 1"))
    for declaration, offsets in ((plain, [0, 3]), (dropped, [0, 3]), (cast, [0, 1, 2, 3, 4])):
        outcome = runner_of(lake).run(declaration)
        assert outcome.run is not None
        (name,) = outcome.run.checks
        assert name == f"{'x' if declaration is cast else 'gone'} fits its type"
        assert outcome.examples[name] == offsets
        assert outcome.run.checks[name] == (8 if declaration is cast else 2)


def test_a_table_that_is_made_anew_by_every_run_says_what_would_help(caplog: pytest.LogCaptureFixture) -> None:
    number = {"properties": {**SCHEMA["properties"], "at": {"type": "integer"}}}
    first = (record(1, version=1, at=1), activate(1), record(2, version=2, at=1))
    for declared, kind in ((LATEST, "rebuild"), (Declared("latest", order_by=("at",)), "run")):
        lake = memory_lake()
        capture(lake, Batch(number, ("id",), first), LARGE)
        runner_of(lake).run(declaration_of(declared))
        for at in range(2, 4):
            caplog.clear()
            capture(lake, Batch(number, ("id",), (record(1, at=at),)), LARGE)
            outcome = runner_of(lake).run(declaration_of(declared))
            assert outcome.run is not None
            assert outcome.run.kind == kind
            assert ("a table with 'order_by' need not be made anew" in caplog.text) == (kind == "rebuild")


def test_a_nested_zero_of_another_sign_and_a_nested_nan_change_nothing() -> None:
    number = {"type": ["null", "number"]}
    of = {"type": "object", "properties": {"a": number, "l": {"type": "array", "items": number}}}
    schema = {"properties": {**SCHEMA["properties"], "of": of}}
    for one, other in (({"a": 0.0}, {"a": -0.0}), ({"l": [0.0, None]}, {"l": [-0.0, None]})):
        check(HISTORY, [record(1, of=one)], [record(1, of=other)], [record(1, of={"a": 1})], schemas=[schema])
    for value in ({"a": math.nan}, {"l": [math.nan, 1]}):
        check(HISTORY, [record(1, of=value)], [record(1, of=value)], [record(1, of={})], schemas=[schema])


def test_zero_is_among_values_whatever_its_sign() -> None:
    schema = {"properties": {"id": {"type": "integer"}, "x": {"type": "number"}}}
    check(Declared("append", checks=(("x", (Test("in", (0,)),), "drop"),)), [record(1, -0.0)], schemas=[schema])


@keyed
def test_properties_whose_names_begin_with_two_underscores_are_columns(declared: Declared) -> None:
    names = ("__v", "__deleted", "__moment", "__hidden", "__partition_0", "__partition_x")
    schema = {"properties": {**SCHEMA["properties"], **{name: {"type": "integer"} for name in names}}}
    parted = Declared(declared.keep, partition_by=(("id", None),))
    for each in (declared, parted):
        check(each, [record(1, __v=1, __deleted=1)], [record(1, __v=2), record(2, __partition_x=3)], schemas=[schema])


CLASHING = (".x", "[0]", "__row", "__row_max", "count_all", "_singerlake_offset_list", "_singerlake_offset_count")
CLASHING += ("0", "place", "place_list", "__partition_100", "__partition_\u0661", "a.b")


@keyed
def test_no_name_of_a_property_is_one_that_tasks_work_with(declared: Declared) -> None:
    properties = {name: {"type": "string"} for name in CLASHING}
    schema = {"properties": {**SCHEMA["properties"], **properties, "z": {"type": "integer"}}}

    def one(id: int, value: str, z: int, version: int = 1) -> Message:
        return record(id, version=version, **dict.fromkeys(CLASHING, value), z=z)

    first = [one(1, "a", 1), one(2, "b", 1), one(3, "a", 2), one(1, "c", 2)]
    second = [one(1, "a", 3), one(2, "x", 0), activate(2), one(2, "x", 1, 2)]
    for used in (
        Declared(declared.keep, key=CLASHING),
        Declared(declared.keep, key=CLASHING, sort_by=("z",)),
        Declared(declared.keep, order_by=CLASHING, sort_by=CLASHING, partition_by=((CLASHING[0], None),)),
    ):
        check(used, first, second, schemas=[schema])


def test_verify_of_a_table_that_is_behind_reads_its_stream_as_it_was() -> None:
    lake = memory_lake()
    wider = {"properties": {"id": {"type": "integer"}, "x": {"type": "integer"}, "more": {"type": "integer"}}}
    capture(lake, Batch(SCHEMA, ("id",), (record(1, more=1),)), LARGE)
    runner = runner_of(lake)
    state = runner.run(declaration_of(LATEST)).state
    capture(lake, Batch(wider, ("id",), (record(1, 2, more=1),)), LARGE)
    assert state is not None
    assert list(verify_rows(runner, state)) == []


def test_rows_of_deleted_keys_stay_where_deletions_are_soft() -> None:
    """And a key that is there again is no longer deleted; what an activation sent away first does not come back."""
    declared = Declared("latest", deletions="soft", deleted_when=("x", (Test("=", ("gone",)),)))
    captures = [
        [record(1, "a", 1, 1), record(2, "b", 1, 2), record(3, "c", 1, 3)],
        [record(2, "gone", 1, 4), record(3, "d", 2, 5), activate(2)],
        [record(2, "gone", 2, 6), record(1, "again", 2, 7)],
        [record(4, "e", 3, 8), activate(3)],
        [activate(4)],
    ]
    check(declared, *captures)
    check(replace(declared, order_by=("x",)), [record(1, "z", 3), activate(1), activate(3)], [record(1, "a")])
    appended = Declared("append", deletions="soft", deleted_when=declared.deleted_when)
    check(appended, *captures)


def test_endings_of_one_activation_do_not_multiply_where_files_are_not_in_the_order_of_the_key() -> None:
    declared = Declared("history", order_by=("x",), sort_by=("x",))
    first = [record(id, f"x{9 - id}", 1) for id in range(5)]
    captures = [[*first, record(9, "x0", 2), activate(2)]]
    captures += [[record(id, f"z{number}", 2) for id in range(5)] for number in range(3)]
    made = [Batch(SCHEMA, ("id",), tuple(messages)) for messages in captures]
    lake = memory_lake()
    hidden = []
    for number, (each, sizes) in enumerate(zip(made, (LARGE, SMALL, SMALL, SMALL), strict=True)):
        capture(lake, each, sizes)
        wanted = expected(messages_of(made[: number + 1]), declared)
        with small_sizes(sizes):
            run_and_check(runner_of(lake), declaration_of(declared), wanted, f"after capture {number}")
        state = load(lake.storage, TABLE)
        assert state is not None
        hidden.append(sum(file.hidden.rows for file in state.state.files if file.hidden))
    assert hidden == [5, 5, 5, 5]
