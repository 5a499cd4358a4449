"""The journal of a rebuild: what it lets be left out, and that a rebuild with it comes to what one without it does."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from singerlake.clock import timestamp
from singerlake.errors import SettingError, StorageUnavailableError
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.state import fold
from singerlake.storage.port import Entry
from singerlake.stores.lockfile import LockfileStore
from singerlake.upkeep.context import StreamContext, data_files
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.rebuild.survey import Survey, open_survey_journal, survey
from singerlake.upkeep.verify import open_journal
from tests.fakes import START
from tests.storage.memory import Step
from tests.upkeep.reads import Told
from tests.upkeep.shelf import (
    OTHER,
    PREFIX,
    STREAM,
    TAP,
    Shelf,
    file_bytes,
    file_id,
    header,
    kinds,
    numbered,
    record,
    vacuumed_bytes,
)

LAKE = "memory://lake"
HEAD = b'{"lake":"memory://lake","journal":"singerlake rebuild","version":1}\n'


FILES = 8


@pytest.fixture
def shelf() -> Shelf:
    """All that a folder may hold: versions, a vacuumed file, a copy, a cut copy, a clash, a broken file."""
    shelf = Shelf()
    shelf.original(1, 3)
    shelf.original(2, 2, OTHER)
    shelf.vacuumed(5, (3, 2), (4, 1))
    whole = file_bytes([numbered(6, 3), numbered(7, 3)], extra=header(6))
    shelf.put(6, whole)
    shelf.put(6, file_bytes([numbered(6, 3)], extra=header(6)), path="x/cut.singer.gz")
    shelf.put(1, file_bytes([numbered(8, 3)], extra=header(1)), path="x/clash.singer.gz")
    shelf.put(9, b"?", path="x/broken.singer.gz")
    shelf.put(9, file_bytes([[record(1)]], extra=None), path="x/by-hand.singer.gz")
    return shelf


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def surveyed(shelf: Shelf, path: Path, engine: Told | None = None) -> Survey:
    entries = list(data_files(shelf.storage, TAP, STREAM))
    with open_survey_journal(path, LAKE) as noted:
        return survey(shelf.storage, TAP, STREAM, entries, engine=engine or Told(shelf.storage), journal=noted)


def without_journal(shelf: Shelf) -> Survey:
    return survey(shelf.storage, TAP, STREAM, data_files(shelf.storage, TAP, STREAM))


def told(one: Survey) -> tuple[object, object]:
    return sorted(one.files, key=lambda file: file.path), one.findings


@pytest.mark.parametrize("most", range(FILES))
def test_a_run_goes_on_where_the_one_before_was_interrupted(shelf: Shelf, journal: Path, most: int) -> None:
    with pytest.raises(StorageUnavailableError):
        surveyed(shelf, journal, Told(shelf.storage, most=most))
    rest = Told(shelf.storage)
    done = surveyed(shelf, journal, rest)
    whole = without_journal(shelf)
    assert told(done) == told(whole)
    assert kinds(done.findings) == ["broken"]
    # The broken file is read again, where it was read.
    assert len(rest.read) == FILES - most + (PREFIX + "x/broken.singer.gz" in {e.key for e in listed(shelf)[:most]})
    assert done.read + done.noted == whole.read


def listed(shelf: Shelf) -> list[Entry]:
    return list(data_files(shelf.storage, TAP, STREAM))


def test_only_broken_files_are_read_again(shelf: Shelf, journal: Path) -> None:
    first = surveyed(shelf, journal)
    again = Told(shelf.storage)
    assert told(surveyed(shelf, journal, again)) == told(first)
    assert [entry.key for entry in again.read if isinstance(entry, Entry)] == [PREFIX + "x/broken.singer.gz"]


def test_a_file_that_changed_is_read_again(shelf: Shelf, journal: Path) -> None:
    surveyed(shelf, journal)
    shelf.put(2, vacuumed_bytes(2, [(10, 4)]), schema=OTHER)
    again = Told(shelf.storage)
    assert told(surveyed(shelf, journal, again)) == told(without_journal(shelf))
    assert [entry.key for entry in again.read if isinstance(entry, Entry)] == [
        PREFIX + shelf.path(2, OTHER),
        PREFIX + "x/broken.singer.gz",
    ]


def test_a_file_that_is_gone_is_gone_whatever_the_journal_says(shelf: Shelf, journal: Path) -> None:
    surveyed(shelf, journal)
    shelf.storage.delete(PREFIX + shelf.path(1))
    assert told(surveyed(shelf, journal)) == told(without_journal(shelf))


def test_what_json_allows_and_few_encodings_of_it_comes_back_as_it_was(journal: Path) -> None:
    """Text that is no Unicode, numbers that no machine has, and one of more than 64 bits in a header."""
    shelf = Shelf()
    head = FileHeader(id=file_id(1), created=timestamp(START), run="r", seq=2**70)
    odd = rb'{"type":"SCHEMA","stream":"s","schema":{"title":"\ud800","maximum":NaN,"minimum":-1' + b"0" * 30 + b"}}\n"
    shelf.put(1, file_bytes([[record(1)]], extra=msgspec.json.encode(head), schema=odd))
    first = surveyed(shelf, journal)
    again = surveyed(shelf, journal)
    assert again.noted.files == 1
    # NaN is not itself.
    assert repr(told(again)) == repr(told(first)) == repr(told(without_journal(shelf)))
    assert next(iter(first.files)).facts.seq == 2**70


def test_a_key_that_is_no_unicode_is_not_noted(shelf: Shelf, journal: Path) -> None:
    file = next(iter(without_journal(shelf).files))
    entry = Entry(PREFIX + "x/\udcff.singer.gz", 1, datetime(2026, 1, 1, tzinfo=UTC), "e")
    with open_survey_journal(journal, LAKE) as noted:
        noted.note(entry, file)
        assert noted.known(PREFIX, entry) is None
    assert journal.read_bytes() == HEAD


def test_a_schema_is_written_once(shelf: Shelf, journal: Path) -> None:
    surveyed(shelf, journal)
    shelf.original(20, 1)
    surveyed(shelf, journal)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["line"] for line in lines[1:]].count("schema") == 2
    assert [line["line"] for line in lines[1:]].count("file") == FILES
    assert lines[0] == json.loads(HEAD)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_last_line_that_was_cut_counts_for_nothing(shelf: Shelf, journal: Path, cut: int) -> None:
    surveyed(shelf, journal)
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-cut])
    assert told(surveyed(shelf, journal)) == told(without_journal(shelf))
    assert journal.read_bytes() == whole


@pytest.mark.parametrize(
    "content",
    [
        b"some notes\n",
        HEAD + b"nonsense\n",
        HEAD + b'{"line":"file","key":"k","stamp":"00","schema":"a","said":{}}\n',
        HEAD + b'{"line":"schema","id":"a","content":"{"}\n',
        HEAD + b'{"line":"schema","id":"a","content":"[]"}\n',
        HEAD + b'{"key":"k","size":1,"stamp":"00"}\n',
    ],
)
def test_a_file_that_is_no_journal_is_refused_and_left_alone(shelf: Shelf, journal: Path, content: bytes) -> None:
    journal.write_bytes(content)
    with pytest.raises(SettingError, match="not a journal of 'singerlake rebuild'"):
        surveyed(shelf, journal)
    assert journal.read_bytes() == content


@pytest.mark.parametrize("change", [(b'"stamp":"', b'"stamp":"no'), (b'"schema":"', b'"schema":"other')])
def test_a_line_that_was_changed_is_refused(shelf: Shelf, journal: Path, change: tuple[bytes, bytes]) -> None:
    surveyed(shelf, journal)
    changed = journal.read_bytes().replace(*change)
    journal.write_bytes(changed)
    with pytest.raises(SettingError, match="not a journal of 'singerlake rebuild'"):
        surveyed(shelf, journal)
    assert journal.read_bytes() == changed


def test_the_journal_of_a_verification_is_refused_and_the_other_way_round(journal: Path, tmp_path: Path) -> None:
    with open_journal(journal, LAKE):
        pass
    with pytest.raises(SettingError, match="'singerlake rebuild', but of 'singerlake verify'"):
        surveyed(Shelf(), journal)
    other = tmp_path / "other"
    surveyed(Shelf(), other)
    with (
        pytest.raises(SettingError, match="'singerlake verify', but of 'singerlake rebuild'"),
        open_journal(other, LAKE),
    ):
        pass


def test_the_journal_of_another_lake_is_refused(shelf: Shelf, journal: Path) -> None:
    surveyed(shelf, journal)
    with pytest.raises(SettingError, match="another lake's"), open_survey_journal(journal, "s3://else/where"):
        pass


def test_a_plan_that_a_writer_came_before_is_made_again_without_reading_again(shelf: Shelf, journal: Path) -> None:
    engine = Told(shelf.storage)
    key = layout.manifest_key(TAP, STREAM)
    store = LockfileStore(shelf.storage, TAP, STREAM)
    empty = fold.empty(tap=TAP, stream=STREAM, store="lockfile", lineage="x", created="2026", transaction_id="x")

    def first(step: Step) -> None:
        if step.operation == "put" and step.key == key:
            shelf.storage.hook = lambda _: None
            store.create(empty)

    shelf.storage.hook = first
    with open_survey_journal(journal, LAKE) as noted:
        done = repair_stream(
            StreamContext(shelf.storage, TAP, STREAM, shelf.clock, shelf.ids, store),
            RepairOptions(discard=True),
            engine=engine,
            journal=noted,
        )
    assert [entry.key for entry in engine.read[FILES:] if isinstance(entry, Entry)] == [PREFIX + "x/broken.singer.gz"]
    assert (done.read.files, done.noted.files) == (1, FILES - 1)
    loaded = store.load()
    assert loaded is not None
    assert loaded.manifest.files == done.after.files
    assert done.before == empty
