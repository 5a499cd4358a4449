"""Tables of a stream with attached files: its records, and no column of files."""

from __future__ import annotations

from pathlib import Path

from singerlake.lake import Lake
from tests.attached.lakes import attach


def test_a_table_has_the_records_alone(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    attach(lake, "t", "photos", [[b"a"], [], [b"b"]])
    [made] = lake.project(all=True)
    assert (made.status, made.rows) == ("made", 3)
    table = lake.table(made.name).to_arrow().read_all()
    assert "_singerlake_files" not in table.schema.names
    assert table.column("photo").to_pylist() == ["0.jpg", "1.jpg", "2.jpg"]
    attach(lake, "t", "photos", [[b"c"]], first_id=3)
    [again] = lake.project(all=True)
    assert (again.status, again.rows) == ("made", 4)
