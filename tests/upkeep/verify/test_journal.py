"""The journal of a verification: what it lets be left out, and what it refuses."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from singerlake.errors import SettingError, StorageUnavailableError
from singerlake.lake import Lake
from singerlake.upkeep.verify import Verified, open_journal, verify_stream
from tests.lakes import build_stream
from tests.upkeep.reads import Told
from tests.upkeep.shelf import SCHEMA
from tests.upkeep.verify.test_verify import body_of, edit, first_file


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    build_stream(lake, "t", "s", SCHEMA, [{"n": n} for n in range(25)], file_size=10, member_size=3)
    return lake


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def verified(lake: Lake, path: Path, engine: Told | None = None) -> Verified:
    with open_journal(path, lake.storage.url) as noted:
        state = lake.stream("t", "s").state
        return verify_stream(lake.storage, "t", "s", state, journal=noted, engine=engine or Told(lake.storage))


def test_a_run_goes_on_where_the_one_before_was_interrupted(lake: Lake, journal: Path) -> None:
    with pytest.raises(StorageUnavailableError):
        verified(lake, journal, Told(lake.storage, most=2))
    rest = Told(lake.storage)
    checked = verified(lake, journal, rest)
    assert len(rest.read) == 1
    assert (checked.read.files, checked.noted.files, checked.files) == (1, 2, 3)
    assert checked.findings == ()
    assert verified(lake, journal).noted.files == 3


def test_a_file_that_changed_on_storage_is_read_again(lake: Lake, journal: Path) -> None:
    verified(lake, journal)
    key = first_file(lake)
    lake.storage.put(key, body_of(lake, key)[:-5] + b"wrong")
    again = verified(lake, journal)
    assert [finding.kind for finding in again.findings] == ["broken"]
    assert again.read.files == 1


def test_a_file_of_which_the_manifest_says_something_else_is_read_again(lake: Lake, journal: Path) -> None:
    verified(lake, journal)
    edit(lake, lambda manifest: manifest["files"][1].__setitem__("records", 9))
    again = verified(lake, journal)
    assert [finding.kind for finding in again.findings] == ["differs"]
    assert again.read.files == 1


def test_a_file_with_findings_is_read_and_told_again(lake: Lake, journal: Path) -> None:
    key = first_file(lake)
    lake.storage.put(key, body_of(lake, key)[:-5])
    first = verified(lake, journal)
    assert verified(lake, journal).findings == first.findings != ()


def test_a_file_that_is_gone_is_missed_whatever_the_journal_says(lake: Lake, journal: Path) -> None:
    verified(lake, journal)
    lake.storage.delete(first_file(lake))
    assert [finding.kind for finding in verified(lake, journal).findings] == ["missing"]


def test_a_line_says_what_was_read_and_what_was_found(lake: Lake, journal: Path) -> None:
    key = first_file(lake)
    lake.storage.put(key, body_of(lake, key)[:-5])
    verified(lake, journal)
    head, *lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert head == {"lake": lake.storage.url, "journal": "singerlake verify", "version": 1}
    assert [line["findings"] for line in lines] == [["broken"], [], []]
    assert lines[0]["key"] == key


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_last_line_that_was_cut_counts_for_nothing(lake: Lake, journal: Path, cut: int) -> None:
    verified(lake, journal)
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-cut])
    assert verified(lake, journal).read.files == 1
    assert sorted(journal.read_bytes().splitlines()) == sorted(whole.splitlines())


def test_a_first_line_that_was_cut_is_written_again(lake: Lake, journal: Path) -> None:
    verified(lake, journal)
    whole = journal.read_bytes()
    journal.write_bytes(whole[:20])
    assert verified(lake, journal).read.files == 3
    assert journal.read_bytes() == whole


def test_the_journal_of_another_lake_is_refused_and_left_alone(lake: Lake, journal: Path) -> None:
    verified(lake, journal)
    before = journal.read_bytes()
    with pytest.raises(SettingError, match="another lake's") as refused, open_journal(journal, "s3://else/where"):
        pass
    assert lake.storage.url in str(refused.value)
    assert journal.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        b"some notes",
        b"some notes\n",
        b"{}\n",
        b'{"lake":1}\n',
        b'{"lake":"LAKE","journal":"singerlake rebuild","version":1}\n',
        b'{"lake":"LAKE","journal":"singerlake verify","version":2}\n',
        b'{"lake":"LAKE","journal":"singerlake verify","version":1}\nnonsense\n',
        b'{"lake":"LAKE","journal":"singerlake verify","version":1}\n{"key":"k","size":1,"stamp":"no hex"}\n',
        b"\xff\xfe\n",
    ],
)
def test_a_file_that_is_no_journal_is_refused_and_left_alone(lake: Lake, journal: Path, content: bytes) -> None:
    content = content.replace(b"LAKE", lake.storage.url.encode())
    journal.write_bytes(content)
    with pytest.raises(SettingError, match="not a journal") as refused, open_journal(journal, lake.storage.url):
        pass
    assert str(journal) in str(refused.value)
    assert journal.read_bytes() == content


def test_a_journal_that_cannot_be_opened_is_a_setting_to_change(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no such file"), open_journal(tmp_path / "none" / "journal", "x"):
        pass
    with pytest.raises(SettingError, match="is a directory"), open_journal(tmp_path, "x"):
        pass


def test_a_journal_that_another_run_writes_is_refused(lake: Lake, journal: Path) -> None:
    with open_journal(journal, "x"), pytest.raises(SettingError, match="in use"), open_journal(journal, "x"):
        pass


def test_what_the_block_raises_is_not_taken_for_the_journals(journal: Path) -> None:
    with pytest.raises(OSError, match=r"^not the journal$"), open_journal(journal, "x"):
        raise OSError("not the journal")


def test_a_disk_that_is_full_is_told_of_once_and_in_one_line(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with (  # noqa: PT012
            pytest.raises(SettingError, match="the journal cannot be read and written: file too large"),
            open_journal(tmp_path / "journal", "lake") as journal,
        ):
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
            for number in range(100):
                journal.note(f"key{number}", 1, bytes(16), ())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with open_journal(tmp_path / "journal", "lake") as journal:
        assert journal.knows(bytes(16))
