"""Running tables of a lake in memory, and comparing them with the recomputation."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow.parquet as pq
import pytest

from singerlake.conditions import Condition
from singerlake.conditions import Test as Tested
from singerlake.errors import CheckFailedError, SettingError
from singerlake.lake import Lake
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import (
    Action,
    Check,
    ColumnRule,
    Deletions,
    Format,
    Keep,
    NullKeys,
    Partition,
    TableDeclaration,
)
from singerlake.tables.maintain.verify import verify_rows
from singerlake.tables.read import LakeTable
from singerlake.tables.run import write as work_module
from singerlake.tables.run.one_table import TableRunner
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import state_key, table_prefix
from singerlake.tables.state.model import TableFile, TableState
from singerlake.tables.state.types import sort_key, value_from_json
from singerlake.tables.tasks import sorted_chunks
from tests.fakes import FakeClock, counting_ids
from tests.lakes import build_stream
from tests.storage.memory import MemoryStorage
from tests.tables.cases import Batch, Case
from tests.tables.delta.replay import replayed, rows_in
from tests.tables.iceberg import seen as iceberg
from tests.tables.recompute import Declared, Expected, Test, expected
from tests.tables.typed import written

OFFSET = "_singerlake_offset"
TAP, STREAM, TABLE = "tap-t", "s", "t"


class Serial:
    """The engine of tests: one task after another, on the caller's thread."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __call__(self, task: Any, items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        return ((item, task(self._storage, item)) for item in items)


def memory_lake(storage: Storage | None = None, clock: FakeClock | None = None) -> Lake:
    clock, ids = clock or FakeClock(), counting_ids()
    return Lake(storage or MemoryStorage(clock=clock, ids=ids), clock=clock, ids=ids)


def runner_of(lake: Lake, storage: Storage | None = None, ids: Callable[[], str] | None = None) -> TableRunner:
    """A runner, whose requests for the table go to ``storage`` where that is given."""
    used = lake.storage if storage is None else storage
    return TableRunner(
        used,
        lambda: "lake",
        lambda tap, stream: lake.stream(tap, stream).snapshot(),
        lambda size: Serial(used),
        lake.clock,
        ids or lake.ids,
    )


