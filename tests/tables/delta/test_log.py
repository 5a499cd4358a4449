"""What is in a Delta log, by the protocol's text, and who may change it."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singerlake.conditions import condition_of
from singerlake.errors import (
    CheckFailedError,
    CorruptObjectError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from singerlake.storage.port import Refused, Written
from singerlake.tables import project as tables_module
from singerlake.tables.declaration.model import Check, ColumnRule, Format
from singerlake.tables.declaration.streams import Resolved
from singerlake.tables.delta import publish as publish_module
from singerlake.tables.delta.log import actions_in
from singerlake.tables.delta.publish import disagreements, publish
from singerlake.tables.maintain.collect import plan_collection
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.maintain.verify import verify_derived
from tests.storage.memory import MemoryStorage, Step
from tests.tables.delta.replay import replayed, rows_in
from tests.tables.delta.world import DECLARED, GRACE, PROPERTIES, World
from tests.tables.tables import runner_of


def test_a_commit_is_what_the_protocol_asks_for() -> None:
    world = World({**PROPERTIES, "at": {"type": "string", "format": "date-time"}})
    world.turns(1)
    first = [json.loads(line) for line in world.log[f"{0:020}.json"].splitlines()]
    assert [next(iter(action)) for action in first] == ["commitInfo", "protocol", "metaData", "txn", "txn", "add"]
    own = {"id": world.state.id, "number": world.state.number, "generation": 1}
    assert first[0]["commitInfo"]["singerlake"] == own
    assert first[1]["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}
    metadata = first[2]["metaData"]
    assert metadata["format"] == {"provider": "parquet", "options": {}}
    assert metadata["partitionColumns"] == []
    fields = json.loads(metadata["schemaString"])["fields"]
    assert fields[:3] == [
        {"name": name, "type": type, "nullable": True, "metadata": {}}
        for name, type in (("id", "long"), ("v", "string"), ("at", "timestamp"))
    ]
    (file,) = world.state.files
    assert first[5]["add"]["path"] == file.path
    assert first[5]["add"]["size"] == file.bytes
    world.turns(1)
    second = [json.loads(line) for line in world.log[f"{1:020}.json"].splitlines()]
    assert [next(iter(action)) for action in second] == ["commitInfo", "txn", "txn", "remove", "add"]
    assert second[3]["remove"]["path"] == file.path
    assert second[3]["remove"]["deletionTimestamp"] == int(world.clock.now().timestamp() * 1000)
    world.check()


def test_local_times_raise_the_protocol_when_they_come() -> None:
    world = World()
    world.turns(1)
    world.properties = {**PROPERTIES, "at": {"type": "string", "format": "date-time"}}
    world.capture()
    world.run(replace(DECLARED, columns={"at": ColumnRule(cast="local_timestamp")}))
    made = replayed(world.storage, "t")
    assert made is not None
    assert made.protocol["readerFeatures"] == ["timestampNtz"]
    assert made.protocol["writerFeatures"] == ["appendOnly", "invariants", "timestampNtz"]
    assert (made.protocol["minReaderVersion"], made.protocol["minWriterVersion"]) == (3, 7)
    world.check()


def test_a_run_with_nothing_new_brings_the_log_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.turns(2)
    world.behind()
    (found,) = verify_derived(world.storage, world.state)
    assert found.what == "the Delta log is behind the table; run 'singerlake project run'"
    assert len(world.log) == 2
    runner = runner_of(world.lake)
    (result,) = tables_module.run_tables(runner, [Resolved("t", DECLARED)])
    assert result.error is None
    assert result.outcome is not None
    assert result.outcome.run is None
    world.check()
    before = world.log
    (result,) = tables_module.run_tables(runner, [Resolved("t", DECLARED)])
    assert world.log == before

    def refused(*_: object) -> None:
        raise StorageUnavailableError("away")

    monkeypatch.setattr(publish_module, "shown_by", refused)
    (result,) = tables_module.run_tables(runner, [Resolved("t", DECLARED)])
    assert isinstance(result.error, StorageUnavailableError)


def test_a_run_with_something_new_first_brings_the_log_up() -> None:
    """A check may fail again and again; readers of Delta are not to wait for it."""
    world = World()
    world.turns(1)
    world.behind()
    world.capture()
    with pytest.raises(CheckFailedError):
        world.run(replace(DECLARED, checks=(Check("v", "= ''", condition_of("= ''")),)))
    assert len(world.log) == 2
    world.check()


@pytest.mark.parametrize("at", range(12))
def test_a_writer_that_slept_takes_nothing_back(at: int) -> None:
    """Between any two of its requests others write the table, and the log."""
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
    assert len(steps) > at
    world.check()


@pytest.mark.parametrize("took_effect", [True, False])
def test_a_commit_without_an_answer_is_looked_for(took_effect: bool) -> None:
    world = World()
    world.turns(1)
    world.behind()
    lost = []

    class Lossy(MemoryStorage):
        def put(
            self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None
        ) -> Written | Refused:
            if lost:
                return super().put(key, body, if_absent=if_absent, if_match=if_match)
            lost.append(key)
            if took_effect:
                super().put(key, body, if_absent=if_absent, if_match=if_match)
            raise UnknownOutcomeError("no answer")

    storage = Lossy(clock=world.clock, ids=world.lake.ids)
    storage._objects = world.storage._objects
    publish(storage, "t", world.clock)
    assert lost == [f"published/t/_delta_log/{1:020}.json"]
    assert len(world.log) == 2
    world.check()


@pytest.mark.parametrize("checkpoint_after", [1, 10])
def test_files_stay_until_no_reader_of_the_log_can_want_them(
    monkeypatch: pytest.MonkeyPatch, checkpoint_after: int
) -> None:
    monkeypatch.setattr(publish_module, "CHECKPOINT_AFTER", checkpoint_after)
    world = World()
    world.turns(1)
    world.clock.seconds += 86400 * 8
    world.behind()
    # The state let the first file go nine days ago, the log names it: nobody may delete it.
    world.clock.seconds += 86400 * 9
    plan = plan_collection(world.storage, "t", now=world.clock.now(), grace=GRACE)
    assert plan.due == ()
    assert plan.waiting.files == 1
    old = replayed(world.storage, "t")
    assert old is not None
    # The collector brings the log up, and from then on the file has its grace time.
    world.gc()
    world.check()
    assert len(rows_in(world.storage, "t", old)) == 1
    world.gc(days=6)
    assert len(rows_in(world.storage, "t", old)) == 1
    world.gc(days=2)
    with pytest.raises(AssertionError, match="is gone"):
        rows_in(world.storage, "t", old)
    assert world.state.retired == ()
    world.check()


def test_the_log_is_cut_at_a_checkpoint_that_is_old() -> None:
    world = World()
    world.turns(25)
    assert {name for name in world.log if "checkpoint" in name} == {
        "_last_checkpoint",
        f"{9:020}.checkpoint.parquet",
        f"{19:020}.checkpoint.parquet",
    }
    assert len(world.log) == 28
    world.gc()
    assert len(world.log) == 29, "the collector's own write"
    world.gc(days=6)
    assert len(world.log) == 29
    world.gc(days=2)
    assert min(world.log) == f"{19:020}.checkpoint.parquet"
    assert f"{19:020}.json" in world.log
    world.check()
    made = replayed(world.storage, "t", 22)
    assert made is not None
    assert made.files
    world.turns(1)
    world.check()


def test_versions_of_the_last_week_can_be_read_from_what_is_kept() -> None:
    world = World()
    world.turns(12)
    world.clock.seconds += 86400 * 8
    world.turns(8)
    assert f"{19:020}.checkpoint.parquet" in world.log
    world.gc()
    assert min(world.log) == f"{9:020}.checkpoint.parquet"
    for version in range(12, 20):
        made = replayed(world.storage, "t", version)
        assert made is not None
        assert rows_in(world.storage, "t", made)


def test_a_checkpoint_keeps_what_was_removed_as_long_as_it_is_there() -> None:
    world = World()
    world.turns(10)

    def removed() -> int:
        newest = max(name for name in world.log if "checkpoint.parquet" in name)
        return sum("remove" in action for action in actions_in(world.log[newest]))

    assert removed() == 9
    world.gc()
    world.gc(days=8)
    assert world.state.retired == ()
    world.turns(9)
    # Two of the ten commits since were the collector's.
    assert removed() == 8
    world.check()


def test_a_log_that_shows_the_table_is_left_alone() -> None:
    world = World()
    for _ in range(12):
        world.turns(1)
        before = world.log
        publish(world.storage, "t", world.clock)
        assert world.log == before


@pytest.mark.parametrize("hint", [b"", b"[]", b'{"version":"x"}', b'{"version":4}', b'{"version":400}'])
def test_a_hint_that_leads_nowhere_is_passed_over(hint: bytes) -> None:
    world = World()
    world.turns(11)
    world.storage.put("published/t/_delta_log/_last_checkpoint", hint)
    world.check()
    world.turns(1)
    assert f"{11:020}.json" in world.log
    world.check()


def test_a_table_in_another_format_loses_its_log_as_a_whole() -> None:
    world = World()
    world.turns(3)
    world.capture()
    world.run(replace(DECLARED, format=Format.PARQUET))
    assert len(world.log) == 3
    world.gc(days=6)
    assert len(world.log) == 3
    world.capture()
    world.run()
    world.check()
    assert len(world.log) == 4
    world.run(replace(DECLARED, format=Format.CSV))
    world.gc(days=6)
    assert len(world.log) == 4
    world.gc(days=8)
    assert world.log == {}
    world.run()
    world.check()
    assert list(world.log) == [f"{0:020}.json"]


def test_a_dropped_table_leaves_no_log() -> None:
    world = World()
    world.turns(2)
    plan = plan_drop(world.storage, "t")
    assert plan.keys[:2] == tuple(f"published/t/_delta_log/{version:020}.json" for version in range(2))
    drop(world.storage, plan)
    assert list(world.storage.list("published/")) == []
    world.run()
    world.check()


def test_what_others_write_is_undone() -> None:
    world = World()
    world.turns(2)
    made = replayed(world.storage, "t")
    assert made is not None
    (added,) = made.files.values()
    lines = [
        {"remove": {"path": added["path"], "dataChange": True}},
        {"add": {**added, "path": "other.parquet"}},
    ]
    body = "\n".join(map(json.dumps, lines)).encode()
    world.storage.put(f"published/t/_delta_log/{2:020}.json", body)
    assert [each.what for each in verify_derived(world.storage, world.state)]
    world.run()
    world.check()


@pytest.mark.parametrize(
    ("name", "body", "what"),
    [
        (2, b"{", "not a commit of a Delta log"),
        (1, b"[]", "not a commit of a Delta log"),
        (1, b'{"add":{}}', "not a commit of a Delta log"),
        (1, b'{"protocol":{"minReaderVersion":2}}', "another program wrote to the Delta log"),
        (1, b'{"protocol":{"readerFeatures":["deletionVectors"]}}', "another program wrote to the Delta log"),
    ],
)
def test_a_damaged_log_is_told_and_written_anew(name: int, body: bytes, what: str) -> None:
    world = World()
    world.turns(3)
    world.storage.put(f"published/t/_delta_log/{name:020}.json", body)
    (found,) = verify_derived(world.storage, world.state)
    assert what in found.what
    world.capture()
    with pytest.raises(CorruptObjectError, match="move the table's folder _delta_log away") as raised:
        world.run()
    assert what in str(raised.value)
    for each in world.log:
        world.storage.delete(f"published/t/_delta_log/{each}")
    world.run()
    world.check()


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "turned", "other"])
def test_a_damaged_checkpoint_is_told(damage: str) -> None:
    world = World()
    world.turns(10)
    key = f"published/t/_delta_log/{9:020}.checkpoint.parquet"
    stored = world.storage.get(key)
    assert stored is not None
    whole = stored.body
    other = io.BytesIO()
    pq.write_table(pa.table({"add": [1]}), other)
    bodies = {
        "empty": b"",
        "text": b"PAR1 no parquet at all PAR1",
        "cut": whole[:-9],
        "turned": whole[:-300] + whole[-300:-8][::-1] + whole[-8:],
        "other": other.getvalue(),
    }
    world.storage.put(key, bodies[damage])
    (found,) = verify_derived(world.storage, world.state)
    assert "not a checkpoint of a Delta log" in found.what
    assert found.key == key


def test_a_log_that_does_not_hold_what_it_says_is_found() -> None:
    world = World()
    world.turns(2)
    key = f"published/t/_delta_log/{1:020}.json"
    stored = world.storage.get(key)
    assert stored is not None
    world.storage.put(key, stored.body.replace(b'"size":', b'"size":1'))
    assert [each.partition(";")[0] for each in disagreements(world.storage, "t")] == [
        "the Delta log has other files than the table"
    ]
    key = f"published/t/_delta_log/{0:020}.json"
    stored = world.storage.get(key)
    assert stored is not None
    world.storage.put(key, stored.body.replace(b"long", b"date"))
    assert len(list(disagreements(world.storage, "t"))) == 2
