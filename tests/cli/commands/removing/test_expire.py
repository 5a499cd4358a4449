"""``singerlake expire``: what it says, what it takes out of a stream, and what it leaves; and the other commands
on such a stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from singerlake.clock import timestamp
from singerlake.errors import StorageUnavailableError
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tests.cli.commands.upkeep.test_gc import data_files
from tests.cli.conftest import Run
from tests.lakes import build_stream, record_line
from tests.upkeep.shelf import SCHEMA

FLIGHTS = "--tap", "t", "--stream", "flights"


def aged(root: Path, *days: float | None, stream: str = "s") -> Lake:
    """A stream of files of two messages, each captured so many days ago; None: with a time that is none."""
    lake = Lake.open(str(root))
    for number, age in enumerate(days):
        moment = None if age is None else timestamp(datetime.now(UTC) - timedelta(days=age))
        lines = [record_line(stream, {"n": 2 * number + n}, time_extracted=moment) for n in range(2)]
        build_stream(lake, "t", stream, SCHEMA, lines)
    return lake


def test_what_has_expired_has_expired_though_its_files_cannot_be_deleted(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: LocalStorage, keys: object) -> None:
        raise StorageUnavailableError("the server is away")

    monkeypatch.setattr(LocalStorage, "delete_all", away)
    words = "expire", root, *FLIGHTS, "--before-offset", 20, "--delete", "--now"
    result = run(*words)
    assert result.exit_code == 1
    assert "t/flights: expired, and then failed: the server is away" in result.stdout
    assert lake.stream("t", "flights").snapshot().floor == 20
    monkeypatch.undo()
    for _ in range(2):
        assert run("gc", root, "--grace", "0s", "--delete").exit_code == 0
    assert len(data_files(root)) == 3
