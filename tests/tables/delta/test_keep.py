"""What a Delta log keeps from being deleted, to the moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from singerlake.tables.declaration.model import Format
from singerlake.tables.delta.log import checkpoint_key, commit_key, log_prefix
from singerlake.tables.delta.publish import kept
from singerlake.tables.state.keys import table_prefix
from tests.tables.delta.world import DECLARED, GRACE, World

MOMENT = timedelta(milliseconds=1)


def held(world: World, *, after: timedelta) -> set[str]:
    """What is kept so long after now, to readers of the log as it is."""
    objects = list(world.storage.list(table_prefix("t")))
    return kept(world.storage, world.state, objects, now=world.clock.now() + after, grace=GRACE)


def test_a_file_that_the_log_removed_stays_for_the_grace_time_whatever_the_table_says_of_it() -> None:
    world = World()
    world.turns(1)
    old = table_prefix("t") + str(world.state.files[0].path)
    world.clock.seconds += 60
    world.turns(1)
    now = table_prefix("t") + str(world.state.files[0].path)
    assert old != now
    assert {old, now} <= held(world, after=GRACE - MOMENT)
    assert old not in held(world, after=GRACE)
    assert now in held(world, after=100 * GRACE)


def test_a_log_is_cut_at_a_checkpoint_of_the_grace_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singerlake.tables.delta.publish.CHECKPOINT_AFTER", 2)
    world = World()
    world.turns(4)
    log = {key for key in held(world, after=GRACE - MOMENT) if key.startswith(log_prefix("t"))}
    assert {commit_key("t", version) for version in range(4)} <= log
    older, newest = (version for version in range(4) if checkpoint_key("t", version) in log)
    gone = log - held(world, after=GRACE)
    assert gone == {*(commit_key("t", version) for version in range(newest)), checkpoint_key("t", older)}


def test_the_log_of_a_table_in_another_format_stays_whole_for_the_grace_time_of_its_last_object() -> None:
    world = World()
    world.turns(1)
    world.clock.seconds += 60
    world.turns(1)
    log = {entry.key for entry in world.storage.list(log_prefix("t"))}
    since = world.clock.now()
    world.clock.seconds += 60
    world.run(replace(DECLARED, format=Format.PARQUET))
    passed = world.clock.now() - since
    assert held(world, after=GRACE - passed - MOMENT) == log
    assert held(world, after=GRACE - passed) == set()


def test_a_collector_lets_commits_go_that_remove_files_a_grace_time_later() -> None:
    """Their statistics have values of rows that may be in no file any more."""
    world = World()
    world.turns(2)
    first = [name for name in world.log if name.endswith(".json")]
    world.gc()
    world.gc(days=6)
    assert not any("checkpoint" in name for name in world.log), "readers may want these versions"
    world.gc(days=2)
    assert any("checkpoint" in name for name in world.log)
    assert set(first) <= set(world.log)
    world.gc(days=8)
    assert not set(first) & set(world.log)
    world.check()
    world.turns(1)
    world.check()


def test_a_collector_that_finds_no_removal_writes_no_checkpoint() -> None:
    world = World()
    world.turns(1)
    for _ in range(3):
        world.gc(days=8)
    assert not any("checkpoint" in name for name in world.log)
