"""``singerlake erase`` and ``verify --erased``: what they say, what they take out of the lake, and what they leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tests.cli.conftest import Run
from tests.lakes import build_stream

SCHEMA = {"properties": {"id": {"type": "integer"}, "email": {"type": "string"}}}
KIM = "email = 'kim@example.com'"


def people(lake: Lake, stream: str = "people") -> None:
    """Nine records in three files, every third one Kim's."""
    names = ("kim", "lee", "ana")
    records = [{"id": n, "email": f"{names[n % 3]}@example.com"} for n in range(9)]
    build_stream(lake, "crm", stream, SCHEMA, records, file_size=4, member_size=2, key_properties=("id",))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    people(lake)
    return lake


@pytest.fixture
def root(lake: Lake, tmp_path: Path) -> Path:
    return tmp_path / "lake"


def ids(lake: Lake, stream: str = "people") -> list[int]:
    """The ids of the records that a reader finds, in order."""
    return Lake.open(lake.storage.url).stream("crm", stream).to_arrow().read_all().column("id").to_pylist()


def erase(run: Run, root: Path | str, *more: str, where: str = KIM) -> list[str]:
    result = run("erase", root, "--tap", "crm", "--stream", "people", "--where", where, *more)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_a_user_whose_name_is_no_text_may_erase(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "k\udcffm")
    erase(run, root, "--delete")
    stream = lake.stream("crm", "people")
    told = [said for file in stream.snapshot().files if (said := stream.provenance(file)) is not None]
    assert {who.partition("@")[0] for each in told for *_, who in each.erased} == {"k?m"}


AT = {"properties": {"id": {"type": "integer"}, "at": {"type": ["null", "string"], "format": "date-time"}}}
TIMES = ["2019-12-31T23:30:00-02:00", "2020-01-01T00:30:00+01:00", "2019-12-31 23:59:59.999999Z", "unknown", None]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("at < '2020-01-01T00:00:00Z'", [0, 3, 4]),
        ("at = '2019-12-31T23:30:00Z'", [0, 2, 3, 4]),
        ("at not in ('2019-12-31T23:30:00Z', 'unknown')", [1, 3, 4]),
        ("at is null", [0, 1, 2, 3]),
        ("id >= 1 and id != 3", [0, 3]),
    ],
)
def test_times_are_compared_as_moments_and_nothing_else_is_erased(
    run: Run, lake: Lake, root: Path, where: str, left: list[int]
) -> None:
    records = [{"id": number, "at": at} for number, at in enumerate(TIMES)]
    build_stream(lake, "crm", "visits", AT, records, key_properties=("id",))
    command = ("--tap", "crm", "--stream", "visits")
    assert run("erase", root, *command, "--where", where, "--delete", "--now").exit_code == 0
    assert ids(lake, "visits") == left
    assert run("verify", root, *command, "--erased", where).exit_code == 0
    refused = run("erase", root, *command, "--where", "at < '2020'")
    assert (refused.exit_code, "write a time as '2026-01-31T00:00:00Z'" in refused.stderr) == (2, True)


def test_storage_that_is_away_when_files_are_deleted_is_said(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StorageUnavailableError("the disk is away", hint="plug it in")

    monkeypatch.setattr(LocalStorage, "delete_all", away)
    result = run("erase", root, "--tap", "crm", "--stream", "people", "--where", KIM, "--delete", "--now")
    assert result.exit_code == 1
    assert "crm/people: 3 records erased" in result.stdout
    assert "erased, and then failed: the disk is away" in result.stdout
    assert ids(lake) == [1, 2, 4, 5, 7, 8]


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_every_engine_erases(run: Run, lake: Lake, root: Path, engine: str) -> None:
    assert erase(run, root, "--delete", "--engine", engine)[0] == "crm/people: 3 records erased in 2 of 3 files"
    assert ids(lake) == [1, 2, 4, 5, 7, 8]


def test_what_a_killed_writer_left_is_looked_into(run: Run, lake: Lake, root: Path) -> None:
    path = root / "raw/crm/people" / lake.stream("crm", "people").snapshot().files[0].path
    whole = path.read_bytes()
    erase(run, root, "--delete", "--now")
    path.with_name(".tmp-0123456789abcdef").write_bytes(whole[:-4])
    path.with_name(".tmp-0123456789abcdeg").write_bytes(b'{"format": 1')
    told = erase(run, root)
    assert told[1].startswith("  2 records are still in 1 file, which nothing lists: ")
    found = run("verify", root, "--erased", KIM)
    assert found.exit_code == 1
    assert ".tmp-0123456789abcdef: holds" in found.stdout
    assert ".tmp-0123456789abcdeg" not in found.stdout


def test_what_a_killed_writer_left_half_of_an_attached_file_is_named(run: Run, root: Path) -> None:
    """Of a local disk: nobody knows whose it was."""
    folder = root / "raw/crm/people/_files/ab"
    folder.mkdir(parents=True)
    (folder / ".tmp-0123456789abcdef").write_bytes(b"half a photo")
    assert erase(run, root, where="id = 99")[-2] == "    raw/crm/people/_files/ab/.tmp-0123456789abcdef"
    found = run("verify", root, "--erased", "id = 99")
    assert found.exit_code == 1
    assert "it is not whole: delete it by hand when no writer is at work" in found.stdout
