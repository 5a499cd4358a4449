"""Programs that write to the Delta table of a lake do no lasting harm."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import deltalake
import pytest

from singerlake.tables.declaration.model import Format, Keep
from singerlake.tables.maintain.collect import collect_table
from singerlake.tables.maintain.verify import verify_derived
from singerlake.tables.read import LakeTable
from tests.tables.delta.test_readers import DECLARED, PROPERTIES, capture, check_readers, lake_in, record
from tests.tables.tables import runner_of, small_sizes


def test_what_deltalake_would_vacuum_is_no_part_of_the_table(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    declared = replace(DECLARED, keep=Keep.HISTORY, order_by=("at",))
    for turn in range(2):
        capture(lake, PROPERTIES, [record(id, turn) for id in (0, 0, 1, 2)])
        runner_of(lake).run(declared)
    table = LakeTable.load(lake.storage, "t")
    assert any(file.hidden for file in table.state.files)
    found = deltalake.DeltaTable(str(tmp_path / "published/t"))
    doomed = found.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True)
    assert set(doomed) == {file.path for file in table.state.retired if not file.path.startswith("_")}


def test_what_deltalake_optimizes_the_next_run_undoes(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    with small_sizes({"rows": 2}):
        capture(lake, PROPERTIES, [record(id, 0) for id in range(8)])
        runner_of(lake).run(DECLARED)
    table = LakeTable.load(lake.storage, "t")
    assert len(table.state.files) > 1
    deltalake.DeltaTable(str(tmp_path / "published/t")).optimize.compact()
    (other,) = deltalake.DeltaTable(str(tmp_path / "published/t")).to_pyarrow_dataset().files
    assert [found.what for found in verify_derived(lake.storage, table.state)]
    runner_of(lake).run(DECLARED)
    assert list(verify_derived(lake.storage, table.state)) == []
    check_readers(tmp_path, table)

    def collect(days: float) -> None:
        now = lake.clock.now() + timedelta(days=days)
        collect_table(lake.storage, "t", now=lambda: now, grace=timedelta(days=7), clock=lake.clock, ids=lake.ids)

    # Readers may have a version that names the file.
    collect(6)
    assert (tmp_path / "published/t" / other).exists()
    collect(8)
    assert not (tmp_path / "published/t" / other).exists()
    check_readers(tmp_path, LakeTable.load(lake.storage, "t"))


@pytest.mark.parametrize("keep", [Keep.APPEND, Keep.LATEST])
def test_rows_that_deltalake_writes_are_gone_with_the_next_run(tmp_path: Path, keep: Keep) -> None:
    lake = lake_in(tmp_path)
    capture(lake, PROPERTIES, [record(1, 0)])
    declared = replace(DECLARED, keep=keep, format=Format.DELTA)
    runner_of(lake).run(declared)
    rows = LakeTable.load(lake.storage, "t").to_arrow().read_all()
    deltalake.write_deltalake(str(tmp_path / "published/t"), rows, mode="append")
    assert deltalake.DeltaTable(str(tmp_path / "published/t")).to_pyarrow_table().num_rows == 2
    runner_of(lake).run(declared)
    assert check_readers(tmp_path, LakeTable.load(lake.storage, "t")).version() == 2
