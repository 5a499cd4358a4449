"""The key in force is that of the stream's newest SCHEMA message, for everybody who asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.errors import CheckFailedError, SettingError
from singerlake.format.state.manifest import to_json
from singerlake.format.state.selection import schema_in_force
from singerlake.lake import Lake
from singerlake.site.facts import gather
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.declaration.streams import everything, resolve
from singerlake.tables.maintain.verify import verify_rows
from singerlake.tables.project import plan_tables
from singerlake.upkeep.gc.expire import Cut, expire_messages
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.everywhere.erasing import context_of, vacuum
from tests.lakes import build_stream
from tests.tap.runs import discover, replay

TAP, STREAM = "tap-a", "s"
NARROW = {"type": "object", "properties": {"id": {"type": "integer"}, "v": {"type": "string"}}}
WIDE = {"type": "object", "properties": {**NARROW["properties"], "k": {"type": "integer"}}}

Step = tuple[Any, list[str], str]
"""One capture: the schema, the key and the one record's ``v``."""
HISTORIES: dict[str, list[Step]] = {
    "a version comes back with another key": [(NARROW, ["id"], "a"), (WIDE, ["id"], "b"), (NARROW, ["v"], "c")],
    "a rollback": [(NARROW, ["id"], "a"), (WIDE, ["id", "k"], "b"), (NARROW, ["id"], "c")],
    "a version goes on with another key": [(NARROW, ["id"], "a"), (NARROW, ["v"], "b")],
    "a key is taken away": [(NARROW, ["id"], "a"), (WIDE, ["id", "k"], "b"), (WIDE, [], "c")],
    "a version is new": [(NARROW, ["id"], "a"), (WIDE, ["v"], "b")],
    "to and fro": [(NARROW, ["id"], "a"), (WIDE, ["k"], "b"), (NARROW, ["v"], "c"), (WIDE, ["id"], "d")],
}


def stay(lake: Lake) -> None:
    """Nothing is done."""


def join(lake: Lake) -> None:
    vacuum(lake, TAP, STREAM)


def expire(lake: Lake) -> None:
    """All messages expire."""
    end = lake.stream(TAP, STREAM).snapshot().next_offset
    assert expire_messages(context_of(lake, TAP, STREAM), Cut(before=end), dry_run=False).floor == end


def lose_manifest(lake: Lake) -> None:
    lake.storage.delete(f"raw/{TAP}/{STREAM}/manifest.json")
    assert not repair_stream(context_of(lake, TAP, STREAM), RepairOptions()).findings


def lose_schemas(lake: Lake) -> None:
    """What the state says of schemas is another's, and is mended from the files."""
    state = lake.stream(TAP, STREAM).snapshot()
    wrong = {version: msgspec.structs.replace(held, schema={}) for version, held in state.schemas.items()}
    lake.storage.put(f"raw/{TAP}/{STREAM}/manifest.json", to_json(msgspec.structs.replace(state, schemas=wrong)))
    repair_stream(context_of(lake, TAP, STREAM), RepairOptions())


def captured(root: Path, history: list[Step], *, first: int = 0) -> Lake:
    lake = Lake.open(str(root))
    for number, (schema, key, value) in enumerate(history, first):
        record = {name: {"id": 1, "v": value, "k": number}[name] for name in schema["properties"]}
        build_stream(
            lake, TAP, STREAM, schema, [record], key_properties=key, bookmark_properties=[*key, "v"], store="lockfile"
        )
    return lake


def of_table(lake: Lake) -> list[str]:
    (found,), _ = resolve([everything()], {TAP: [STREAM]})
    (result,) = plan_tables(lake.table_runner(), [found])
    assert result.plan is not None, result.error
    return list(result.plan.key)


def of_declared_table(lake: Lake) -> list[str]:
    declared = TableDeclaration(name="t", tap=TAP, stream=STREAM)
    if not of_catalogue(lake):
        with pytest.raises(SettingError, match="has no key"):
            lake.table_runner().plan(declared)
        return []
    return list(lake.table_runner().plan(declared).key)


def of_discovery(lake: Lake) -> list[str]:
    (entry,) = discover(lake.storage.url)["streams"]
    assert entry["metadata"][0]["metadata"]["table-key-properties"] == entry["key_properties"]
    return list(entry["key_properties"])


def of_catalogue(lake: Lake) -> list[str]:
    return list(lake.catalogue(TAP)["streams"][0]["key_properties"])


def of_replay(lake: Lake) -> list[str]:
    return list(replay(lake.storage.url).of("SCHEMA")[-1]["key_properties"])


def of_site(lake: Lake) -> list[str]:
    ((stream,),) = (tap.streams for tap in gather(lake).taps)
    assert stream.current is not None
    return list(stream.current.schema.key_properties)


@pytest.mark.parametrize("then", [stay, join, expire, lose_manifest, lose_schemas])
@pytest.mark.parametrize("name", HISTORIES)
def test_the_newest_schema_message_says_the_key(tmp_path: Path, name: str, then: Callable[[Lake], None]) -> None:
    lake = captured(tmp_path, HISTORIES[name])
    then(lake)
    newest = HISTORIES[name][-1][1]
    force = schema_in_force(lake.stream(TAP, STREAM).snapshot())
    assert force is not None
    assert force.schema == HISTORIES[name][-1][0]
    assert list(force.key_properties) == newest
    assert list(force.bookmark_properties) == [*newest, "v"]
    for asked in (of_table, of_declared_table, of_discovery, of_catalogue, of_replay, of_site):
        assert asked(lake) == newest, asked.__name__


def test_a_table_has_a_row_for_each_key_in_force(tmp_path: Path) -> None:
    lake = captured(tmp_path, [*HISTORIES["a version comes back with another key"], (NARROW, ["v"], "d")])
    lake.project(all=True)
    assert sorted(lake.table(STREAM).to_arrow(columns=["v"]).read_all()["v"].to_pylist()) == ["a", "b", "c", "d"]


def test_a_table_goes_through_a_rollback(tmp_path: Path) -> None:
    first, second, back = HISTORIES["a rollback"]
    captured(tmp_path, [first]).project(all=True)
    with pytest.raises(CheckFailedError, match="key not_null: 1 row, as at offset 0"):
        captured(tmp_path, [second], first=1).project(all=True)
    lake = captured(tmp_path, [back], first=2)
    lake.project(all=True)
    assert lake.table(STREAM).to_arrow(columns=["id", "v"]).read_all().to_pylist() == [{"id": 1, "v": "c"}]


def test_verify_holds_a_table_to_the_key_that_was_in_force_when_it_was_made(tmp_path: Path) -> None:
    captured(tmp_path, [(NARROW, ["id"], "a"), (NARROW, ["id"], "b")]).project(all=True)
    lake = captured(tmp_path, [(NARROW, ["v"], "c")], first=2)
    vacuum(lake, TAP, STREAM)
    assert list(verify_rows(lake.table_runner(), lake.table(STREAM).state)) == []


def test_after_all_expired_the_next_messages_say_the_key_again(tmp_path: Path) -> None:
    lake = captured(tmp_path, HISTORIES["a rollback"])
    expire(lake)
    captured(tmp_path, [(WIDE, ["id", "k"], "d")], first=3)
    assert of_table(lake) == ["id", "k"]
    expire(lake)
    assert of_table(lake) == ["id", "k"]
    # Of two marks none would say which one counts.
    assert [held.newest for held in lake.stream(TAP, STREAM).snapshot().schemas.values()] == [msgspec.UNSET] * 2
