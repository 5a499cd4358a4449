"""``singerlake status`` of a lake with tables: their last runs, how far they are behind, what they cannot tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.tables.state.keys import state_key
from tests.cli.conftest import Run
from tests.lakes import build_stream

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
TABLES = "tables:\n  people: {from: t.users, checks: {id: [not_null, {'< 3': warn}]}}\n  events: {from: u.events}\n"


@pytest.fixture
def shop(root: Path, tmp_path: Path) -> Lake:
    """Tap ``t`` with ``users`` and table ``people``, tap ``u`` with ``events`` and a table of that name."""
    lake = Lake.open(str(root))
    for tap, stream in (("t", "users"), ("u", "events")):
        build_stream(lake, tap, stream, SCHEMA, [{"id": n} for n in range(5)], key_properties=("id",))
    (tmp_path / "projections.yml").write_text(TABLES)
    lake.project(tmp_path / "projections.yml")
    return lake


def tables(text: str) -> list[list[str]]:
    """The cells of each row of the second table, without the time that a run ended, and its caption."""
    _, second, _ = text.split("\n\n")
    _, *rows, caption = second.splitlines()
    return [[*cells[:3], *cells[5:]] for cells in map(str.split, rows)] + [[caption.rpartition("/")[2]]]


def test_tables_stand_below_the_streams(run: Run, shop: Lake, tmp_path: Path) -> None:
    root = shop.storage.url
    result = run("status", root, "--runs", "3")
    assert result.exit_code == 0
    assert result.stdout.endswith("\n\n1 finding:\npeople: check id < 3 does not hold for 2 rows\n")
    assert tables(result.stdout) == [
        ["events", "u.events", "run", "5", "5", "0", "0", "0"],
        ["people", "t.users", "run", "5", "5", "0", "0", "2", "rows", "failed", "0"],
        ["lake: 2 tables"],
    ]
    build_stream(shop, "t", "users", SCHEMA, [{"id": 1}], key_properties=("id",))
    shop.project(tmp_path / "projections.yml", tables=["people"])
    build_stream(shop, "t", "users", SCHEMA, [{"id": 1}, {"id": 2}], key_properties=("id",))
    assert tables(run("status", root, "--runs", "3").stdout) == [
        ["events", "u.events", "run", "5", "5", "0", "0", "0"],
        ["people", "t.users", "run", "1", "0", "1", "0", "2", "held", "2"],
        ["people", "t.users", "run", "5", "5", "0", "0", "2", "rows", "failed"],
        ["lake: 2 tables, 1 behind"],
    ]
    assert len(tables(run("status", root, "--runs", "1").stdout)) == 3


def test_without_runs_each_table_is_a_line(run: Run, shop: Lake) -> None:
    _, second, _ = run("status", shop.storage.url).stdout.split("\n\n")
    _, events, people, caption = second.splitlines()
    assert [events.split()[:2], events.split()[4:]] == [["events", "u.events"], ["0"]]
    assert people.split()[4:] == ["2", "rows", "failed", "0"]
    assert caption.endswith("lake: 2 tables")


def test_a_lake_without_tables_tells_of_streams_alone(run: Run, lake: Lake) -> None:
    told = run("status", lake.storage.url).stdout
    assert "TABLE" not in told
    assert told.endswith("\n\nnothing needs a look\n")
    assert json.loads(run("status", lake.storage.url, "--json").stdout)["tables"] == []


def test_a_tap_has_its_own_tables(run: Run, shop: Lake) -> None:
    for chosen in (("--tap", "t"), ("--tap", "t", "--stream", "users")):
        found = json.loads(run("status", shop.storage.url, *chosen, "--json").stdout)["tables"]
        assert [each["table"] for each in found] == ["people"]


def test_as_json(run: Run, shop: Lake) -> None:
    (_, people) = json.loads(run("status", shop.storage.url, "--json").stdout)["tables"]
    (last,) = people.pop("runs")
    assert people == {
        "table": "people",
        "tap": "t",
        "stream": "users",
        "made_from": [],
        "offset": 5,
        "behind": 0,
        "checks": 2,
        "trouble": None,
        "mixed_keys": {},
    }
    assert (last["kind"], last["from"], last["to"], last["inserted"]) == ("run", 0, 5, 5)
    assert last["checks"] == {"id < 3": 2}


def test_all_messages_are_new_to_a_table_whose_stream_was_rebuilt(run: Run, shop: Lake) -> None:
    shop.storage.delete(layout.manifest_key("u", "events"))
    assert run("rebuild", "--yes", shop.storage.url, "--tap", "u").exit_code == 0
    (events, _) = json.loads(run("status", shop.storage.url, "--json").stdout)["tables"]
    assert (events["offset"], events["behind"]) == (5, 5)


def test_what_cannot_be_told_is_said(run: Run, shop: Lake) -> None:
    shop.storage.put(state_key("events"), b"{")
    shop.storage.delete(layout.manifest_key("t", "users"))
    result = run("status", shop.storage.url)
    assert result.exit_code == 1
    assert "events: not the state of a table" in result.stdout
    assert tables(result.stdout)[1][-2:] == ["rows", "failed"], "nobody knows how far it is behind"
    found = json.loads(run("status", shop.storage.url, "--json").stdout)["tables"]
    assert [(each["table"], each["behind"], bool(each["trouble"])) for each in found] == [
        ("events", None, True),
        ("people", None, False),
    ]
