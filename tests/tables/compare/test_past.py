"""A table as of an offset is what a run makes over a lake that was cut there, and nothing of it is in the lake."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec import structs

from singerlake.adapters import open_storage
from singerlake.conditions import condition_of
from singerlake.errors import (
    CheckFailedError,
    ExpiredMessagesError,
    LineageChangedError,
    SettingError,
    UnknownNameError,
)
from singerlake.tables.compare.as_of import Maker, Past
from singerlake.tables.declaration.model import Action, Check, Format, Keep
from singerlake.tables.state.commit import load
from tests.fakes import START
from tests.tables.cases import Batch, Case, case
from tests.tables.compare.lakes import LATEST, TEN, add, captured, contents, erase, expire, rows_as_of, run
from tests.tables.recompute import expected
from tests.tables.tables import (
    TABLE,
    capture,
    check_rows,
    declaration_of,
    memory_lake,
    messages_of,
    runner_of,
    small_sizes,
)


def cut(batches: Iterable[Batch], offset: int) -> list[Batch]:
    """The captures before an offset, the last of them in part."""
    kept = []
    for batch in batches:
        part = batch.messages[:offset]
        offset -= len(part)
        if part:
            kept.append(Batch(batch.schema, batch.key_properties, part))
    return kept


def check_offsets(made: Case, chance: random.Random) -> int:
    """Run the table of a case, then ask for it as of offsets by chance; how many gave rows."""
    lake = memory_lake()
    runner = runner_of(lake)
    with small_sizes(made.sizes):
        for batch in made.batches:
            capture(lake, batch, made.sizes)
        try:
            runner.run(declaration_of(made.declared))
        except (CheckFailedError, SettingError):
            return 0
        found = load(lake.storage, TABLE)
        assert found is not None
        past, compared = Past.of(Maker(runner, open_storage), found.state), 0
        for offset in chance.sample(range(1, past.manifest.next_offset + 1), min(4, past.manifest.next_offset)):
            earlier = cut(made.batches, offset)
            try:
                table = past.made(offset)
            except (CheckFailedError, SettingError, UnknownNameError) as error:
                # A check, or what the declaration names came later.
                other = memory_lake()
                for batch in earlier:
                    capture(other, batch, made.sizes)
                with pytest.raises(type(error)):
                    runner_of(other).run(declaration_of(made.declared))
                continue
            check_rows(table, expected(messages_of(earlier), made.declared), f"as of {offset}")
            compared += 1
    return compared


def _check(seeds: Iterable[int]) -> int:
    done = 0
    for seed in seeds:
        try:
            done += check_offsets(case(seed), random.Random(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    return done


def test_a_table_as_of_an_offset_is_that_of_a_lake_that_ends_there() -> None:
    assert _check(range(20)) > 20


@pytest.mark.thorough
@pytest.mark.parametrize(
    "first", [20, 60, *(pytest.param(first, marks=pytest.mark.soak) for first in range(100, 300, 40))]
)
def test_so_it_is_for_many_more(first: int) -> None:
    assert _check(range(first, first + 40)) > 20


def latest(count: int) -> list[dict[str, Any]]:
    """The rows of the first messages."""
    return sorted({row["id"]: row for row in TEN[:count]}.values(), key=lambda row: row["id"])


@pytest.mark.parametrize("offset", range(1, 11))
def test_every_offset_within_and_between_files(offset: int) -> None:
    lake = captured()
    run(lake)
    assert rows_as_of(lake, offset) == latest(offset)


def test_nothing_is_written_to_the_lake_and_the_folder_goes_with_the_table(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lake = captured()
    run(lake)
    before = contents(lake)
    table = lake.table(TABLE, as_of=7)
    (file,) = table.files()
    assert pq.read_table(file).num_rows == table.rows == 4
    reader = table.to_arrow()
    del table
    gc.collect()
    assert reader.read_all().num_rows == 4
    del reader
    gc.collect()
    assert os.listdir(tmp_path) == []
    assert contents(lake) == before


def test_a_moment_means_what_was_captured_by_then() -> None:
    lake = captured(TEN[:4])
    add(lake, TEN[4:])
    run(lake)
    for point in ("2026-01-01T00:00:59Z", "2026-01-01T00:00:59", START + timedelta(seconds=59), datetime(2026, 1, 1)):
        assert rows_as_of(lake, point) == latest(4), point
    assert rows_as_of(lake, "2026-01-01T01:01:00+01:00") == latest(10)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("2025-12-31T23:59:59Z", "had no message at 2025-12-31T23:59:59Z"),
        ("2026-01-01T00:01:00.000001Z", "is in the future"),
        (datetime(2026, 1, 2, tzinfo=UTC), "is in the future"),
        ("2026-01-01", "not a moment"),
        ("7", "not a moment"),
        (0, "had no message before offset 0"),
        (-1, "there is no offset -1; the stream ends at offset 10"),
        (11, "there is no offset 11; the stream ends at offset 10"),
    ],
)
def test_what_is_no_moment_or_offset_of_the_stream_is_refused(point: Any, message: str) -> None:
    lake = captured()
    run(lake)
    with pytest.raises(SettingError, match=message):
        lake.table(TABLE, as_of=point)


def test_a_table_that_is_not_there_is_refused_as_ever() -> None:
    with pytest.raises(UnknownNameError, match="no table 't' in this lake"):
        captured().table(TABLE, as_of=1)


def test_a_table_of_a_statement_has_no_past() -> None:
    lake = captured()
    run(lake)
    state = structs.replace(lake.table(TABLE).state, sources=(), declaration={"sql": "SELECT 1"})
    with pytest.raises(SettingError, match="made by a statement"):
        Past.of(Maker(runner_of(lake), open_storage), state)


def test_a_row_of_the_past_is_not_traced() -> None:
    lake = captured()
    run(lake)
    with pytest.raises(SettingError, match="ask the table as it is now"):
        lake.table(TABLE, as_of=5).why({"id": 1})


def test_erased_records_were_never_there() -> None:
    lake = captured()
    run(lake)
    erase(lake, "id = 1")
    assert [rows_as_of(lake, offset) for offset in (2, 10)] == [
        [row for row in latest(offset) if row["id"] != 1] for offset in (2, 10)
    ]
    run(lake)
    assert rows_as_of(lake, 10) == [row for row in latest(10) if row["id"] != 1]


def test_what_expired_is_refused_by_the_first_offset_that_is_there() -> None:
    lake = captured()
    run(lake)
    expire(lake, 4)
    with pytest.raises(ExpiredMessagesError, match="have expired, those before offset 4"):
        lake.table(TABLE, as_of=8)
    runner_of(lake).run(LATEST, full_refresh=True)
    for point in (2, 4):
        with pytest.raises(ExpiredMessagesError, match="the first that is there has offset 4"):
            lake.table(TABLE, as_of=point)
    assert rows_as_of(lake, 6) == [{"id": 0, "name": "n4"}, {"id": 1, "name": "n5"}]


def test_a_stream_that_was_rebuilt_has_other_offsets() -> None:
    lake = captured()
    run(lake)
    state = lake.table(TABLE).state
    other = structs.replace(state, sources=(structs.replace(state.sources[0], lineage="other"),))
    with pytest.raises(LineageChangedError, match="run the table first"):
        Past.of(Maker(runner_of(lake), open_storage), other)


def test_columns_and_types_are_those_of_then() -> None:
    lake = captured([{"id": 1, "name": "a"}])
    wider = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {}, "age": {"type": "number"}}}
    add(lake, [{"id": 1, "name": 5, "age": 1.5}], schema=wider)
    run(lake)
    assert "age" not in lake.table(TABLE, as_of=1).schema.names
    assert rows_as_of(lake, 1) == [{"id": 1, "name": "a"}]
    assert rows_as_of(lake, 2) == [{"id": 1, "name": "5"}]


def test_a_check_counts_as_it_did_for_the_records_that_are_there() -> None:
    lake = captured()
    run(lake)
    later = replace(LATEST, checks=(Check("id", "> 5", condition_of("> 5"), Action.DROP),))
    add(lake, [{"id": n, "name": "x"} for n in (0, 9)])
    run(lake, later)
    now = lake.table(TABLE).to_arrow(columns=["id", "name"]).read_all().to_pylist()
    assert rows_as_of(lake, 12) == now == [*latest(10), {"id": 9, "name": "x"}]


@pytest.mark.parametrize("format", Format)
def test_the_format_of_a_table_makes_no_difference(format: Format) -> None:
    lake = captured()
    run(lake, replace(LATEST, format=format, keep=Keep.APPEND))
    assert rows_as_of(lake, 5) == TEN[:5]


def test_a_parquet_file_is_new_or_not_written(tmp_path: Path) -> None:
    lake = captured()
    run(lake)
    table = lake.table(TABLE, as_of=5)
    table.write_parquet(tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").equals(table.to_arrow().read_all())
    for path, why in (("t.parquet", "is there already"), ("no/t.parquet", "cannot be made")):
        with pytest.raises(SettingError, match=why):
            table.write_parquet(tmp_path / path)
    os.truncate(table.files()[0], 9)
    with pytest.raises(Exception, match="not those that were committed"):
        table.write_parquet(tmp_path / "broken.parquet")
    assert os.listdir(tmp_path) == ["t.parquet"]
