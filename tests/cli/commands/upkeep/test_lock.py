"""``singerlake lock``: whose locks there are, and breaking one."""

from __future__ import annotations

import json
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


def test_a_lake_without_locks(run: Run, lake: Lake) -> None:
    result = run("lock", "ls", lake.storage.url)
    assert (result.exit_code, result.stdout) == (0, "no locks\n")


@pytest.mark.usefixtures("held")
def test_a_lock_shows_its_writer(run: Run, lake: Lake) -> None:
    result = run("lock", "ls", lake.storage.url)
    header, line = result.stdout.splitlines()
    assert header.split()[:4] == ["KEY", "WRITER", "ACQUIRED", "REFRESHED"]
    assert line.split()[:2] == [KEY, "ada@host"]
    (found,) = json.loads(run("lock", "ls", lake.storage.url, "--json").stdout)["locks"]
    assert (found["key"], found["writer"]) == (KEY, "ada@host")
    assert found["unchanged_seconds"] >= 0
    assert run("lock", "ls", lake.storage.url, "--tap", "u").stdout == "no locks\n"


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


@pytest.mark.usefixtures("held")
def test_all_locks_of_a_stream_at_once(run: Run, lake: Lake) -> None:
    assert run("lock", "break", lake.storage.url, "--tap", "t", "--stream", "flights", "--yes").exit_code == 0
    assert is_released(lake)
    assert run("lock", "ls", lake.storage.url).stdout == "no locks\n"
    again = run("lock", "break", lake.storage.url, KEY, "--yes")
    assert (again.exit_code, again.stdout) == (0, "no locks\n")


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


def test_a_lock_that_cannot_be_read_can_be_broken(run: Run, lake: Lake) -> None:
    lake.storage.put(KEY, b"{")
    assert "not readable" in run("lock", "ls", lake.storage.url).stdout
    assert run("lock", "break", lake.storage.url, KEY, "--yes").exit_code == 0
    assert is_released(lake)


@pytest.mark.parametrize(
    "key",
    [
        "raw/t/flights/manifest.json",
        "raw/singerlake.json",
        "singerlake.lock",
        KEY,
        "raw/../x/singerlake.lock",
    ],
)
def test_only_locks_that_are_there_can_be_broken(run: Run, lake: Lake, key: str) -> None:
    before = [(entry.key, entry.etag) for entry in lake.storage.list("")]
    assert run("lock", "break", lake.storage.url, key, "--yes").exit_code in (1, 2)
    assert [(entry.key, entry.etag) for entry in lake.storage.list("")] == before


@pytest.mark.parametrize("arguments", [(), ("--tap", "t"), (KEY, "--tap", "t"), ("--stream", "flights")])
def test_it_must_be_clear_which_lock_is_meant(run: Run, lake: Lake, arguments: tuple[str, ...]) -> None:
    result = run("lock", "break", lake.storage.url, *arguments)
    assert (result.exit_code, "Usage:" in result.stderr) == (2, True)
