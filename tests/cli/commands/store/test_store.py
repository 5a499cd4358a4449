"""``singerlake store``: which store keeps each stream, and trimming logs."""

from __future__ import annotations

import json

import msgspec
import pytest

from singerlake.format import layout
from singerlake.format.state.manifest import to_json
from singerlake.lake import Lake
from tests.cli.commands.store.stores import close, commits, rows
from tests.cli.conftest import Run


class TestLs:
    def test_every_stream_has_its_store_and_numbers(self, run: Run, lake: Lake) -> None:
        result = run("store", "ls", lake.storage.url)
        assert result.exit_code == 0
        header = result.stdout.splitlines()[0].split()
        assert header == ["TAP", "STREAM", "STORE", "TRANSACTION", "PUBLISHED", "TAIL", "FLOOR"]
        assert rows(result.stdout) == {
            "a/b": ["lockfile", "1", "1", "0"],
            "flights": ["lockfile", "3", "3", "0"],
            "x": ["lockfile", "1", "1", "0"],
        }
        assert result.stdout.splitlines()[-1] == f"{lake.storage.url}: 3 streams; new ones get lockfile"

    def test_a_log_has_a_tail_and_a_floor(self, run: Run, lake: Lake) -> None:
        run("store", "migrate", "--yes", lake.storage.url, "--to", "log", "--tap", "t", "--stream", "flights")
        commits(lake, 4)
        listed = json.loads(run("store", "ls", lake.storage.url, "--json").stdout)
        assert listed["lake"] == lake.storage.url
        assert listed["default"] == "lockfile"
        assert listed["streams"][1] == {
            "tap": "t",
            "stream": "flights",
            "store": "log",
            "transaction": 10,
            "published": 6,
            "tail": 4,
            "floor": 4,
            "moving_to": None,
            "trouble": None,
            "error": None,
        }
        run("store", "trim", lake.storage.url, "--keep", 1, "--yes")
        assert rows(run("store", "ls", lake.storage.url).stdout)["flights"] == ["log", "10", "10", "0", "9"]

    def test_a_stream_on_its_way_says_how_to_go_on(self, run: Run, lake: Lake) -> None:
        close(lake, "log")
        result = run("store", "ls", lake.storage.url)
        assert result.exit_code == 1
        assert "t/flights: is not yet moved to log; run 'singerlake store migrate --to log' again" in result.stdout
        assert rows(result.stdout)["flights"][:2] == ["!", "lockfile"]
        listed = json.loads(run("store", "ls", lake.storage.url, "--json").stdout)
        assert [each["moving_to"] for each in listed["streams"]] == [None, "log", None]

    @pytest.mark.parametrize(
        ("body", "word"), [(None, "no state"), (b"{", "not a JSON object"), (b'{"format":99}', "99")]
    )
    def test_a_stream_that_cannot_be_read_keeps_none_of_the_others_back(
        self, run: Run, lake: Lake, body: bytes | None, word: str
    ) -> None:
        key = layout.manifest_key("t", "flights")
        lake.storage.delete(key)
        if body is not None:
            lake.storage.put(key, body)
        result = run("store", "ls", lake.storage.url)
        assert (result.exit_code, word in result.stdout) == (1, True)
        assert rows(result.stdout)["x"] == ["lockfile", "1", "1", "0"]

    def test_a_database_whose_settings_are_missing_is_named_and_its_published_number_is_shown(
        self, run: Run, lake: Lake
    ) -> None:
        key = layout.manifest_key("t", "flights")
        manifest = lake.stream("t", "flights").snapshot()
        lake.storage.put(key, to_json(msgspec.structs.replace(manifest, store="postgres")))
        result = run("store", "ls", lake.storage.url)
        assert (result.exit_code, "postgres_url" in result.stdout) == (1, True)
        listed = json.loads(run("store", "ls", lake.storage.url, "--json").stdout)["streams"][1]
        assert (listed["store"], listed["published"], listed["transaction"]) == ("postgres", 3, None)
        assert listed["error"]["kind"] == "setting"


class TestTrim:
    @pytest.fixture
    def logged(self, run: Run, lake: Lake) -> Lake:
        run("store", "migrate", "--yes", lake.storage.url, "--to", "log")
        commits(lake, 10)
        return lake

    def test_nothing_is_removed_unless_asked(self, run: Run, logged: Lake) -> None:
        objects = [(entry.key, entry.etag) for entry in logged.storage.list("")]
        result = run("store", "trim", logged.storage.url, "--keep", 2)
        assert result.exit_code == 0
        assert "t/flights: 10 records up to transaction 14 would be removed" in result.stdout
        assert [(entry.key, entry.etag) for entry in logged.storage.list("")] == objects

    def test_with_yes_all_but_the_last_are_removed(self, run: Run, logged: Lake) -> None:
        before = logged.stream("t", "flights").snapshot()
        result = run("store", "trim", logged.storage.url, "--tap", "t", "--stream", "flights", "--keep", 2, "--yes")
        assert (result.exit_code, "were removed" in result.stdout) == (0, True)
        log = layout.log_prefix("t", "flights")
        numbers = [layout.log_number(entry.key[len(log) :]) for entry in logged.storage.list(log)]
        assert [number for number in numbers if number is not None] == [15, 16]
        assert logged.stream("t", "flights").snapshot() == before
        assert run("verify", logged.storage.url).exit_code == 0

    def test_json_says_what_was_removed(self, run: Run, logged: Lake) -> None:
        listed = json.loads(run("store", "trim", logged.storage.url, "--keep", 2, "--yes", "--json").stdout)
        assert listed["dry_run"] is False
        flights = listed["streams"][1]
        assert (flights["floor"], flights["transactions"], flights["trouble"]) == (14, 10, None)

    def test_a_store_without_a_log_has_nothing_to_remove(self, run: Run, lake: Lake) -> None:
        result = run("store", "trim", lake.storage.url, "--keep", 0, "--yes")
        assert (result.exit_code, result.stdout.count("nothing to remove")) == (0, 3)

    def test_a_stream_that_cannot_be_trimmed_keeps_none_of_the_others_back(self, run: Run, logged: Lake) -> None:
        logged.storage.put(layout.manifest_key("t", "a/b"), b"{")
        result = run("store", "trim", logged.storage.url, "--keep", 2)
        assert (result.exit_code, "t/a/b: not a JSON object" in result.stdout) == (1, True)
        assert "t/flights: 10 records" in result.stdout

    @pytest.mark.parametrize(
        ("body", "says"), [(None, "no state; run 'singerlake rebuild'"), (b"{", "not a JSON object"), (b"[]", "not a")]
    )
    def test_a_stream_whose_state_cannot_be_read_is_not_called_tidy(
        self, run: Run, lake: Lake, body: bytes | None, says: str
    ) -> None:
        key = layout.manifest_key("t", "flights")
        lake.storage.delete(key)
        if body is not None:
            lake.storage.put(key, body)
        result = run("store", "trim", lake.storage.url)
        assert (result.exit_code, f"t/flights: {says}" in result.stdout) == (1, True)
        assert result.stdout.count("nothing to remove") == 2

    @pytest.mark.parametrize("keep", ["-1", "some"])
    def test_wrong_usage(self, run: Run, lake: Lake, keep: str) -> None:
        assert run("store", "trim", lake.storage.url, "--keep", keep).exit_code == 2
