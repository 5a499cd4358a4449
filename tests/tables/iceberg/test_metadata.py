"""What is in a table's Iceberg metadata, by the specification's text, and who may change it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import CorruptObjectError, SettingError, StorageUnavailableError, UnknownOutcomeError
from singerlake.storage.port import Refused, Written
from singerlake.tables.declaration.model import ColumnRule, Format, Keep
from singerlake.tables.iceberg import publish as publish_module
from singerlake.tables.iceberg.metadata import version_key
from singerlake.tables.iceberg.publish import disagreements, publish
from singerlake.tables.maintain.collect import collect_table, plan_collection
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.maintain.verify import verify_derived
from tests.lakes import build_stream
from tests.storage.memory import MemoryStorage, Step
from tests.tables.delta.test_readers import lake_in
from tests.tables.iceberg.seen import entries, rows_in, seen
from tests.tables.iceberg.world import DECLARED, GRACE, PROPERTIES, World
from tests.tables.tables import STREAM, TAP, runner_of

NESTED = {
    "tags": {"type": ["null", "array"], "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "price": {"type": ["null", "string"], "format": "singer.decimal", "precision": 20, "scale": 4},
}


def ordered(id: int) -> dict[str, Any]:
    """The field of an order."""
    return {"transform": "identity", "source-id": id, "direction": "asc", "null-order": "nulls-last"}


def test_metadata_is_what_the_specification_asks_for() -> None:
    world = World({**PROPERTIES, **NESTED})
    world.turns(1)
    made = world.check()
    location = f"{world.storage.url}/published/t"
    assert (made.version, made.body["format-version"], made.body["location"]) == (1, 2, location)
    assert [made.body[name] for name in ("partition-specs", "sort-orders", "last-partition-id")] == [
        [{"spec-id": 0, "fields": []}],
        [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": [ordered(1)]}],
        999,
    ]
    fields = made.body["schemas"][0]["fields"]
    element = {"type": "struct", "fields": [{"id": 5, "name": "x", "required": False, "type": "long"}]}
    tags = {"type": "list", "element-id": 4, "element": element, "element-required": False}
    assert [(each["id"], each["name"], each["type"], each["required"]) for each in fields] == [
        (1, "id", "long", False),
        (2, "v", "string", False),
        (3, "tags", tags, False),
        (6, "at", "timestamptz", False),
        (7, "price", "decimal(20, 4)", False),
        (8, "_singerlake_offset", "long", False),
        (9, "_singer_version", "long", False),
        (10, "_rescued_data", "string", False),
    ]
    assert made.body["last-column-id"] == 10
    (file,) = world.state.files
    (entry,) = entries(world.storage, made, made.current)
    assert (entry["status"], entry["snapshot_id"]) == (1, made.current["snapshot-id"])
    assert entry["data_file"]["file_path"] == f"{location}/{file.path}"
    assert entry["data_file"]["lower_bounds"] is entry["data_file"]["value_counts"] is None
    assert made.current["summary"]["singerlake.number"] == str(world.state.number)
    assert made.current["summary"]["operation"] == "append"
    world.turns(1)
    second = world.check()
    assert second.current["summary"]["operation"] == "overwrite"
    assert second.body["table-uuid"] == made.body["table-uuid"]


def test_other_tables_have_no_ids_and_no_metadata() -> None:
    world = World()
    world.capture()
    world.run(replace(DECLARED, iceberg=False))
    assert world.metadata == {}
    stored = world.storage.get("published/t/_table.json")
    assert stored is not None
    assert "ids" not in json.loads(stored.body)
    assert "also" not in world.state.declaration
    world.run()
    world.check()
    assert world.state.generation == 2, "all files say ids"
    world.run(replace(DECLARED, iceberg=False))
    assert world.state.generation == 3


def test_columns_keep_their_ids_and_others_get_new_ones() -> None:
    """A column that goes and comes again is the same one; of another type it is another, and all that is in it."""
    world = World()

    def turn(properties: dict[str, Any], **declared: Any) -> dict[str, int]:
        world.properties = properties
        world.capture()
        world.run(replace(DECLARED, **declared))
        made = world.check()
        schema = next(each for each in made.body["schemas"] if each["schema-id"] == made.body["current-schema-id"])
        return {each["name"]: each["id"] for each in schema["fields"]}

    place = {"type": ["null", "object"], "properties": {"x": {"type": "integer"}}}
    first = turn({**PROPERTIES, "place": place})
    wider = {**place, "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}}
    second = turn({**PROPERTIES, "place": wider, "new": {"type": "integer"}})
    assert {name: second[name] for name in first} == first
    assert second["new"] > max(first.values())
    third = turn({**PROPERTIES, "place": wider, "new": {"type": "string"}})
    assert third["new"] > max(second.values())
    assert {name: third[name] for name in first} == first
    gone = {"place": ColumnRule(drop=True)}
    assert turn({**PROPERTIES, "place": wider}, columns=gone).keys() == third.keys() - {"place"}
    again = turn({**PROPERTIES, "place": wider})
    assert again == third
    renamed = turn({**PROPERTIES, "place": wider}, columns={"v": ColumnRule(rename="w")})
    assert renamed["w"] > max(again.values())
    text = turn({**PROPERTIES, "place": wider}, columns={"place": ColumnRule(cast="json")})
    assert text["place"] > renamed["w"]
    assert turn({**PROPERTIES, "place": wider}) == again
    assert len(world.check().snapshots) == 8


@pytest.mark.parametrize("keep", [Keep.APPEND, Keep.LATEST, Keep.HISTORY])
def test_a_run_with_nothing_new_brings_the_metadata_up(keep: Keep) -> None:
    world = World()
    declared = replace(DECLARED, keep=keep)
    for _ in range(3):
        world.capture()
        world.run(declared)
    before = world.metadata
    world.run(declared)
    assert world.metadata == before
    del before["version-hint.text"]
    world.storage.put("published/t/metadata/version-hint.text", b"1\n")
    assert [each.what for each in verify_derived(world.storage, world.state)] == [
        "version-hint.text does not name the newest Iceberg metadata; run 'singerlake project run'"
    ]
    world.run(declared)
    world.check()


def test_a_run_that_died_before_the_metadata_is_made_up_for() -> None:
    world = World()
    world.turns(2)
    world.behind()
    (found,) = verify_derived(world.storage, world.state)
    assert found.what == "the Iceberg metadata is behind the table; run 'singerlake project run'"
    made = seen(world.storage)
    assert rows_in(world.storage, made, made.current) == world.was[made.current["summary"]["singerlake.id"]]
    world.run()
    assert len(world.check().snapshots) == 3


def test_an_empty_table_and_an_emptied_one_are_read() -> None:
    world = World()
    schema = {"properties": {**PROPERTIES, "_sdc_deleted_at": {"type": ["null", "string"]}}}
    listed = []
    for gone in ("2026-01-01", None, "2026-01-02", None):
        records = [{"id": 1, "v": "x", "_sdc_deleted_at": gone}]
        build_stream(world.lake, TAP, STREAM, schema, records, key_properties=["id"])
        world.run()
        made = world.check()
        listed.append([each["status"] for each in entries(world.storage, made, made.current)])
    assert listed == [[], [1], [2], [1]]


@pytest.mark.parametrize("at", range(14))
def test_a_writer_that_slept_takes_nothing_back(at: int) -> None:
    """Between any two of its requests others write the table, and the metadata."""
    world = World()
    world.turns(1)
    world.behind()
    steps: list[Step] = []

    def hook(step: Step) -> None:
        steps.append(step)
        if len(steps) == at + 1:
            world.storage.hook = lambda step: None
            world.turns(2)

    world.storage.hook = hook
    publish(world.storage, "t", world.clock)
    assert len(steps) > at or at >= 8
    made = world.check()
    numbers = [int(each["summary"]["singerlake.number"]) for each in made.snapshots]
    assert numbers == sorted(set(numbers)), "a snapshot shows an older table than the one before it"


@pytest.mark.parametrize("at", range(14))
def test_a_writer_that_dies_anywhere_leaves_a_table_that_was(at: int) -> None:
    world = World()
    world.turns(2)
    world.behind()
    steps: list[Step] = []

    def hook(step: Step) -> None:
        steps.append(step)
        if len(steps) == at + 1:
            raise StorageUnavailableError("away")

    world.storage.hook = hook
    try:
        publish(world.storage, "t", world.clock)
    except StorageUnavailableError:
        assert len(steps) == at + 1
    world.storage.hook = lambda step: None
    for by_hint in (False, True):
        made = seen(world.storage, by_hint=by_hint)
        assert rows_in(world.storage, made, made.current) == world.was[made.current["summary"]["singerlake.id"]]
    world.run()
    assert len(world.check().snapshots) == 3


@pytest.mark.parametrize("took_effect", [True, False])
def test_a_version_without_an_answer_is_looked_for(took_effect: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.turns(1)
    world.behind()
    lost = []

    class Lossy(MemoryStorage):
        def put(
            self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None
        ) -> Written | Refused:
            if lost or not key.endswith(".metadata.json"):
                return super().put(key, body, if_absent=if_absent, if_match=if_match)
            lost.append(key)
            if took_effect:
                super().put(key, body, if_absent=if_absent, if_match=if_match)
            raise UnknownOutcomeError("no answer")

    storage = Lossy(clock=world.clock, ids=world.lake.ids)
    monkeypatch.setattr(Lossy, "url", world.storage.url)
    storage._objects = world.storage._objects
    publish(storage, "t", world.clock)
    assert lost == [version_key("t", 2)]
    assert len(world.check().snapshots) == 2


@pytest.mark.parametrize("damage", ["cut", "no_json", "list_gone", "manifest_cut", "manifest_gone", "foreign", "moved"])
def test_what_cannot_be_gone_on_from_is_made_anew(damage: str) -> None:
    world = World()
    world.turns(3)
    made = world.check()
    key = version_key("t", 3)
    manifest_list = made.current["manifest-list"].removeprefix(f"{world.storage.url}/")
    body = dict(made.body)
    if damage == "cut":
        world.storage.put(key, json.dumps(body).encode()[:-9])
    elif damage == "no_json":
        world.storage.put(key, b"[]")
    elif damage == "list_gone":
        world.storage.delete(manifest_list)
    elif damage.startswith("manifest"):
        for name in [each for each in world.metadata if each.endswith("-m0.avro")]:
            manifest = f"published/t/metadata/{name}"
            world.storage.put(manifest, b"Obj\1") if damage == "manifest_cut" else world.storage.delete(manifest)
    elif damage == "foreign":
        other = {**made.current, "snapshot-id": 7, "summary": {"operation": "append"}}
        body |= {"snapshots": [*made.snapshots, other], "current-snapshot-id": 7}
        world.storage.put(version_key("t", 4), json.dumps(body).encode())
    else:
        world.storage.put(key, json.dumps(body | {"location": "s3://elsewhere/lake/published/t"}).encode())
    assert list(verify_derived(world.storage, world.state))
    world.capture()
    world.run()
    again = world.check()
    # A run brings up what it finds, where it can tell by the newest metadata alone, and then writes its own.
    at_once = damage in ("cut", "no_json", "foreign", "moved")
    assert (again.version, len(again.snapshots)) == (4 + at_once + (damage == "foreign"), 1 + at_once)
    assert again.body["table-uuid"] != made.body["table-uuid"]


def test_a_table_that_was_dropped_and_made_again_does_not_go_on_from_what_was_left() -> None:
    world = World()
    world.turns(2)
    left = {f"published/t/metadata/{name}": body for name, body in world.metadata.items()}
    plan = plan_drop(world.storage, "t")
    assert all("/metadata/" in key for key in plan.keys[: len(left)]), "engines find nothing before its files go"
    drop(world.storage, plan)
    assert list(world.storage.list("published/")) == []
    for key, body in left.items():
        world.storage.put(key, body)
    world.run()
    made = world.check()
    assert (made.version, len(made.snapshots)) == (3, 1)


def test_metadata_that_does_not_hold_what_it_says_is_found() -> None:
    world = World()
    world.turns(2)
    made = world.check()
    wrong = json.dumps(made.body).replace('"long"', '"int"')
    world.storage.put(version_key("t", 2), wrong.encode())
    assert ["other columns" in each for each in disagreements(world.storage, "t")] == [True]
    first = made.snapshots[0]["manifest-list"]
    wrong = json.dumps(made.body).replace(made.current["manifest-list"], first)
    world.storage.put(version_key("t", 2), wrong.encode())
    assert ["other files" in each for each in disagreements(world.storage, "t")] == [True]


def test_files_stay_as_long_as_a_snapshot_or_a_reader_of_metadata_may_want_them() -> None:
    world = World()
    world.turns(3)
    old = world.check()
    world.gc()
    assert world.check() == old, "a collector changes no row"
    world.gc(days=6)
    assert world.check() == old
    # Files that are due stay, and the snapshots that name them leave the metadata.
    world.gc(days=2)
    made = world.check()
    assert (made.version, len(made.snapshots)) == (4, 1)
    assert rows_in(world.storage, old, old.snapshots[0]), "a reader may have begun with the metadata of before"
    plan = plan_collection(world.storage, "t", now=world.clock.now(), grace=GRACE)
    assert plan.due == ()
    world.gc(days=6)
    assert rows_in(world.storage, old, old.snapshots[0])
    world.gc(days=2)
    with pytest.raises(AssertionError, match="is gone"):
        rows_in(world.storage, old, old.snapshots[0])
    assert world.state.retired == ()
    made = world.check()
    names = {name for name in world.metadata if name.endswith(".avro")}
    assert len(names) == 2, "a list, and a manifest of what is there: none names what went"
    assert sorted(set(world.metadata) - names) == ["v4.metadata.json", "version-hint.text"]
    world.turns(1)
    world.check()


def test_a_state_that_was_lost_does_not_let_go_of_what_readers_have() -> None:
    world = World()
    world.turns(2)
    old = world.check()
    world.storage.put("published/t/_table.json", b"{")
    world.clock.seconds += 86400 * 30
    runner_of(world.lake).run(DECLARED, full_refresh=True)
    world.note()
    assert world.state.retired == ()
    for days in (0, 6):
        world.gc(days=days)
        assert rows_in(world.storage, old, old.current)
    world.gc(days=2)
    with pytest.raises(AssertionError, match="is gone"):
        rows_in(world.storage, old, old.current)
    world.check()


def test_metadata_of_a_table_that_is_not_declared_so_any_more_goes_as_a_whole() -> None:
    world = World()
    world.turns(2)
    there = world.metadata
    world.capture()
    world.run(replace(DECLARED, iceberg=False))
    world.gc(days=6)
    assert world.metadata == there
    world.gc(days=8)
    assert world.metadata == {}
    world.run()
    assert world.check().version == 1


def test_both_logs_describe_the_same_files() -> None:
    world = World()
    declared = replace(DECLARED, format=Format.DELTA)
    for _ in range(3):
        world.capture()
        world.run(declared)
    world.check()
    assert len(world.log) == 3


def test_metadata_keeps_so_many_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_module, "SNAPSHOTS", 3)
    world = World()
    world.turns(5)
    made = world.check()
    assert [each["sequence-number"] for each in made.snapshots] == [3, 4, 5]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(4, 200))])
def test_whatever_happens_engines_see_tables_that_were(seed: int) -> None:
    """Runs, collectors and deaths of both at any request, in any order."""
    chance = random.Random(seed)
    world = World({**PROPERTIES, **NESTED})
    world.turns(1)
    for _ in range(25):
        steps = chance.choice([0, 0, chance.randrange(1, 60)])

        def hook(step: Step, left: list[int] = [steps]) -> None:  # noqa: B006
            left[0] -= 1
            if left[0] == 0:
                raise StorageUnavailableError("away")

        if chance.random() < 0.3:
            world.properties = {**PROPERTIES, **dict(chance.sample(sorted(NESTED.items()), chance.randrange(4)))}
        if chance.random() < 0.7:
            world.capture(*(chance.randrange(9) for _ in range(3)))
        world.storage.hook = hook
        try:
            if chance.random() < 0.7:
                world.run(replace(DECLARED, keep=chance.choice([Keep.LATEST] * 9 + [Keep.APPEND])))
            else:
                world.gc(days=chance.choice([0, 3, 8]))
        except StorageUnavailableError:
            pass
        finally:
            world.storage.hook = lambda step: None
            world.note()
        for by_hint in (False, True):
            made = seen(world.storage, by_hint=by_hint)
            assert rows_in(world.storage, made, made.current) is not None
    world.run()
    world.check()


def test_a_lake_that_is_known_by_two_names_keeps_what_readers_of_either_want(tmp_path: Path) -> None:
    folder, other = tmp_path / "lake", tmp_path / "other"
    other.symlink_to(folder)
    for number, root in enumerate((folder, other, folder)):
        lake = lake_in(root)
        build_stream(lake, TAP, STREAM, {"properties": PROPERTIES}, [{"id": number, "v": "x"}], key_properties=["id"])
        runner_of(lake).run(DECLARED)
    made = seen(lake.storage)
    assert (made.version, len(made.snapshots), made.body["location"]) == (3, 3, f"file://{folder}/published/t")
    # As an earlier version of this program, or a container with another mount, would have it.
    moved = json.dumps(made.body).replace(f"file://{folder}/", "file:///mnt/lake/")
    lake.storage.put(version_key("t", 3), moved.encode())
    before = {path.name for path in (folder / "published/t/metadata").iterdir()}
    for _ in range(2):
        collect_table(lake.storage, "t", now=lake.clock.now, grace=GRACE, clock=lake.clock, ids=lake.ids)
    assert before <= {path.name for path in (folder / "published/t/metadata").iterdir()}


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"a": {"type": "object", "properties": {"b": {"type": "integer"}}}, "a.b": {"type": "integer"}}, "a.b"),
        ({"t": {"type": "array", "items": {"type": "integer"}}, "t.element": {"type": "integer"}}, "t.element"),
    ],
)
def test_names_that_iceberg_takes_for_one_are_refused(properties: dict[str, Any], name: str) -> None:
    world = World({**PROPERTIES, **properties})
    world.capture()
    with pytest.raises(SettingError, match=f"two columns or fields that Iceberg calls '{name}'"):
        world.run()
    world.run(replace(DECLARED, columns={name: ColumnRule(rename="other")}))
    world.check()


def test_ids_stay_where_a_table_is_not_described_for_a_while() -> None:
    world = World({**PROPERTIES, "b": {"type": "integer"}})
    world.turns(1)
    first = world.check().body["schemas"][0]["fields"]
    world.run(replace(DECLARED, iceberg=False))
    assert not world.lake.catalog().entries
    world.properties = {**PROPERTIES, "c": {"type": "integer"}}
    world.capture()
    world.run()
    made = world.check()
    current = made.body["current-schema-id"]
    fields = next(each for each in made.body["schemas"] if each["schema-id"] == current)["fields"]
    known = {each["name"]: each["id"] for each in first}
    assert {each["name"]: each["id"] for each in fields}.items() >= known.items()
    assert made.body["last-column-id"] == len(known) + 1


def test_a_damaged_delta_log_does_not_keep_the_metadata_behind() -> None:
    world = World()
    world.capture()
    world.run(replace(DECLARED, format=Format.DELTA))
    for key in world.log:
        world.storage.put(f"published/t/_delta_log/{key}", b"{")
    world.capture()
    with pytest.raises(CorruptObjectError):
        world.run(replace(DECLARED, format=Format.DELTA))
    told = world.lake.sync_catalog()
    assert [each.table for each in told.failed] == ["t"]
    made = seen(world.storage)
    assert made.current["summary"]["singerlake.id"] == world.state.id


@pytest.mark.parametrize("character", ["#", "?"])
def test_a_root_whose_url_readers_cut_is_refused(tmp_path: Path, character: str) -> None:
    lake = lake_in(tmp_path / f"a{character}b")
    build_stream(lake, TAP, STREAM, {"properties": PROPERTIES}, [{"id": 1}], key_properties=["id"])
    with pytest.raises(SettingError, match="root has '#' or '\\?' in it"):
        runner_of(lake).run(DECLARED)
    assert not Path(lake.storage.url, "published").exists()


def test_what_lies_in_the_folder_does_not_make_a_run_ask_more() -> None:
    world = World()

    def asked() -> list[str]:
        steps: list[str] = []
        world.storage.hook = lambda step: steps.append(f"{step.operation} {step.key}")
        world.run()
        world.storage.hook = lambda step: None
        return [each.split("/")[0] for each in steps if "/metadata/" in each]

    world.turns(1)
    before = asked()
    world.turns(30)
    assert asked() == before
    assert "list" not in " ".join(before)
