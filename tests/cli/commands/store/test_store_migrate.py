"""``singerlake store migrate``: streams move, and what anybody sees of it."""

from __future__ import annotations

from importlib import import_module

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.lake import Lake
from tests.cli.commands.store.stores import store_of
from tests.cli.conftest import Run
from tests.lakes import build_stream, record_line
from tests.upkeep.shelf import SCHEMA

migrating = import_module("singerlake.upkeep.migrate")


class TestMigrate:
    def test_a_stream_that_is_born_meanwhile_is_moved_too(
        self, run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = migrating.use_manifest_store

        def born_before(*arguments: object, **more: object) -> bool:
            build_stream(lake, "t", "newborn", SCHEMA, [record_line("newborn", {"n": 1})])
            return original(*arguments, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(migrating, "use_manifest_store", born_before)
        result = run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        assert (
            result.stdout.splitlines()[-1]
            == "t/newborn: moved from lockfile to log at transaction 3, 1 file, 1 message"
        )
        assert store_of(lake, "newborn") == "log"

    def test_a_storage_that_does_not_answer_is_told_stream_by_stream(
        self, run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise StorageUnavailableError("no answer", hint="try again")

        monkeypatch.setattr(migrating, "migrate_stream", fail)
        result = run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        assert (result.exit_code, result.stdout.count("not moved: no answer; try again")) == (1, 3)
