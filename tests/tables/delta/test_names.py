"""Names that Delta does not take are refused before anything is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from singerlake.arrow.schema.columns import Array, Field, Integer, Struct
from singerlake.errors import SettingError
from singerlake.tables.declaration.model import ColumnRule, Format, TableDeclaration
from singerlake.tables.sql.write import statement_columns
from singerlake.tables.state.commit import load
from tests.tables.delta.world import DECLARED, PROPERTIES, World


@pytest.mark.parametrize("character", list(" ,;{}()\n\t="))
def test_names_that_delta_does_not_take_are_refused(character: str) -> None:
    bad = f"a{character}b"
    world = World({**PROPERTIES, bad: {"type": "integer"}})
    world.capture()
    with pytest.raises(SettingError, match="has a name that Delta does not take; set 'rename' for it"):
        world.run()
    assert load(world.storage, "t") is None
    world.run(replace(DECLARED, columns={bad: ColumnRule(rename="ab")}))
    world.check()
    nested = World({**PROPERTIES, "o": {"type": "array", "items": {"type": "object", "properties": {bad: {}}}}})
    nested.capture()
    with pytest.raises(SettingError, match="which Delta does not take; set 'cast: json'"):
        nested.run()
    nested.run(replace(DECLARED, columns={"o": ColumnRule(cast="json")}))
    nested.check()


def test_odd_names_of_tables_are_refused() -> None:
    world = World()
    world.capture()
    with pytest.raises(SettingError, match="name it with ASCII letters, digits"):
        world.run(replace(DECLARED, name="my table"))
    world.run(replace(DECLARED, format=Format.PARQUET))


def test_names_that_a_statement_gives_are_mended_there() -> None:
    declared = TableDeclaration(
        name="t", tap="", stream="", sql="SELECT", format=Format.DELTA, written_at={"sql": ("projections.yml", 3)}
    )
    bad = Field("a b", Integer())
    for column, hint in ((bad, "name it otherwise with AS"), (Field("a", Array(Struct((bad,)))), "write to_json")):
        with pytest.raises(SettingError, match=hint) as raised:
            statement_columns(declared, Struct((column,)))
        assert raised.value.context["line"] == 3
