"""``singerlake expire``: what it says, what it takes out of a stream, and what it leaves; and the other commands
on such a stream."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from singerlake.clock import timestamp
from singerlake.errors import StorageUnavailableError
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tests.cli.commands.upkeep.test_gc import data_files
from tests.cli.commands.upkeep.test_vacuum import everything, path_of, small_files
from tests.cli.conftest import Run
from tests.lakes import build_stream, record_line
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from tests.upkeep.shelf import SCHEMA

FLIGHTS = "--tap", "t", "--stream", "flights"
GC_NOTE = "  the files stay until 'singerlake gc --delete' has run twice, a grace time apart"


def aged(root: Path, *days: float | None, stream: str = "s") -> Lake:
    """A stream of files of two messages, each captured so many days ago; None: with a time that is none."""
    lake = Lake.open(str(root))
    for number, age in enumerate(days):
        moment = None if age is None else timestamp(datetime.now(UTC) - timedelta(days=age))
        lines = [record_line(stream, {"n": 2 * number + n}, time_extracted=moment) for n in range(2)]
        build_stream(lake, "t", stream, SCHEMA, lines)
    return lake


def test_without_delete_it_names_all_and_changes_nothing(run: Run, lake: Lake, root: Path) -> None:
    before = everything(root)
    result = run("expire", root, *FLIGHTS, "--before-offset", 15)
    assert result.exit_code == 0
    first, named = result.stdout.splitlines()
    assert first.startswith("t/flights: 1 file (")
    assert first.endswith(") would expire, 10 records; the stream would begin at offset 10")
    assert (root / named.strip()) == path_of(lake, 0, "flights")
    assert everything(root) == before


def test_its_oldest_files_go_and_stay_for_a_collector(run: Run, lake: Lake, root: Path) -> None:
    files = data_files(root)
    result = run("expire", root, *FLIGHTS, "--before-offset", 20, "--delete")
    assert result.exit_code == 0
    first, note = result.stdout.splitlines()
    assert first.endswith(") expired, 20 records; the stream begins at offset 20")
    assert note == GC_NOTE
    assert data_files(root) == files
    assert lake.stream("t", "flights").snapshot().floor == 20
    assert run("verify", root).exit_code == 0
    for _ in range(3):
        assert run("gc", root, "--grace", "0s", "--delete").exit_code == 0
    assert len(data_files(root)) == len(files) - 2
    assert run("verify", root).exit_code == 0
    again = run("expire", root, *FLIGHTS, "--before-offset", 20, "--delete")
    assert (again.exit_code, again.stdout) == (0, "t/flights: nothing to expire\n")


@pytest.mark.parametrize("store", ["lockfile", "log", pytest.param("merge", marks=pytest.mark.thorough)])
def test_with_now_its_files_are_gone_at_once(run: Run, root: Path, store: str) -> None:
    Lake.open(str(root)).lake_id(store)
    # Few, since each is a commit, and the next one of "merge" waits until it is settled.
    small_files(root, files=3)
    small_files(root, "other", files=1)
    result = run("expire", root, "--tap", "t", "--stream", "s", "--before-offset", 10, "--delete", "--now")
    assert (result.exit_code, "  deleted: 2 files (" in result.stdout) == (0, True)
    assert len(data_files(root)) == 2
    assert run("verify", root).exit_code == 0
    again = run("expire", root, "--tap", "t", "--stream", "s", "--before-offset", 10, "--delete", "--now")
    assert (again.exit_code, "  deleted: 0 files (" in again.stdout) == (0, True)


def test_with_now_files_that_a_vacuum_joined_go_too(run: Run, root: Path) -> None:
    small_files(root)
    assert run("vacuum", "--yes", root, "--tap", "t", "--stream", "s").exit_code == 0
    result = run("expire", root, "--tap", "t", "--stream", "s", "--before-offset", 30, "--delete", "--now")
    assert (result.exit_code, "  deleted: 7 files (" in result.stdout) == (0, True)
    assert data_files(root) == []
    assert run("verify", root).exit_code == 0


def test_by_age_it_is_the_time_of_the_records_that_counts(run: Run, root: Path) -> None:
    lake = aged(root, 500, 450, 10)
    words = "expire", root, "--tap", "t", "--stream", "s"
    assert "2 files (" in run(*words, "--older-than", "400d").stdout
    assert run(*words, "--older-than", "600d").stdout == "t/s: nothing to expire\n"
    assert run(*words, "--older-than", "400d", "--delete").exit_code == 0
    assert lake.stream("t", "s").snapshot().floor == 4
    assert run(*words, "--older-than", "0s", "--delete").exit_code == 0
    state = lake.stream("t", "s").snapshot()
    assert (len(state.files), state.floor) == (0, 6)


def test_a_file_without_known_times_is_named(run: Run, root: Path) -> None:
    lake = aged(root, 500, 450)
    manifest = root / "raw/t/s/manifest.json"
    state = json.loads(manifest.read_bytes())
    state["files"][1]["last"] = "yesterday"
    manifest.write_text(json.dumps(state))
    result = run("expire", root, "--tap", "t", "--stream", "s", "--older-than", "400d")
    assert "1 file (" in result.stdout
    path = lake.stream("t", "s").snapshot().files[1].path
    assert f"nothing from here on expires by age, since the times of the file are unknown: {path}" in result.stdout
    run("policy", "set", root, "--tap", "t", "--older-than", "400d")
    assert f"  nothing from here on expires by age, since the times of the file are unknown: {path}" in (
        run("gc", root).stdout.splitlines()
    )
    assert json.loads(run("gc", root, "--json").stdout)["streams"][0]["undated"] == path


def test_by_versions_and_by_both(run: Run, lake: Lake, root: Path) -> None:
    words = "expire", root, *FLIGHTS
    assert run(*words, "--keep-versions", 2).stdout == "t/flights: nothing to expire\n"
    told = json.loads(run(*words, "--keep-versions", 1, "--older-than", "400d", "--json").stdout)
    assert (told["expired"]["files"], told["floor"]) == (2, 20)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "give --older-than or --keep-versions or both, or --before-offset alone"),
        (("--before-offset", "3", "--older-than", "1d"), "or --before-offset alone"),
        (("--before-offset", "3", "--keep-versions", "1"), "or --before-offset alone"),
        (("--before-offset", "-1"), "--before-offset"),
        (("--before-offset", "x"), "--before-offset"),
        (("--keep-versions", "0"), "--keep-versions"),
        (("--older-than", ""), "is not a valid age"),
        (("--older-than", "soon"), "is not a valid age; write 90s, 30m, 12h or 400d"),
        (("--older-than", "36501d"), "is longer than 36500d"),
        (("--before-offset", "3", "--now"), "--now needs --delete"),
    ],
)
def test_wrong_arguments_are_told_and_change_nothing(
    run: Run, lake: Lake, root: Path, words: tuple[str, ...], what: str
) -> None:
    before = everything(root)
    result = run("expire", root, *FLIGHTS, *words)
    assert (result.exit_code, what in result.stderr) == (2, True), result.stderr
    assert everything(root) == before


def test_an_offset_beyond_the_end_is_told(run: Run, lake: Lake, root: Path) -> None:
    before = everything(root)
    result = run("expire", root, *FLIGHTS, "--before-offset", 26, "--delete")
    assert (result.exit_code, "offset 26 is beyond the stream's end, 25" in result.stderr) == (2, True)
    assert everything(root) == before


@pytest.mark.parametrize(
    "words",
    [("--tap", "t"), ("--stream", "[af]*"), ("--tap", "t", "--stream", ""), ("--tap", "t", "--stream", "flight"),
     ("--tap", "../t", "--stream", "flights"), ("--tap", "nobody", "--stream", "flights"),
     ("--tap", "t\n", "--stream", "\x1b[31m")],
)  # fmt: skip
def test_unknown_names_are_told_and_nothing_goes(run: Run, lake: Lake, root: Path, words: tuple[str, ...]) -> None:
    before = everything(root)
    result = run("expire", root, *words, "--before-offset", 20, "--delete", "--now")
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr
    assert everything(root) == before


@pytest.mark.parametrize("name", ["a/b", "..", "ä ö", "x\ny", "\x1b[31mred", "%41", "CON"])
def test_streams_of_any_name_expire_and_are_shown_as_text(run: Run, root: Path, name: str) -> None:
    lake = aged(root, 500, 10, stream=name)
    result = run("expire", root, "--tap", "t", "--stream", name, "--older-than", "400d", "--delete")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert "\x1b" not in result.stdout
    assert lake.stream("t", name).snapshot().floor == 2


def test_one_json_document_says_all(run: Run, lake: Lake, root: Path) -> None:
    told = json.loads(run("expire", root, *FLIGHTS, "--before-offset", 20, "--json").stdout)
    keys = [str(path_of(lake, at, "flights").relative_to(root)) for at in (0, 1)]
    size = told["expired"].pop("bytes")
    assert size == sum((root / key).stat().st_size for key in keys)
    assert told == {
        "lake": lake.storage.url,
        "dry_run": True,
        "tap": "t",
        "stream": "flights",
        "expired": {"files": 2},
        "attached": {"files": 0, "bytes": 0},
        "records": 20,
        "floor": 20,
        "keys": keys,
        "undated": None,
        "deleted": {"files": 0, "bytes": 0},
        "deleted_attached": {"files": 0, "bytes": 0},
        "findings": [],
        "error": None,
    }
    done = json.loads(run("expire", root, *FLIGHTS, "--before-offset", 20, "--delete", "--now", "--json").stdout)
    assert (done["dry_run"], done["deleted"], done["keys"]) == (False, {"files": 2, "bytes": size}, keys)
    assert not any((root / key).exists() for key in keys)


def test_many_keys_are_shortened_on_a_terminal(run: Run, root: Path) -> None:
    small_files(root, files=25)
    told = run("expire", root, "--tap", "t", "--stream", "s", "--before-offset", 125).stdout
    assert "  and 5 more, which --json names" in told
    assert len(told.splitlines()) == 22


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


def test_status_names_it_with_what_expired(run: Run, lake: Lake, root: Path) -> None:
    run("expire", root, *FLIGHTS, "--before-offset", 20, "--delete")
    told = json.loads(run("status", root, "--json").stdout)
    (flights,) = [each for each in told["streams"] if each["stream"] == "flights"]
    (made,) = [each for each in flights["runs"] if each["kind"] == "expire"]
    assert (made["files"], made["records"]) == (2, 20)
    assert "expire" in run("status", root).stdout


@pytest.mark.parametrize("before", [20, 25])
def test_the_other_commands_take_such_a_stream(run: Run, lake: Lake, root: Path, before: int) -> None:
    def told(*words: object) -> Any:
        result = run(*words)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    run("expire", root, *FLIGHTS, "--before-offset", before, "--delete")
    left = 25 - before
    (listed,) = told("ls", root, "--tap", "t", "--json")["taps"]
    (flights,) = [each for each in listed["streams"] if each["stream"] == "flights"]
    assert (flights["records"], flights["messages"], flights["files"]) == (left, left, left // 5)
    (versions,) = told("versions", root, *FLIGHTS, "--json")["streams"]
    assert (versions["floor"], versions["next_offset"]) == (before, 25)
    assert [(each["first_offset"], each["files"], each["records"]) for each in versions["versions"]] == [
        (0, 0, 0),
        (20, left // 5, left),
    ]
    (tap,) = told("export", root, "--tap", "t")["taps"]
    (exported,) = [each for each in tap["streams"] if each["stream"] == "flights"]
    assert (exported["floor"], exported["next_offset"], exported["records"]) == (before, 25, left)
    assert run("diff", root, *FLIGHTS, "v1", "v2").exit_code in (0, 1)
    assert "v2" in run("diff", root, *FLIGHTS, "v1", "v2").stdout
    assert told("verify", root, "--json")["findings"] == []
    (repaired,) = told("rebuild", root, *FLIGHTS, "--dry-run", "--json")["streams"]
    assert (repaired["changed"], repaired["messages"]) == (False, left)
    assert f"{left} message" in run("rebuild", root, *FLIGHTS, "--dry-run").stdout
    site = root.parent / "site"
    assert run("docs", "build", root, "-o", site).exit_code == 0
    assert any("flights" in path.name for path in site.rglob("*.html"))
    assert told("vacuum", root, *FLIGHTS, "--dry-run", "--json")["findings"] == []
    assert told("erase", root, *FLIGHTS, "--where", "n = 0", "--json")["streams"][0]["findings"] == []


def test_a_migration_takes_the_floor_along(run: Run, lake: Lake, root: Path) -> None:
    run("expire", root, *FLIGHTS, "--before-offset", 20, "--delete")
    result = run("store", "migrate", "--yes", root, "--to", "log")
    assert result.exit_code == 0, result.output
    state = lake.stream("t", "flights").snapshot()
    assert (state.store, state.floor, state.next_offset) == ("log", 20, 25)
    assert run("verify", root).exit_code == 0


def test_a_lake_in_s3(run: Run, s3: S3Server) -> None:
    bucket = s3.create_bucket(f"expire-{uuid.uuid4().hex[:12]}")
    lake = Lake.open(f"s3://{bucket}/some/prefix", s3.settings())
    # Storage gives whole seconds alone, so what is new is not older than now.
    records = [record_line("s", {"n": n}, time_extracted="2026-01-01T00:00:00Z") for n in range(25)]
    build_stream(lake, "t", "s", SCHEMA, records, file_size=10)
    env = {
        "SINGERLAKE_AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "SINGERLAKE_AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "SINGERLAKE_AWS_REGION": REGION,
        "SINGERLAKE_S3_ENDPOINT_URL": s3.endpoint_url,
    }
    words = "expire", lake.storage.url, "--tap", "t", "--stream", "s", "--before-offset", 10, "--delete", "--now"
    result = run(*words, env=env)
    assert (result.exit_code, "  deleted: 1 file (" in result.stdout) == (0, True)
    state = lake.stream("t", "s").snapshot()
    assert (state.floor, len(state.files)) == (10, 2)
    keys = [entry.key for entry in lake.storage.list(lake.stream("t", "s").prefix) if entry.key.endswith(".gz")]
    assert len(keys) == 2
    assert run("verify", lake.storage.url, env=env).exit_code == 0
    assert run("policy", "set", lake.storage.url, "--tap", "t", "--older-than", "0s", env=env).exit_code == 0
    assert run("gc", lake.storage.url, "--delete", env=env).exit_code == 0
    assert lake.stream("t", "s").snapshot().floor == 25
