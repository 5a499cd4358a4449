"""``singerlake drop``: what it says, what it takes out of the lake, and what it leaves."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tests.cli.commands.upkeep.test_gc import data_files, stray
from tests.cli.commands.upkeep.test_vacuum import everything, small_files
from tests.cli.conftest import Run
from tests.lakes import build_stream, record_line
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from tests.upkeep.shelf import SCHEMA


def names(lake: Lake, tap: str) -> set[str]:
    """The streams that the tap's catalogue offers."""
    return {entry["tap_stream_id"] for entry in lake.catalogue(tap)["streams"]}


def test_without_delete_it_names_all_and_changes_nothing(run: Run, lake: Lake, root: Path) -> None:
    before = everything(root)
    result = run("drop", root, "--tap", "t")
    assert result.exit_code == 0
    assert everything(root) == before
    lines = result.stdout.splitlines()
    assert "t/a/b: would be dropped: 1 file (" in lines[0]
    assert any(line.startswith("t/flights: would be dropped: 3 files (") for line in lines)
    named = {line.strip() for line in lines if line.endswith(".singer.gz")}
    assert named == {key for key in before if key.startswith("raw/t/") and key.endswith(".gz")}


def test_one_stream_goes_and_the_others_stay(run: Run, lake: Lake, root: Path) -> None:
    files = data_files(root)
    result = run("drop", root, "--tap", "t", "--stream", "flights", "--delete")
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            next(line for line in result.stdout.splitlines() if line.startswith("t/flights: dropped: 3 files (")),
            "  the files stay until 'singerlake gc --delete' has run twice, a grace time apart",
        ],
    )
    assert result.stdout.splitlines()[0].endswith(", 25 records")
    assert data_files(root) == files
    listed = run("ls", root).stdout
    assert "a/b" in listed
    assert "flights" not in listed
    assert names(lake, "t") == {"a/b"}
    assert "flights" not in json.loads((root / "raw/t/catalogue.json").read_text())["streams"]
    assert run("verify", root).exit_code == 0
    for _ in range(3):
        assert run("gc", root, "--grace", "0s", "--delete").exit_code == 0
    assert len(data_files(root)) == 2
    assert run("verify", root).exit_code == 0


def test_a_tap_goes_with_all_of_its_streams(run: Run, lake: Lake, root: Path) -> None:
    assert run("drop", root, "--tap", "t", "--delete").exit_code == 0
    assert "1 stream, 1 file, 1 record" in run("ls", root).stdout
    assert names(lake, "t") == set()
    assert names(lake, "u") == {"x"}
    again = run("drop", root, "--tap", "t", "--delete")
    assert (again.exit_code, again.stdout) == (0, "t/a/b: nothing to drop\nt/flights: nothing to drop\n")


@pytest.mark.parametrize("store", ["lockfile", "log"])
def test_with_now_its_files_are_gone_at_once(run: Run, root: Path, store: str) -> None:
    run("ls", root)
    lake = Lake.open(str(root))
    lake.lake_id(store)
    small_files(root)
    small_files(root, "other")
    result = run("drop", root, "--tap", "t", "--stream", "s", "--delete", "--now")
    assert (result.exit_code, "  deleted: 6 files (" in result.stdout) == (0, True)
    assert {path.parts[-3] for path in data_files(root)} == {"other"}
    left = [path.name for path in (root / "raw/t/s").rglob("*") if path.is_file()]
    # The last transaction stays: it tells a writer that stood still that the stream went on.
    assert "manifest.json" in left
    assert len(left) <= 3
    assert run("verify", root).exit_code == 0
    small_files(root)
    assert run("verify", root).exit_code == 0
    assert "s  " in run("ls", root).stdout


def test_now_needs_delete(run: Run, lake: Lake, root: Path) -> None:
    before = everything(root)
    result = run("drop", root, "--tap", "t", "--now")
    assert (result.exit_code, "--now needs --delete" in result.stderr) == (2, True)
    assert everything(root) == before


@pytest.mark.parametrize("words", [(), ("--delete",), ("--stream", "flights", "--delete")])
def test_a_tap_must_be_named(run: Run, lake: Lake, root: Path, words: tuple[str, ...]) -> None:
    before = everything(root)
    result = run("drop", root, *words)
    assert (result.exit_code, "--tap" in result.stderr) == (2, True)
    assert everything(root) == before


@pytest.mark.parametrize(
    "words", [("--tap", "nobody"), ("--tap", "t", "--stream", "flight"), ("--tap", "../t"), ("--tap", "")]
)
def test_unknown_names_are_told_and_nothing_goes(run: Run, lake: Lake, root: Path, words: tuple[str, ...]) -> None:
    before = everything(root)
    result = run("drop", root, *words, "--delete", "--now")
    assert result.exit_code == 2
    assert everything(root) == before


def test_what_the_format_does_not_put_there_stays(run: Run, lake: Lake, root: Path) -> None:
    mine = root / "raw/t/flights/notes.txt"
    mine.write_text("mine")
    result = run("drop", root, "--tap", "t", "--stream", "flights", "--delete", "--now")
    assert result.exit_code == 0
    assert "  left, since the format does not put such a file there: raw/t/flights/notes.txt" in result.stdout
    assert mine.read_text() == "mine"


