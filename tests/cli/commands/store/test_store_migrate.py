"""``singerlake store migrate``: streams move, and what anybody sees of it."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.format import layout
from singerlake.format.metadata import root
from singerlake.lake import Lake
from tests.cli.commands.store.stores import close, store_of
from tests.cli.conftest import Run
from tests.lakes import build_stream, record_line
from tests.upkeep.shelf import SCHEMA

migrating = import_module("singerlake.upkeep.migrate")
ROOT = layout.root_metadata_key()


class TestMigrate:
    def test_a_whole_lake_is_moved_and_streams_that_come_later_are_born_there(self, run: Run, lake: Lake) -> None:
        before = {pair: lake.stream(*pair).snapshot() for pair in (("t", "a/b"), ("t", "flights"), ("u", "x"))}
        result = run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        assert (result.exit_code, result.stdout.splitlines()) == (
            0,
            [
                "t/a/b: moved from lockfile to log at transaction 3, 1 file, 1 message",
                "t/flights: moved from lockfile to log at transaction 5, 3 files, 25 messages",
                "u/x: moved from lockfile to log at transaction 3, 1 file, 1 message",
                "root metadata: written; new streams get log",
            ],
        )
        for pair, manifest in before.items():
            after = lake.stream(*pair).snapshot()
            assert (after.store, after.lineage, after.files) == ("log", manifest.lineage, manifest.files)
        metadata = lake.root_metadata()
        assert metadata is not None
        assert metadata.manifest_store == "log"
        build_stream(lake, "t", "late", SCHEMA, [record_line("late", {"n": 1})])
        build_stream(lake, "t", "flights", SCHEMA, [record_line("flights", {"n": 1})])
        assert store_of(lake, "late") == store_of(lake) == "log"
        assert run("verify", lake.storage.url).exit_code == 0
        assert "unchanged, 4 files, 26 messages" in run("rebuild", "--yes", lake.storage.url).stdout
        assert run("ls", lake.storage.url).exit_code == 0

    def test_moving_twice_changes_nothing_more(self, run: Run, lake: Lake) -> None:
        run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        objects = [(entry.key, entry.etag) for entry in lake.storage.list("")]
        result = run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        assert (result.exit_code, result.stdout.splitlines()) == (
            0,
            [
                "t/a/b: is in log already, 1 file, 1 message",
                "t/flights: is in log already, 3 files, 25 messages",
                "u/x: is in log already, 1 file, 1 message",
            ],
        )
        assert [(entry.key, entry.etag) for entry in lake.storage.list("")] == objects

    def test_a_dry_run_changes_nothing(self, run: Run, lake: Lake) -> None:
        objects = [(entry.key, entry.etag) for entry in lake.storage.list("")]
        result = run("store", "migrate", lake.storage.url, "--to", "log", "--dry-run")
        assert result.exit_code == 0
        assert "t/flights: would be moved from lockfile to log at transaction 3" in result.stdout
        assert "root metadata: would be written" in result.stdout
        assert [(entry.key, entry.etag) for entry in lake.storage.list("")] == objects

    def test_one_stream_is_moved_alone_and_the_lake_s_default_stays(self, run: Run, lake: Lake) -> None:
        result = run("store", "migrate", "--yes", lake.storage.url, "--to", "log", "--tap", "t", "--stream", "flights")
        assert (result.exit_code, result.stdout.count("\n")) == (0, 1)
        assert (store_of(lake), store_of(lake, "a/b")) == ("log", "lockfile")
        metadata = lake.root_metadata()
        assert metadata is not None
        assert metadata.manifest_store == "lockfile"
        build_stream(lake, "t", "flights", SCHEMA, [record_line("flights", {"n": 1})])
        assert lake.stream("t", "flights").snapshot().next_offset == 26
        assert run("rebuild", "--yes", lake.storage.url).exit_code == run("verify", lake.storage.url).exit_code == 0

    def test_what_people_wrote_into_the_root_metadata_stays(self, run: Run, lake: Lake) -> None:
        stored = lake.storage.get(ROOT)
        assert stored is not None
        content = json.loads(stored.body)
        content["ours"] = {"a": 1}
        content["taps"]["t"] = {"owner": "ada", "later": True}
        lake.storage.put(ROOT, json.dumps(content).encode())
        run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        stored = lake.storage.get(ROOT)
        assert stored is not None
        after = json.loads(stored.body)
        assert after["ours"] == {"a": 1}
        assert after["taps"]["t"]["owner"] == "ada"
        assert after["taps"]["t"]["later"] is True
        assert after["manifest_store"] == "log"

    def test_without_root_metadata_it_is_written(self, run: Run, lake: Lake) -> None:
        lake.storage.delete(ROOT)
        assert run("store", "migrate", "--yes", lake.storage.url, "--to", "log").exit_code == 0
        stored = lake.storage.get(ROOT)
        assert stored is not None
        assert root.from_json(stored.body, key=ROOT).manifest_store == "log"

    def test_json_says_what_was_done(self, run: Run, lake: Lake) -> None:
        close(lake, "log", "a/b")
        listed = json.loads(run("store", "migrate", "--yes", lake.storage.url, "--to", "log", "--json").stdout)
        assert {name: listed[name] for name in ("lake", "to", "dry_run", "root_metadata", "failed")} == {
            "lake": lake.storage.url,
            "to": "log",
            "dry_run": False,
            "root_metadata": True,
            "failed": [],
        }
        assert listed["streams"][0] == {
            "tap": "t",
            "stream": "a/b",
            "source": "lockfile",
            "target": "log",
            "needed": True,
            "resumed": True,
            "transaction": 3,
            "files": 1,
            "messages": 1,
        }

    def test_what_was_begun_is_ended(self, run: Run, lake: Lake) -> None:
        close(lake, "log")
        result = run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        assert result.exit_code == 0
        assert (
            "t/flights: moved from lockfile to log at transaction 5, 3 files, 25 messages, to end what was begun"
            in (result.stdout)
        )
        assert run("store", "ls", lake.storage.url).exit_code == 0

    def test_a_stream_that_cannot_be_moved_keeps_the_others_not_back_but_the_lake_s_default(
        self, run: Run, lake: Lake
    ) -> None:
        lake.storage.put(layout.manifest_key("t", "a/b"), b"{")
        close(lake, "dynamodb", "flights")
        result = run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        assert result.exit_code == 1
        lines = result.stdout.splitlines()
        assert lines[0].startswith("t/a/b: not moved: not a JSON object")
        assert lines[1].startswith(
            "t/flights: not moved: a migration of this stream is not finished; its new manifest store is 'dynamodb'"
        )
        assert lines[2:] == ["u/x: moved from lockfile to log at transaction 3, 1 file, 1 message"]
        metadata = lake.root_metadata()
        assert metadata is not None
        assert metadata.manifest_store == "lockfile"
        listed = run("store", "migrate", "--yes", lake.storage.url, "--to", "log", "--json")
        assert listed.exit_code == 1
        failed = json.loads(listed.stdout)["failed"]
        assert [(each["stream"], each["error"]["kind"]) for each in failed] == [
            ("a/b", "corrupt_object"),
            ("flights", "stream_closed"),
        ]

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

    def test_an_empty_folder_is_no_stream_to_move(self, run: Run, lake: Lake) -> None:
        lake.storage.put(f"{layout.stream_prefix('t', 'unborn')}x/singerlake.lock", b"{}")
        result = run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        assert (result.exit_code, result.stdout.count("t/unborn: has no state yet")) == (0, 1)

    def test_a_storage_that_does_not_answer_is_told_stream_by_stream(
        self, run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise StorageUnavailableError("no answer", hint="try again")

        monkeypatch.setattr(migrating, "migrate_stream", fail)
        result = run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        assert (result.exit_code, result.stdout.count("not moved: no answer; try again")) == (1, 3)

    @pytest.mark.parametrize("arguments", [(), ("--to", "csv"), ("--to", "log", "elsewhere")])
    def test_wrong_usage(self, run: Run, lake: Lake, arguments: tuple[str, ...]) -> None:
        result = run("store", "migrate", "--yes", lake.storage.url, *arguments)
        assert (result.exit_code, "Usage:" in result.stderr) == (2, True)
        assert store_of(lake) == "lockfile"

    def test_a_database_without_settings_is_a_usage_error_and_nothing_is_closed(self, run: Run, lake: Lake) -> None:
        result = run("store", "migrate", "--yes", lake.storage.url, "--to", "postgres")
        assert (result.exit_code, "postgres_url" in result.stderr) == (2, True)
        assert run("store", "ls", lake.storage.url).exit_code == 0
