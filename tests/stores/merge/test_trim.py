"""What a trim of the ``merge`` store takes away, and what it never does."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from singerlake.errors import CorruptObjectError
from singerlake.format.state.additions import Conflict
from singerlake.format.state.transactions import ReplaceFiles
from singerlake.storage.port import Stored
from singerlake.stores.merge.entries import Entries
from singerlake.stores.merge.log import SettleLog
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.storage_time import StorageTime
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded
from tests.format.state.test_fold import new_file
from tests.stores.merge.merging import LAG, LOG, Crew, Member, Skewed


def filled(files: int = 6) -> tuple[Crew, Member]:
    """A stream of so many records, each old by the time of the next."""
    crew = Crew()
    crew.born()
    writer = crew.member()
    for number in range(files):
        writer.settled(writer.commit(f"f{number}"))
        crew.wait(60)
    return crew, writer


def restore(crew: Crew) -> None:
    """Everything is copied into a new bucket: the same objects, of today."""
    crew.wait(5000)
    now = crew.clock.now()
    crew.storage._objects = {key: Stored(stored.body, crew.ids(), now) for key, stored in crew.storage._objects.items()}


def test_records_go_with_their_entries_and_what_is_kept_goes_on() -> None:
    crew, writer = filled()
    before = crew.state()
    assert len(crew.entries()) == 6
    planned = crew.member().store.trim(keep=2)
    assert len(crew.entries()) == 6
    done = crew.member().store.trim(keep=2, dry_run=False)
    assert (planned.floor, planned.transactions) == (done.floor, done.transactions) == (4, 5)
    assert done.keys == 4 + 5, "four entries, and five records with the birth"
    assert len(crew.entries()) == 2
    assert [record.number for record in crew.records()] == [5, 6]
    assert crew.state() == before
    writer.settled(writer.commit("next"))
    assert crew.listed() == [*(f"f{number}" for number in range(6)), "next"]


def test_a_dry_run_writes_nothing_at_all() -> None:
    crew, _ = filled()
    crew.member().commit("left behind")
    crew.wait(100)
    before = dict(crew.storage._objects)
    crew.member().store.trim(keep=0)
    assert crew.storage._objects == before


def test_the_newest_record_always_stays_since_the_next_is_written_by_it() -> None:
    crew, writer = filled()
    crew.member().store.trim(keep=0, dry_run=False)
    assert [record.number for record in crew.records()] == [6]
    writer.settled(writer.commit("next"))
    assert crew.listed()[-1] == "next"
    assert [len(record.entries) for record in crew.records()] == [1, 1]


def test_records_that_stragglers_may_still_be_measured_against_stay() -> None:
    crew = Crew()
    crew.born()
    writer = crew.member()
    for number in range(6):
        writer.commit(f"f{number}")
        crew.wait(LAG + 0.5 if number == 0 else 2)
        writer.settle(writer.held[0])
        writer.known()
    for pending in writer.held:
        writer.settled(pending)
    count = len(list(crew.records()))
    assert count >= 5
    crew.member().store.trim(keep=0, dry_run=False)
    newest = list(crew.records())[-1]
    kept = {record.number for record in crew.records()}
    assert {newest.number - 1, newest.number - 2} <= kept


def test_nothing_that_waits_is_ever_removed() -> None:
    crew, _ = filled()
    late = crew.member()
    pending = late.commit("waiting")
    crew.wait(1)
    crew.member().store.trim(keep=0, dry_run=False)
    assert crew.storage.head(pending.key) is not None
    late.settled(pending)
    assert crew.listed()[-1] == "waiting"


def test_what_was_never_settled_is_settled_before_a_trim() -> None:
    crew, _ = filled(3)
    crew.member().commit("left behind")
    crew.wait(100)
    crew.member().store.trim(keep=0, dry_run=False)
    assert crew.listed() == ["f0", "f1", "f2", "left behind"]


def test_a_stream_that_was_never_born_has_nothing_to_trim() -> None:
    crew = Crew()
    trimmed = crew.member().store.trim(keep=0, dry_run=False)
    assert (trimmed.floor, trimmed.transactions, trimmed.keys) == (-1, 0, 0)


def test_a_stream_that_is_born_while_a_trim_looks_for_it_loses_nothing() -> None:
    crew = Crew()
    trimmer = crew.member()
    load = trimmer.store.load

    def looks_and_stops() -> Loaded | None:
        found = load()
        crew.born()
        writer = crew.member()
        for number in range(3):
            writer.settled(writer.commit(f"f{number}"))
        return found

    trimmer.store.load = looks_and_stops  # type: ignore[method-assign]
    trimmer.store.trim(keep=0, dry_run=False)
    assert [record.number for record in crew.records()] == [1, 2, 3]
    assert crew.listed() == ["f0", "f1", "f2"]


def test_where_no_record_is_left_to_tell_nothing_is_removed() -> None:
    crew, _ = filled(3)
    clock, ids, times = Skewed(crew.clock), crew.ids, MergeSettings()
    place = StreamPlace(crew.storage, "t", "s", clock, ids)
    log = SettleLog(place, Entries(place, times), times, StorageTime(clock))
    before = crew.names()
    assert log.remove(3, dry_run=False) == 0
    assert crew.names() == before


def test_the_wrong_entry_of_a_writer_that_was_corrected_goes_when_it_is_old() -> None:
    crew, _ = filled(2)
    for skew in (3600, -3600):
        writer = crew.member(skew)
        writer.settled(writer.commit(f"skewed {skew}"))
    assert len(crew.entries()) == 2 + 4
    crew.member().store.trim(keep=10, dry_run=False)
    assert len(crew.entries()) == 2 + 4, "they are young, and may be looked at"
    crew.wait(4000)
    last = crew.member()
    last.settled(last.commit("last"))
    assert crew.member().store.trim(keep=10).keys == 2
    assert crew.member().store.trim(keep=10, dry_run=False).keys == 2
    assert len(crew.entries()) == 2 + 2 + 1
    assert crew.listed() == ["f0", "f1", "skewed 3600", "skewed -3600", "last"]


def abandoned(crew: Crew, skew: float) -> str:
    """A writer with a wrong clock dies before it sees that its entry does not count."""
    writer = crew.member(skew)
    writer.known()

    class Died(BaseException):
        pass

    def hook(step: object) -> None:
        if getattr(step, "operation", "") == "head":
            raise Died

    crew.storage.hook = hook
    with pytest.raises(Died):
        writer.commit("abandoned")
    crew.storage.hook = lambda step: None
    (name,) = {key.name for key in crew.entries()} - {held.key for record in crew.records() for held in record.entries}
    return LOG + name


def test_an_entry_named_for_the_future_never_counts_and_goes() -> None:
    crew, writer = filled(2)
    wrong = abandoned(crew, 3600)
    crew.wait(8000)
    writer.settled(writer.commit("last"))
    crew.member().store.trim(keep=10, dry_run=False)
    assert crew.storage.head(wrong) is None
    assert "abandoned" not in crew.listed()


def test_an_entry_that_looks_too_old_and_is_in_no_record_is_kept_and_named(caplog: pytest.LogCaptureFixture) -> None:
    crew, writer = filled(2)
    wrong = abandoned(crew, -3600)
    crew.wait(8000)
    writer.settled(writer.commit("last"))
    with caplog.at_level(logging.WARNING):
        crew.member().store.trim(keep=0, dry_run=False)
    assert crew.storage.head(wrong) is not None
    assert "1 entries do not count" in caplog.text
    assert wrong in caplog.text
    assert "abandoned" not in crew.listed()


def test_in_a_bucket_that_was_restored_nothing_outside_a_record_is_collected(caplog: pytest.LogCaptureFixture) -> None:
    crew, _ = filled(3)
    unsettled = crew.member().commit("unsettled")
    restore(crew)
    crew.wait(100_000)
    with caplog.at_level(logging.WARNING):
        crew.member().store.trim(keep=10, dry_run=False)
    assert "3 settled entries have another LastModified" in caplog.text
    assert "restored" in caplog.text
    assert crew.storage.head(unsettled.key) is not None
    assert crew.listed() == ["f0", "f1", "f2"]
    crew.member().store.trim(keep=0, dry_run=False)
    crew.member().store.trim(keep=0, dry_run=False)
    assert crew.storage.head(unsettled.key) is not None, "nor later, when nothing else shows what happened"


def test_a_stream_in_a_bucket_that_was_restored_goes_on() -> None:
    crew, _ = filled(3)
    crew.member().commit("unsettled")
    restore(crew)
    writer = crew.member()
    writer.settled(writer.commit("new"))
    assert crew.listed() == ["f0", "f1", "f2", "new"]
    crew.wait(10_000)
    writer.settled(writer.commit("newer"))
    crew.member().store.trim(keep=1, dry_run=False)
    writer.settled(writer.commit("newest"))
    assert crew.listed() == ["f0", "f1", "f2", "new", "newer", "newest"]


def test_entries_whose_dates_contradict_their_names_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Restored one by one, in any order: some settled entries by now have later dates than newer ones."""
    crew, writer = filled(4)
    for number, key in enumerate(crew.entries()):
        stored = crew.storage._objects[LOG + key.name]
        later = stored.last_modified + timedelta(hours=10 - number)
        crew.storage._objects[LOG + key.name] = Stored(stored.body, stored.etag, later)
    crew.wait(100_000)
    writer.settled(writer.commit("last"))
    with caplog.at_level(logging.WARNING):
        assert crew.member().store.trim(keep=10, dry_run=False).keys == 0
    assert "4 settled entries" in caplog.text
    assert crew.listed() == ["f0", "f1", "f2", "f3", "last"]