@contextmanager
def small_sizes(sizes: Mapping[str, int]) -> Iterator[None]:
    """Files, chunks and splits so small that a few rows make many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_chunks, "BLOCK_ROWS", sizes.get("chunk", 2))
        rows = sizes.get("rows", 3)
        for name in ("MOST_ROWS", "LEAST_ROWS", "FEWEST_ROWS"):
            patch.setattr(work_module, name, rows)
        patch.setattr(work_module, "REGION_MEMORY", 1)
        patch.setattr(work_module, "FIND_FILES", rows)
        patch.setattr(work_module, "SPLIT_BYTES", sizes.get("split", 300))
        yield


def declaration_of(declared: Declared, name: str = TABLE) -> TableDeclaration:
    """The same for the product."""
    deleted = declared.deleted_when
    return TableDeclaration(
        name=name,
        tap=TAP,
        stream=STREAM,
        keep=Keep(declared.keep),
        key=declared.key,
        order_by=declared.order_by,
        sort_by=declared.sort_by,
        partition_by=tuple(Partition(column, part) for column, part in declared.partition_by),
        columns={each: ColumnRule(rule.rename, rule.drop, rule.cast) for each, rule in declared.rules.items()},
        checks=tuple(
            Check(column, str(_condition(tests)), _condition(tests), Action(action))
            for column, tests, action in declared.checks
        ),
        deleted_when=None if deleted is None else _condition(deleted[1], deleted[0]),
        deletions=Deletions(declared.deletions),
        null_keys=NullKeys(declared.null_keys),
        format=Format(declared.format),
        iceberg=declared.iceberg,
    )


def _condition(tests: Sequence[Test], column: str = "") -> Condition:
    def literal(value: Any) -> Any:
        from decimal import Decimal

        return value if isinstance(value, bool | str) else Decimal(str(value))

    path = (column,) if column else ()
    made = ((test.operator, tuple((literal(value),) for value in test.values), test.negated) for test in tests)
    return Condition(tuple(Tested(*each, path) for each in made))


def capture(lake: Lake, batch: Batch, sizes: Mapping[str, int]) -> None:
    lines = [written(message).encode() for message in batch.messages]
    build_stream(
        lake,
        TAP,
        STREAM,
        batch.schema,
        lines,
        key_properties=batch.key_properties,
        file_size=sizes.get("file", 100),
        member_size=sizes.get("member", 100),
    )


def messages_of(batches: Iterable[Batch]) -> list[Mapping[str, Any]]:
    """The messages of captures, a SCHEMA message before each."""
    made: list[Mapping[str, Any]] = []
    for batch in batches:
        made.append({"type": "SCHEMA", "schema": batch.schema, "key_properties": list(batch.key_properties)})
        made += batch.messages
    return made


def check_case(case: Case) -> None:
    """Capture and run as the case has it; the table is to be what the recomputation says after every run, ``verify``
    makes the same of it at the end, and nothing is left that the table does not name. Raises ``AssertionError``."""
    lake = memory_lake()
    runner = runner_of(lake)
    declaration = declaration_of(case.declared)
    with small_sizes(case.sizes):
        for number, batch in enumerate(case.batches):
            capture(lake, batch, case.sizes)
            found = load(lake.storage, TABLE)
            if found is not None and found.state.is_published and number % 2:
                assert list(verify_rows(runner, found.state)) == [], f"before run {number}: verify finds another table"
            if batch.run:
                wanted = expected(messages_of(case.batches[: number + 1]), case.declared)
                run_and_check(runner, declaration, wanted, f"after capture {number}")
        found = load(lake.storage, TABLE)
        if found is not None and found.state.is_published:
            assert list(verify_rows(runner, found.state)) == [], "verify finds another table"
            names = [entry.key for entry in lake.storage.list(table_prefix(TABLE))]
            before = {name for name in names if not {"_delta_log", "metadata"} & {*name.split("/")}}
            listed = found.state.paths() | {file.path for file in found.state.retired}
            assert before == {state_key(TABLE), *(table_prefix(TABLE) + path for path in listed)}, "something is left"


def run_and_check(runner: TableRunner, declaration: TableDeclaration, wanted: Expected, when: str) -> None:
    if wanted.unordered or wanted.clashes:
        message = "names of columns differ in more than case" if wanted.clashes else "holds JSON"
        with pytest.raises(SettingError, match=message):
            runner.run(declaration)
        return
    try:
        runner.run(declaration)
    except CheckFailedError:
        assert wanted.refused, f"{when}: nothing was published, though checks hold"
        return
    assert not wanted.refused, f"{when}: a check or a null in a key was let pass"
    table = LakeTable.load(runner.storage, declaration.name)
    check_rows(table, wanted, when)
    check_state(runner.storage, table.state)
    if declaration.format is Format.DELTA:
        check_log(table, when)


def check_log(table: LakeTable, when: str) -> None:
    """Readers of the Delta protocol and of Iceberg find the same rows."""
    log = replayed(table.storage, table.name)
    assert log is not None, f"{when}: there is no Delta log"
    found = rows_in(table.storage, table.name, log)
    wanted = table.to_arrow().read_all().to_pylist()
    assert _by_offset(found) == _by_offset(wanted), f"{when}: the Delta log shows other rows"
    if isinstance(table.state.ids, tuple):
        rows = iceberg.newest_rows(table.storage)
        assert rows is not None, f"{when}: there is no Iceberg metadata"
        assert _by_offset(rows) == _by_offset(wanted), f"{when}: Iceberg metadata shows other rows"


def _by_offset(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted((_plain(row) for row in rows), key=lambda row: row[OFFSET])


def check_rows(table: LakeTable, wanted: Expected, when: str) -> None:
    found = rows_of(table)
    names = tuple(table.schema.names)
    assert names == wanted.names, f"{when}: columns are {names}, not {wanted.names}"
    rows = plain_rows(wanted)
    if found != rows:
        first = next((i for i, pair in enumerate(zip(found, rows, strict=False)) if pair[0] != pair[1]), "the end")
        shown = "\n".join([f"{when}: from row {first}", "found:", *map(repr, found), "wanted:", *map(repr, rows)])
        raise AssertionError(shown)


def rows_of(table: LakeTable) -> list[dict[str, Any]]:
    """All rows, comparable with each other."""
    found = table.to_arrow().read_all().to_pylist()
    for row in found:
        if row["_rescued_data"] is not None:
            row["_rescued_data"] = json.loads(row["_rescued_data"])
    return [_plain(row) for row in found]


def plain_rows(wanted: Expected) -> list[dict[str, Any]]:
    """The rows that are expected, comparable with those of ``rows_of``."""
    return [_plain(row) for row in wanted.rows]


def _plain(value: Any) -> Any:
    """NaN as a word, so that it equals itself; zeros with their sign in words, so that they differ."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (str(value) if value == 0 else value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def check_state(storage: Storage, state: TableState) -> None:
    """All that a state says of its files is so."""
    types = LakeTable(storage, state).schema
    assert len({file.id for file in state.files}) == len(state.files)
    assert not state.paths() & {file.path for file in state.retired}, "a listed file is retired"
    alone = state.declaration["keep"] == "latest" or (state.declaration["keep"] == "history" and OFFSET in state.order)
    before: Any = None
    stored: set[tuple[Any, ...]] = set()
    for file in state.files:
        shown, hidden = _bodies(storage, table_prefix(state.table), file)
        rows = shown + hidden
        for row in rows:
            one = (row[OFFSET], *(str(row[name]) for name in state.key))
            assert one not in stored, f"{file.path}: what is at offset {row[OFFSET]} is stored twice"
            stored.add(one)
        assert rows, "a file without rows and hidden records"

        def place_in_order(row: dict[str, Any], file: TableFile = file) -> Any:
            own = {f"__partition_{index}": value for index, value in enumerate(file.partition)} | row
            return sort_key(tuple(own[name] for name in state.order))

        # Hidden records go with a file of another partition, too.
        places = [place_in_order(row) for row in (shown if file.partition else rows)]
        ends = [
            sort_key(
                tuple(
                    value if name.startswith("__partition_") else value_from_json(value, types.field(name).type)
                    for name, value in zip(state.order, end, strict=True)
                )
            )
            for end in (file.first, file.last)
        ]
        found = [min(places, default=ends[0]), max(places, default=ends[1])]
        fits = ends[0] <= found[0] <= found[1] <= ends[1] if file.partition and hidden else ends == found
        assert fits, f"{file.path}: range is {ends}"
        own = [place_in_order(row) for row in shown]
        assert own == sorted(own), f"{file.path}: rows are not in order"
        assert before is None or (before < ends[0] if alone else before <= ends[0]), f"{file.path}: ranges overlap"
        before = ends[1]
        offsets = [row[OFFSET] for row in rows]
        assert file.offsets == (min(offsets), max(offsets)), file.path
        versions = [row["_singer_version"] for row in rows]
        assert file.versions == (None if None in versions else (min(versions), max(versions))), file.path
        assert file.rescued == sum(row["_rescued_data"] is not None for row in rows), file.path


def _bodies(storage: Storage, prefix: str, file: TableFile) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of a file and its hidden records, read without the code that the product has for it."""
    found: list[list[dict[str, Any]]] = [[], []]
    shown = [] if file.path is None else [(0, file.path, file.bytes, file.sha256, file.rows)]
    sides = [] if file.hidden is None else [file.hidden]
    if file.typed is not None:
        _body(storage, prefix + shown[0][1], *shown[0][2:4])
        shown = [(0, file.typed.path, file.typed.bytes, file.typed.sha256, file.rows)]
    for which, path, size, sha256, rows in [*shown, *((1, s.path, s.bytes, s.sha256, s.rows) for s in sides)]:
        body = _body(storage, prefix + path, size, sha256)
        found[which] = pq.read_table(io.BytesIO(body), partitioning=None).to_pylist()
        assert len(found[which]) == rows, path
    return found[0], found[1]


def _body(storage: Storage, key: str, size: int, sha256: str) -> bytes:
    with storage.open(key) as opened:
        body = opened.read()
    assert (len(body), hashlib.sha256(body).hexdigest()) == (size, sha256), key
    return body
