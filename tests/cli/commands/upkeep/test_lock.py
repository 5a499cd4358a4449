"""``singerlake lock``: whose locks there are, and breaking one."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.lock_file import Lock, LockSettings, parse_lock
from tests.cli.conftest import Run
from tests.upkeep.verify.test_verify import body_of

KEY = layout.version_lock_key("t", "flights", "aaaaaaa")


@pytest.fixture
def held(lake: Lake) -> Lock:
    lock = Lock(lake.storage, KEY, "ada@host", LockSettings(), SystemClock(), random_id)
    lock.acquire()
    return lock


def is_released(lake: Lake) -> bool:
    return parse_lock(body_of(lake, KEY), key=KEY).released is not None


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_breaking_shows_whose_it_is_and_breaks_when_asked(run: Run, lake: Lake, words: tuple[str, ...]) -> None:
    result = run("lock", "break", lake.storage.url, KEY, *words)
    assert result.exit_code == 0
    assert f"{KEY}: would be broken: writer ada@host since " in result.stdout
    assert not is_released(lake)
    result = run("lock", "break", lake.storage.url, KEY, "--yes")
    assert (result.exit_code, f"{KEY}: broken" in result.stdout) == (0, True)
    assert is_released(lake)


@pytest.mark.usefixtures("held")
def test_the_key_alone_is_enough_where_the_lake_is_named_elsewhere(run: Run, lake: Lake) -> None:
    assert run("lock", "break", KEY, "--yes", env={"SINGERLAKE_LAKE_ROOT": lake.storage.url}).exit_code == 0
    assert is_released(lake)


def test_a_lock_that_changes_meanwhile_is_left_alone(
    run: Run, lake: Lake, held: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_lock = Lake.break_lock

    def refreshed(lake: Lake, lock: Any) -> bool:
        held.refresh()
        return break_lock(lake, lock)

    monkeypatch.setattr(Lake, "break_lock", refreshed)
    result = run("lock", "break", lake.storage.url, KEY, "--yes")
    assert (result.exit_code, "changed meanwhile; left alone" in result.stdout) == (1, True)
    assert not is_released(lake)
