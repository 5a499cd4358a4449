"""Readers see what was committed though the tap is silent then for hours."""

from __future__ import annotations

import json
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from singerlake.clock import SystemClock
from singerlake.format import layout
from singerlake.lake import Lake
from target_singerlake import progress
from target_singerlake.files.publishing import Looks
from target_singerlake.target import TargetSingerlake
from tests.fakes import FakeClock
from tests.servers.fault_proxy.proxy import wait_until
from tests.target.support import TAP, config, record, schema, text


class Later:
    """By how many seconds the clock of this process is moved on."""

    seconds = 0.0


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    later, now, monotonic = Later(), SystemClock.now, SystemClock.monotonic
    monkeypatch.setattr(SystemClock, "now", lambda clock: now(clock) + timedelta(seconds=later.seconds))
    monkeypatch.setattr(SystemClock, "monotonic", lambda clock: monotonic(clock) + later.seconds)
    # A run looks around at least as often.
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.05)
    return later


def shown(root: Path) -> int | None:
    """How many files ``manifest.json`` itself lists; None where there is none yet."""
    path = root / layout.manifest_key(TAP, "users")
    return len(json.loads(path.read_bytes())["files"]) if path.exists() else None


def committed(root: Path) -> int:
    """How many files a reader that follows the log finds."""
    return len(Lake.open(str(root)).stream(TAP, "users").snapshot().files) if shown(root) is not None else 0


def test_manifest_json_follows_after_minutes_of_silence(
    tmp_path: Path, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, note = threading.Event(), Looks.committed

    def noting(looks: Looks, stream: str) -> None:
        note(looks, stream)
        noted.set()

    monkeypatch.setattr(Looks, "committed", noting)
    root = tmp_path / "lake"
    reading, writing = os.pipe()
    target = TargetSingerlake(config=config(root, manifest_store="log", max_file_records=1, snapshot_minutes=3))

    def listen() -> None:
        with open(reading, "rb") as source:
            target.listen(source)

    running = threading.Thread(target=listen)
    running.start()
    with open(writing, "wb") as tap:
        tap.write(text([schema(), record(1)]))
        tap.flush()
        assert noted.wait(60)
        assert len(Lake.open(str(root)).stream(TAP, "users").snapshot().files) == 1
        later.seconds = 170
        assert shown(root) == 0
        later.seconds = 190
        wait_until(lambda: shown(root) == 1, "what was committed to be published")
        assert running.is_alive()
    running.join()


def test_a_stream_is_looked_after_twice_for_its_last_commit() -> None:
    clock = FakeClock()
    looks = Looks(clock, 60)
    assert looks.due() == []
    looks.committed("a")
    clock.sleep(30)
    looks.committed("b")
    clock.sleep(29)
    assert (looks.due(), looks.next) == ([], clock.monotonic() + 1)
    clock.sleep(1)
    assert looks.due() == ["a"]
    looks.committed("b")
    clock.sleep(59)
    assert looks.due() == []
    clock.sleep(1)
    assert sorted(looks.due()) == ["a", "b"]
    clock.sleep(60)
    assert looks.due() == ["b"]
    assert looks.due() == []
    clock.sleep(10_000)
    assert (looks.due(), looks.next) == ([], float("inf"))