def test_unlisted_files_of_killed_runs_go_with_the_stream(run: Run, root: Path) -> None:
    lake = small_files(root)
    other = stray(lake)
    told = run("drop", root, "--tap", "t", "--stream", "s")
    assert "1 file (" in told.stdout
    assert "unlisted" in told.stdout
    assert other.name in told.stdout
    run("drop", root, "--tap", "t", "--stream", "s", "--delete", "--now")
    assert data_files(root) == []


def test_one_json_document_names_all_keys(run: Run, lake: Lake, root: Path) -> None:
    result = run("drop", root, "--tap", "t", "--json")
    told = json.loads(result.stdout)
    assert (told["dry_run"], told["failed"], told["findings"]) == (True, [], [])
    by_name = {each["stream"]: each for each in told["streams"]}
    flights = by_name["flights"]
    assert (flights["tap"], flights["records"], flights["files"]["files"], flights["left"]) == ("t", 25, 3, [])
    assert all((root / key).is_file() for key in flights["keys"])
    assert len(flights["keys"]) == 3
    done = json.loads(run("drop", root, "--tap", "t", "--delete", "--now", "--json").stdout)
    assert [each["deleted"]["files"] for each in done["streams"]] == [1, 3]
    assert not any((root / key).exists() for key in flights["keys"])


def test_many_keys_are_shortened_on_a_terminal(run: Run, root: Path) -> None:
    small_files(root, files=25)
    told = run("drop", root, "--tap", "t").stdout
    assert "  and 5 more, which --json names" in told
    assert len(told.splitlines()) == 22


def test_the_others_go_though_one_cannot(run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalStorage.list

    def away(self: LocalStorage, prefix: str, *, start_after: str = "") -> object:
        if prefix == layout.stream_prefix("t", "a/b"):
            raise StorageUnavailableError("the server is away", key=prefix)
        return real(self, prefix, start_after=start_after)

    monkeypatch.setattr(LocalStorage, "list", away)
    result = run("drop", root, "--tap", "t", "--delete")
    assert result.exit_code == 1
    assert "t/a/b: not dropped: the server is away" in result.stdout
    assert "t/flights: dropped" in result.stdout
    failed = json.loads(run("drop", root, "--tap", "t", "--json").stdout)["failed"]
    assert [(each["stream"], each["error"]["kind"]) for each in failed] == [("a/b", "storage_unavailable")]


def test_tables_that_were_made_from_it_are_named_and_stay(run: Run, lake: Lake, root: Path) -> None:
    made = run("project", "run", root, "--all")
    assert made.exit_code == 0
    rows = lake.table("flights").to_arrow().read_all().num_rows
    result = run("drop", root, "--tap", "t", "--stream", "flights", "--delete", "--now")
    assert "  tables made from it stay: flights; see 'singerlake project drop'" in result.stdout
    again = run("project", "run", root, "--all")
    assert (again.exit_code, "flights: skipped: its stream has no messages" in again.stdout) == (0, True)
    refreshed = run("project", "run", root, "--all", "--full-refresh", "flights")
    assert "flights: skipped: its stream has no messages" in refreshed.stdout
    assert lake.table("flights").to_arrow().read_all().num_rows == rows == 25
    build_stream(lake, "t", "flights", SCHEMA, [record_line("flights", {"n": 1})])
    anew = run("project", "run", root, "--all", "flights")
    assert "1 row in 1 file" in anew.stdout
    assert "(made anew)" in anew.stdout
    assert lake.table("flights").to_arrow().read_all().num_rows == 1


def test_status_names_the_drop(run: Run, lake: Lake, root: Path) -> None:
    run("drop", root, "--tap", "t", "--stream", "flights", "--delete")
    told = json.loads(run("status", root, "--json").stdout)
    (flights,) = [each for each in told["streams"] if each["stream"] == "flights"]
    assert [(each["kind"], each["files"]) for each in flights["runs"]] == [("drop", 3)]


def test_a_lake_in_s3(run: Run, s3: S3Server) -> None:
    bucket = s3.create_bucket(f"drop-{uuid.uuid4().hex[:12]}")
    lake = Lake.open(f"s3://{bucket}/some/prefix", s3.settings())
    build_stream(lake, "t", "s", SCHEMA, [record_line("s", {"n": n}) for n in range(25)], file_size=10)
    build_stream(lake, "t", "o", SCHEMA, [record_line("o", {"n": 1})])
    env = {
        "SINGERLAKE_AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "SINGERLAKE_AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "SINGERLAKE_AWS_REGION": REGION,
        "SINGERLAKE_S3_ENDPOINT_URL": s3.endpoint_url,
    }
    result = run("drop", lake.storage.url, "--tap", "t", "--stream", "s", "--delete", "--now", env=env)
    assert (result.exit_code, "  deleted: 3 files (" in result.stdout) == (0, True)
    keys = [entry.key for entry in lake.storage.list(layout.stream_prefix("t", "s"))]
    assert keys == [layout.manifest_key("t", "s")]
    assert "1 tap, 1 stream, 1 file, 1 record" in run("ls", lake.storage.url, env=env).stdout
    assert run("verify", lake.storage.url, env=env).exit_code == 0
