"""``singerlake lock``: whose locks there are, and breaking one."""

from __future__ import annotations

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
def test_breaking_shows_whose_it_is_and_asks(run: Run, lake: Lake) -> None:
    result = run("lock", "break", lake.storage.url, KEY, input="n\n")
    assert result.exit_code == 1
    assert f"{KEY}: writer ada@host since " in result.stdout
    assert not is_released(lake)
    result = run("lock", "break", lake.storage.url, KEY, input="y\n")
    assert (result.exit_code, f"{KEY}: broken" in result.stdout) == (0, True)
    assert is_released(lake)


@pytest.mark.usefixtures("held")
def test_without_an_answer_nothing_is_broken(run: Run, lake: Lake) -> None:
    assert run("lock", "break", lake.storage.url, KEY, input="").exit_code == 1
    assert not is_released(lake)


def test_a_lock_that_changes_meanwhile_is_left_alone(
    run: Run, lake: Lake, held: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.confirm", lambda _: held.refresh())
    result = run("lock", "break", lake.storage.url, KEY)
    assert (result.exit_code, "changed meanwhile; left alone" in result.stdout) == (1, True)
    assert not is_released(lake)
