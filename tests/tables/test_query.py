"""SQL over tables and raw streams: the rows of the lake's own readers, and nothing that writes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import MissingFileError, SettingError, UnknownNameError
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Format, Keep
from singerlake.tables.query import quoted
from tests.lakes import build_stream
from tests.tables.delta.test_readers import DECLARED, PROPERTIES, capture, lake_in, record
from tests.tables.delta.world import World
from tests.tables.tables import STREAM, TAP, runner_of

RAW_NAME = f'raw."{TAP}"."{STREAM}"'
HOSTILE = ['a b"c', "x;DROP", "ü.y", "sel'ect", "1", "A"]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Every type, and a column that came later."""
    made = lake_in(tmp_path / "a [lake]*?'s")
    capture(made, PROPERTIES, [record(id, 0) for id in range(6)])
    runner_of(made).run(replace(DECLARED, format=Format.PARQUET))
    later = {**PROPERTIES, "new": {"type": ["null", "integer"]}}
    capture(made, later, [{**record(id, 1), "new": id} for id in range(4, 9)])
    runner_of(made).run(replace(DECLARED, format=Format.PARQUET))
    return made


def rows_of(found: Any) -> list[dict[str, Any]]:
    return sorted((dict(zip(found.columns, row, strict=True)) for row in found.fetchall()), key=str)


@pytest.mark.parametrize("format", [Format.PARQUET, Format.CSV, Format.AVRO])
@pytest.mark.parametrize("keep", [Keep.LATEST, Keep.HISTORY])
def test_a_table_is_what_its_own_reader_finds(lake: Lake, format: Format, keep: Keep) -> None:
    runner_of(lake).run(replace(DECLARED, format=format, keep=keep))
    wanted = sorted(lake.table("t").to_arrow().read_all().to_pylist(), key=str)
    columns = [name for name in lake.table("t").schema.names if name != "at" and "valid" not in name]
    found = rows_of(lake.sql(f"SELECT {', '.join(map(quoted, columns))} FROM t"))
    assert found == sorted(({name: row[name] for name in columns} for row in wanted), key=str)
    assert lake.sql("SELECT count(*), count(new) FROM T").fetchall() == [
        (len(wanted), sum(row["new"] is not None for row in wanted))
    ]


def test_raw_streams_are_records_and_only_needed_columns_are_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = type(lake.stream(TAP, STREAM)).to_arrow

    def noted(stream: Any, **more: Any) -> Any:
        asked.append(more["columns"])
        return real(stream, **more)

    monkeypatch.setattr(type(lake.stream(TAP, STREAM)), "to_arrow", noted)
    assert lake.sql(f"SELECT count(*) FROM {RAW_NAME} WHERE id > 3").fetchall() == [(7,)]
    assert asked == [None, ["id"]]
    both = lake.sql(f"SELECT count(*) FROM {RAW_NAME} a JOIN {RAW_NAME} b USING (id) JOIN t USING (id)")
    assert both.fetchall() == [(15,)]
    assert both.fetchall() == [(15,)], "a relation can be read again"


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT ad.city FROM raw.main.s", [("Bonn",)]),
        ("SELECT id FROM raw.main.s WHERE ad.city = 'Bonn'", [(1,)]),
        ("SELECT ad.place.x FROM raw.main.s", [(7,)]),
        ('SELECT "ad.city" FROM raw.main.s', [("Ulm",)]),
        ('SELECT "ID_2" FROM raw.main.s', [("U1",)]),
        ('SELECT "ID" FROM raw.main.s', [(1,)]),
        ('SELECT id, "ID_2", ad.city FROM raw.main.s', [(1, "U1", "Bonn")]),
        ("SELECT s.ID_2 FROM raw.main.s s JOIN RAW.main.s t ON s.id = t.id", [("U1",)]),
    ],
)
def test_a_raw_stream_has_the_names_that_tables_have(lake: Lake, statement: str, rows: list[Any]) -> None:
    place = {"type": "object", "properties": {"x": {"type": "integer"}}}
    ad = {"type": "object", "properties": {"city": {"type": "string"}, "place": place}}
    text = {"type": "string"}
    schema = {"properties": {"id": {"type": "integer"}, "ID": text, "ad": ad, "ad.city": text}}
    record = {"id": 1, "ID": "U1", "ad": {"city": "Bonn", "place": {"x": 7}}, "ad.city": "Ulm"}
    build_stream(lake, "main", "s", schema, [record])
    assert lake.sql(statement).fetchall() == rows


def test_streams_whose_names_differ_in_case_alone_are_asked_one_by_one(lake: Lake) -> None:
    for name in ("s", "S"):
        build_stream(lake, "x", name, {"properties": {"id": {"type": "integer"}}}, [{"id": 1}])
    assert lake.sql("SELECT id FROM raw.x.S").fetchall() == [(1,)]
    with pytest.raises(SettingError, match="differ in case"):
        lake.sql('SELECT * FROM raw.x.s, raw.x."S"')


