"""Statistics are those of the values, or not there."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from singerlake.errors import BrokenFileError, MissingFileError
from singerlake.tables.delta.publish import stats
from singerlake.tables.formats.parquet import Parquet
from tests.tables.delta.replay import check_stats
from tests.tables.delta.world import World
from tests.tables.formats import samples


@pytest.mark.parametrize("name", ["simple", "nested", "wide"])
def test_statistics_are_those_of_the_values(tmp_path: Path, name: str) -> None:
    table: pa.Table = getattr(samples, name)()
    path = tmp_path / "file"
    Parquet().write(table, path)
    world = World()
    world.storage.upload("published/t/f.parquet", path)
    key, size = "published/t/f.parquet", path.stat().st_size
    last = table.column_names[-1]
    told = json.loads(stats(world.storage, key, size, [last, "gone"]))
    assert told["numRecords"] == table.num_rows
    assert len(told["nullCount"]) == min(32, sum(not pa.types.is_nested(field.type) for field in table.schema))
    assert (last in told["nullCount"]) != pa.types.is_nested(table.schema.field(last).type)
    check_stats(told, table.to_pylist(), name)
    for column in told["minValues"]:
        own = table.schema.field(column).type
        assert not pa.types.is_floating(own)
        assert not pa.types.is_boolean(own)


@pytest.mark.parametrize("damage", ["gone", "empty", "text", "turned"])
def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "file"
    Parquet().write(samples.wide(), path)
    whole = path.read_bytes()
    world = World()
    begins = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    turned = whole[:begins] + whole[begins:-8][::-1] + whole[-8:]
    bodies = {"empty": b"", "text": b"x" * len(whole), "turned": turned}
    if damage in bodies:
        world.storage.put("published/t/f.parquet", bodies[damage])
    with pytest.raises((BrokenFileError, MissingFileError), match=r"published/t/f\.parquet"):
        stats(world.storage, "published/t/f.parquet", len(whole), [])


def test_long_texts_and_many_digits_have_no_ends(tmp_path: Path) -> None:
    table = pa.table(
        {
            "long": ["x" * 65, "a"],
            "short": ["x" * 64, None],
            "digits": pa.array([1, 2], pa.decimal128(16, 2)),
            "few": pa.array([1, 2], pa.decimal128(15, 14)),
            "none": pa.array([None, None], pa.int64()),
            "a.b": [2**60, -(2**60)],
        }
    )
    path = tmp_path / "file"
    Parquet().write(table, path)
    world = World()
    world.storage.upload("published/t/f.parquet", path)
    told = json.loads(stats(world.storage, "published/t/f.parquet", path.stat().st_size, []))
    assert told["minValues"] == {"short": "x" * 64, "few": 1.0, "a.b": -(2**60)}
    assert told["maxValues"] == {"short": "x" * 64, "few": 2.0, "a.b": 2**60}
    assert told["nullCount"] == {"long": 0, "short": 1, "digits": 0, "few": 0, "none": 2, "a.b": 0}
