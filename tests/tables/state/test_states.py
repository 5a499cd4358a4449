"""Stored states that cannot be: refused whole, whoever reads them, and mended by a full refresh."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from singerlake.errors import CorruptObjectError, ForeignManifestError, SingerlakeError
from singerlake.tables.maintain.collect import plan_collection
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.read import LakeTable
from singerlake.tables.run.plan import PARTITION
from singerlake.tables.state.commit import StoredState, commit, load
from singerlake.tables.state.keys import PUBLISHED, state_key
from tests.fakes import START
from tests.tables.cases import Batch
from tests.tables.recompute import Declared, expected
from tests.tables.tables import (
    TABLE,
    capture,
    declaration_of,
    memory_lake,
    messages_of,
    run_and_check,
    runner_of,
    small_sizes,
)

SIZES = {"chunk": 2, "rows": 3, "split": 600}
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "integer"}, "in": {}}}
DECLARED = Declared("latest", order_by=("at",), partition_by=(("in", None),), rules={}, format="jsonl")
LINES = [
    {"type": "RECORD", "stream": "s", "record": {"id": n, "at": n, "in": "ab"[n % 2], "_sdc_deleted_at": None}}
    for n in range(8)
]
BATCH = Batch(
    {"type": "object", "properties": {**SCHEMA["properties"], "in": {"type": "string"}, "_sdc_deleted_at": {}}},  # type: ignore[dict-item]
    ("id",),
    (*LINES, {"type": "RECORD", "stream": "s", "record": {"id": 1, "at": 9, "in": "b", "_sdc_deleted_at": "2026"}}),
)
"""A table of two partitions, whose files have others beside them, and records that are hidden."""


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_sizes(SIZES):
        yield


def made() -> tuple[Any, dict[str, Any]]:
    """A lake with the table, another file retired, and its state as JSON."""
    lake = memory_lake()
    capture(lake, BATCH, SIZES)
    runner_of(lake).run(declaration_of(DECLARED))
    runner_of(lake).run(declaration_of(DECLARED), full_refresh=True)
    stored = lake.storage.get(state_key(TABLE))
    assert stored is not None
    return lake, json.loads(stored.body)


def first(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda state: change(state["files"][0])


def path(name: str) -> Callable[[dict[str, Any]], object]:
    return first(lambda file: file.update(path=name.replace("ID", file["id"])))


def retired(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda state: state["retired"][0].update(path=name)


ID = "0" * 16
PATHS = [
    "_table.json",
    "../other/g1/t-ID.jsonl",
    "g1/in-a/../t-ID.jsonl",
    "g1/in-*/t-ID.jsonl",
    "g1/in-[a]/t-ID.jsonl",
    "g1/in-a/t-*.jsonl",
    "g1/in-a/u-ID.jsonl",
    "g1/in-a/t-ID.txt",
    "g1/in-a/t-ID",
    "g0/in-a/t-ID.jsonl",
    "g9/in-a/t-ID.jsonl",
    "/g1/in-a/t-ID.jsonl",
    "g1//t-ID.jsonl",
    "raw/t-ID.jsonl",
    "_scratch/r-ID.arrow",
    "",
]
BAD: dict[str, Callable[[dict[str, Any]], object]] = {
    **{f"path {each}": path(each) for each in (*PATHS, "g1/in-c/t-ID.jsonl", "g1/t-ID.jsonl", "g1/in-a/t-ID.parquet")},
    **{
        f"retired {each}": retired(each.replace("ID", ID))
        for each in (*PATHS, f"_side/{ID}.other.parquet", f"_side/../{ID}.typed.parquet")
        if not each.startswith("g9")
    },
    "no sources": lambda state: state.update(sources=[]),
    "two sources": lambda state: state["sources"].append(dict(state["sources"][0], stream="u")),
    "offset": lambda state: state["sources"][0].update(offset=-1),
    "no stream": lambda state: state["sources"][0].update(stream=""),
    "number": lambda state: state.update(number=0),
    "generation": lambda state: state.update(generation=-1),
    "files and no generation": lambda state: state.update(generation=0, sources=[]),
    "columns twice": lambda state: state["columns"].append(state["columns"][0]),
    "type": lambda state: state["columns"][0].update(type="money"),
    "order": lambda state: state.update(order=[*state["order"], "nowhere"]),
    "partition behind": lambda state: state.update(order=[*state["order"][1:], f"{PARTITION}0"]),
    "key": lambda state: state.update(key=["nowhere"]),
    "short first": first(lambda file: file.update(first=file["first"][:1])),
    "long last": first(lambda file: file.update(last=[*file["last"], 1])),
    "first after last": first(lambda file: file.update(first=["z", *file["first"][1:]])),
    "another type": first(lambda file: file.update(last=[file["last"][0], "x"])),
    "no partition": first(lambda file: file.update(partition=[])),
    "another partition": first(lambda file: file.update(partition=["c"])),
    "file twice": lambda state: state["files"].insert(0, state["files"][0]),
    "files in another order": lambda state: state["files"].reverse(),
    "offsets": first(lambda file: file.update(offsets=[3, 2])),
    "offsets before 0": first(lambda file: file.update(offsets=[-1, 2])),
    "offsets too great": first(lambda file: file.update(offsets=[0, 9])),
    "rows": first(lambda file: file.update(rows=-1)),
    "versions": first(lambda file: file.update(versions=[2, 1])),
    "no path, and rows": first(lambda file: file.update(path=None)),
    "another side": first(lambda file: file["typed"].update(path=f"_side/{ID}.typed.parquet")),
    "side elsewhere": first(lambda file: file["typed"].update(path=f"../u/_side/{file['id']}.typed.parquet")),
    "no typed": first(lambda file: file.update(typed=None)),
    "id": first(lambda file: file.update(id="x" * 16)),
    "retired bytes": lambda state: state["retired"][0].update(bytes=-1),
    "table": lambda state: state.update(table="u"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_state_that_cannot_be_is_refused_and_made_anew(what: str) -> None:
    lake, state = made()
    BAD[what](state)
    body = json.dumps(state).encode()
    lake.storage.put(state_key(TABLE), body)
    other = f"{PUBLISHED}/u/g1/u-{ID}.parquet"
    lake.storage.put(other, b"another table's")
    readers: list[Callable[[], object]] = [
        lambda: load(lake.storage, TABLE),
        lambda: LakeTable.load(lake.storage, TABLE),
        lambda: plan_collection(lake.storage, TABLE, now=START, grace=START - START),
        lambda: runner_of(lake).run(declaration_of(DECLARED)),
    ]
    for read in readers:
        with pytest.raises((CorruptObjectError, ForeignManifestError)) as told:
            read()
        assert "restore" in told.value.hint
    stored = lake.storage.get(state_key(TABLE))
    assert stored is not None
    assert stored.body == body, "a reader changed it"
    plan = plan_drop(lake.storage, TABLE)
    assert plan.rows is None
    assert all(key.startswith(f"{PUBLISHED}/{TABLE}/") for key in plan.keys)
    runner_of(lake).run(declaration_of(DECLARED), full_refresh=True)
    run_and_check(runner_of(lake), declaration_of(DECLARED), expected(messages_of([BATCH]), DECLARED), what)
    drop(lake.storage, plan_drop(lake.storage, TABLE))
    assert [entry.key for entry in lake.storage.list(f"{PUBLISHED}/")] == [other]


def test_the_state_of_all_these_tests_is_one_that_can_be() -> None:
    lake, state = made()
    found = load(lake.storage, TABLE)
    assert found is not None
    assert {file.partition for file in found.state.files} == {("a",), ("b",)}
    assert all(file.typed for file in found.state.files if file.path)
    assert any(file.hidden for file in found.state.files)
    assert state["retired"]


def test_a_run_publishes_no_state_that_nobody_could_read() -> None:
    lake, _ = made()
    found = load(lake.storage, TABLE)
    assert found is not None
    from msgspec.structs import replace

    wrong = replace(found.state, id="1" * 16, number=found.state.number + 1, sources=())
    with pytest.raises(SingerlakeError):
        commit(lake.storage, found, wrong)
    assert load(lake.storage, TABLE) == StoredState(found.state, found.etag)