def test_a_table_far_away_is_read_by_ranges_of_its_files() -> None:
    world = World()
    build_stream(
        world.lake, TAP, STREAM, {"properties": world.properties}, [{"id": n, "v": "x" * 99} for n in range(9)]
    )
    world.run(replace(DECLARED, keep=Keep.APPEND, format=Format.PARQUET))
    asked: list[str] = []
    world.storage.hook = lambda step: asked.append(step.operation)
    assert world.lake.sql("SELECT sum(id) FROM t").fetchall() == [(36,)]
    assert "open" not in asked
    assert "read_range" in asked
    assert not {"put", "upload", "delete"} & set(asked)


def test_a_table_that_has_no_file_has_its_columns() -> None:
    world = World()
    schema = {"properties": {**world.properties, "_sdc_deleted_at": {"type": ["null", "string"]}}}
    build_stream(world.lake, TAP, STREAM, schema, [{"id": 1, "_sdc_deleted_at": "x"}], key_properties=["id"])
    world.run(replace(DECLARED, format=Format.PARQUET))
    found = world.lake.sql("SELECT id, v FROM t")
    assert (found.fetchall(), [str(each) for each in found.types]) == ([], ["BIGINT", "VARCHAR"])


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "-- nothing",
        "SELECT 1; SELECT 2",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO t SELECT * FROM t",
        "DELETE FROM t",
        "COPY t TO '/tmp/never'",
        "EXPORT DATABASE '/tmp/never'",
        "ATTACH '/tmp/never' AS x",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '1TB'",
        "PRAGMA database_list",
        "EXPLAIN ANALYZE DELETE FROM t",
        "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "SELECT nope FROM t",
        "SELEC 1",
        "SELECT * FROM read_parquet('https://example.org/x.parquet')",
    ],
)
def test_what_does_not_read_or_cannot_be_is_refused(lake: Lake, statement: str) -> None:
    with pytest.raises(SettingError) as raised:
        lake.sql(statement).fetchall()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("SELECT * FROM tt", "no table 'tt' in this lake; did you mean 't'?"),
        (f"SELECT * FROM raw.nope.{STREAM}", "no tap 'nope' in this lake; it has"),
        (f'SELECT * FROM raw."{TAP}".nope', "has no stream 'nope'; it has"),
    ],
)
def test_what_is_not_there_is_named(lake: Lake, statement: str, says: str) -> None:
    with pytest.raises(UnknownNameError, match=says.replace("?", r"\?")):
        lake.sql(statement)


def test_tables_whose_names_differ_in_case_alone_are_asked_one_by_one(lake: Lake) -> None:
    runner_of(lake).run(replace(DECLARED, name="T", format=Format.PARQUET))
    assert lake.sql("SELECT count(*) FROM T").fetchall() == lake.sql("SELECT count(*) FROM t").fetchall()
    with pytest.raises(SettingError, match="does not tell tables 't' and 'T' apart"):
        lake.sql("SELECT * FROM t, T")


def test_tables_are_listed_and_described(lake: Lake) -> None:
    assert lake.sql("SHOW TABLES").fetchall() == [("t",)]
    assert lake.sql("DESCRIBE t").fetchall()[0][:2] == ("id", "BIGINT")
    assert lake.sql("WITH u AS (FROM t) SELECT count(*) FROM u, (FROM T LIMIT 1)").fetchall() == [(9,)]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_break_out(tmp_path: Path, name: str) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    build_stream(lake, name, name, {"properties": {name: {"type": "integer"}}}, [{name: 7}], key_properties=[name])
    lake.project(all=True)
    for of in (quoted(name), quoted("raw", name, name)):
        assert lake.sql(f"SELECT {quoted(name)} FROM {of} AS x").fetchall() == [(7,)]


def test_a_file_that_is_gone_is_an_error_and_no_row(lake: Lake) -> None:
    found = lake.sql("SELECT * FROM t")
    for path in Path(lake.storage.url).rglob("published/t/g1/*.parquet"):
        path.unlink()
    error: Callable[..., Any] = pytest.raises
    with error(Exception, match="No such file|cannot open|No files|Cannot open"):
        found.fetchall()
    assert MissingFileError.kind == "missing_file"


def test_nothing_stays_on_the_disk(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    both = "range(2000000) a(x) JOIN range(2000000) b(x) USING (x)"
    found = lake.sql(f"SELECT a.x FROM {both} ORDER BY 1", memory=64 << 20)
    assert found.aggregate("count(*)").fetchall() == [(2_000_000,)]
    assert found.aggregate("max(x)").fetchall() == [(1_999_999,)]
    del found
    gc.collect()
    assert list((tmp_path / "scratch").iterdir()) == []
