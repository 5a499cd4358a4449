"""What is told of a row that a statement made: the tables that it reads, and no guess."""

from __future__ import annotations

import pytest

from singerlake.errors import SettingError, UnknownNameError
from singerlake.lake import Lake
from tests.tables.sql.engine import Ids
from tests.tables.sql.tables import made_by, run, source


def test_it_names_the_tables_that_the_statement_read_and_their_rows_are_asked_for_themselves(
    lake: Lake, engine: Ids
) -> None:
    run(lake, engine, made_by("last", "middle"), made_by("middle", "base"), source())
    found = lake.table("last").why({"id": 1})
    assert (found.reads, found.record, found.offset) == (("middle",), None, None)
    assert [(cell.column, cell.value, cell.pointer) for cell in found.cells] == [("id", 1, None)]
    assert "is not known" in found.trouble  # type: ignore[operator]
    assert lake.table("middle").why({"id": 1}).reads == ("base",)
    assert lake.table("base").why({"id": 1}).offset == 1
    with pytest.raises(UnknownNameError, match="no row"):
        lake.table("last").why({"id": 7}, missing=True)
    with pytest.raises(SettingError, match="no offset"):
        lake.table("last").why(offset=1)