def test_a_snapshot_that_does_not_read_back_stops_a_trim_before_anything_goes() -> None:
    crew, _ = filled()
    original = crew.storage.get
    crew.storage.get = (  # type: ignore[method-assign]
        lambda key: None if key.endswith(".snapshot.json") else original(key)
    )
    with pytest.raises(CorruptObjectError):
        crew.member().store.trim(keep=1, dry_run=False)
    crew.storage.get = original  # type: ignore[method-assign]
    assert len(crew.entries()) == 6
    assert len(list(crew.records())) == 6


def test_an_unreadable_entry_that_does_not_count_stops_no_trim(caplog: pytest.LogCaptureFixture) -> None:
    crew, writer = filled(2)
    wrong = abandoned(crew, -3600)
    stored = crew.storage._objects[wrong]
    crew.storage._objects[wrong] = Stored(b"{", stored.etag, stored.last_modified)
    crew.wait(8000)
    writer.settled(writer.commit("last"))
    with caplog.at_level(logging.WARNING):
        crew.member().store.trim(keep=0, dry_run=False)
    assert "not an entry" in caplog.text
    assert crew.storage.head(wrong) is not None
    assert [record.number for record in crew.records()] == [3]


def test_a_receipt_that_was_settled_and_trimmed_while_its_writer_slept_is_seen_in_the_state() -> None:
    crew, writer = filled(2)
    asleep = crew.member()
    pending = asleep.commit("slept over")
    for number in range(4):
        crew.wait(60)
        writer.settled(writer.commit(f"g{number}"))
    crew.wait(60)
    crew.member().store.trim(keep=0, dry_run=False)
    assert crew.storage.head(pending.key) is None
    assert "slept over" in [file.id for file in asleep.settled(pending).files]
    assert crew.listed().count("slept over") == 1


def test_a_receipt_that_was_void_and_trimmed_while_its_writer_slept_is_not_taken_for_settled() -> None:
    crew, writer = filled(2)
    asleep = crew.member()
    asleep.known()
    writer.commit(ReplaceFiles(old=("f0",), new=(new_file("mine"),)))
    crew.wait(0.01)
    pending = asleep.commit(ReplaceFiles(old=("f0",), new=(new_file("theirs"),)))
    for number in range(4):
        crew.wait(60)
        writer.settled(writer.commit(f"g{number}"))
    crew.wait(60)
    crew.member().store.trim(keep=0, dry_run=False)
    outcome = asleep.settle(pending)
    assert isinstance(outcome, Conflict)
    assert "trimmed" in outcome.reason
    assert crew.listed() == ["mine", "f1", *(f"g{number}" for number in range(4))]
