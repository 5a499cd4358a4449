"""Rebuilding a stream through whichever manifest store keeps it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from singerlake.errors import CorruptObjectError, LostStateError, StreamClosedError
from singerlake.format import layout
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Position
from singerlake.format.state.transactions import Close, Transaction
from singerlake.stores.commit import commit_once
from singerlake.stores.port import Loaded
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.rebuild.repair import Repair
from tests.stores.stores import IN_A_DATABASE, Place, make_place
from tests.stores.test_any_writer import upload, writer

pytestmark = pytest.mark.in_turn("place")


def repair(place: Place, **wish: bool) -> Repair:
    return repair_stream(place.context(), RepairOptions(**wish))


def begun(place: Place, folder: Path) -> list[str]:
    """A stream of two files, the second never committed."""
    own, listed, stray = writer(place), upload(place, folder), upload(place, folder)
    own.settled(own.submit([listed]))
    own.finish()
    place.storage.upload("raw/t/s/" + stray.file.path, stray.spool)
    return [listed.file.id, stray.file.id]


def goes_on(place: Place, folder: Path) -> str:
    own, another = writer(place), upload(place, folder)
    own.settled(own.submit([another]))
    own.finish()
    return another.file.id


def test_a_file_that_was_never_committed_is_adopted_under_the_same_lineage(place: Place, tmp_path: Path) -> None:
    ids = begun(place, tmp_path)
    before = place.state()
    assert repair(place, adopt=True).needed
    assert place.listed() == ids
    assert place.state().lineage == before.lineage
    assert not repair(place).needed
    last = goes_on(place, tmp_path)
    assert place.listed() == [*ids, last]


def test_a_state_made_anew_has_a_new_lineage_and_a_higher_number(place: Place, tmp_path: Path) -> None:
    ids = begun(place, tmp_path)
    before = place.state()
    repair(place, discard=True)
    after = place.state()
    assert sorted(file.id for file in after.files) == sorted(ids)
    assert after.lineage != before.lineage
    assert after.transaction.number > before.transaction.number
    last = goes_on(place, tmp_path)
    assert place.listed()[-1] == last


@pytest.mark.parametrize("kind", ["log", "merge"])
def test_a_broken_log_is_given_up_for_a_new_one_only_on_request(kind: str, tmp_path: Path) -> None:
    place = Place(kind)
    ids = begun(place, tmp_path)
    number = place.state().transaction.number
    key = layout.log_prefix("t", "s") + layout.log_name(number)
    place.storage.put(key, b"{")
    place.storage.delete(layout.manifest_key("t", "s"))
    with pytest.raises(CorruptObjectError, match=r"transaction|record"):
        repair(place)
    repair(place, discard=True)
    after = place.state()
    assert sorted(file.id for file in after.files) == sorted(ids)
    assert after.transaction.number > number
    last = goes_on(place, tmp_path)
    assert place.listed()[-1] == last


@pytest.mark.parametrize("kind", IN_A_DATABASE)
def test_a_database_that_lost_its_history_is_given_a_new_one(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = make_place(kind, request)
    ids = begun(place, tmp_path)
    number = place.state().transaction.number
    place.known_by_another_id()
    repair(place)
    after = place.state()
    assert sorted(file.id for file in after.files) == sorted(ids)
    assert after.transaction.number > number
    goes_on(place, tmp_path)
    assert place.lake.stream("t", "s").snapshot() == place.state()


def test_a_stream_that_is_moved_while_it_is_read_says_how_it_gets_there(place: Place, tmp_path: Path) -> None:
    begun(place, tmp_path)

    def moved(_: Repair) -> None:
        store = place.store()
        base = store.load()
        assert base is not None
        close = Transaction(id="close", at="2026-01-01T00:00:00Z", change=Close(successor="log"))
        outcome = commit_once(store, base, close, clock=place.clock)
        assert isinstance(outcome, Loaded)

    with pytest.raises(StreamClosedError, match="'log'") as raised:
        repair_stream(
            place.context(),
            RepairOptions(adopt=True),
            planned=moved,
        )
    assert "store migrate" in str(raised.value)


@pytest.mark.parametrize("ahead", [0, 1, 9])
@pytest.mark.parametrize("kind", IN_A_DATABASE)
def test_readers_see_what_is_made_anew_where_they_had_seen_more_than_the_database_has(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, ahead: int
) -> None:
    """As they had before an older backup of it was restored."""
    place = make_place(kind, request)
    ids = begun(place, tmp_path)
    before = place.state()
    key = layout.manifest_key("t", "s")
    number = before.transaction.number + ahead
    seen = msgspec.structs.replace(before, transaction=Position(number, "of the branch that is lost"))
    place.storage.put(key, to_json(seen))
    if ahead:
        with pytest.raises(LostStateError, match="rebuild --discard-manifest"):
            writer(place).open()
    assert repair(place, discard=True).needed
    stored = place.storage.get(key)
    assert stored is not None
    shown = from_json(stored.body, key=key)
    assert shown == place.state()
    assert shown.transaction.number == max(number, before.transaction.number) + 1
    assert shown.lineage != before.lineage
    assert sorted(place.listed()) == sorted(ids)
    last = goes_on(place, tmp_path)
    assert place.listed()[2:] == [last]


@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("kind", IN_A_DATABASE)
def test_one_that_dies_before_readers_see_its_state_is_run_again(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, step: int
) -> None:
    """Until then runs stop, as they did before it: nothing is written into a state that readers do not see."""
    place = make_place(kind, request)
    ids = begun(place, tmp_path)
    before, key = place.state(), layout.manifest_key("t", "s")
    number = before.transaction.number + 9
    seen = msgspec.structs.replace(before, transaction=Position(number, "of the branch that is lost"))
    place.storage.put(key, to_json(seen))
    context = place.context()
    commit, commits = context.store.commit, []

    def dies(base: Loaded, transaction: Transaction) -> object:
        commits.append(transaction)
        if len(commits) > step:
            raise KeyboardInterrupt
        return commit(base, transaction)

    monkeypatch.setattr(context.store, "commit", dies)
    with pytest.raises(KeyboardInterrupt):
        repair_stream(context, RepairOptions(discard=True))
    with pytest.raises(LostStateError, match="rebuild --discard-manifest"):
        writer(place).open()
    assert repair(place, discard=True).needed
    stored = place.storage.get(key)
    assert stored is not None
    assert from_json(stored.body, key=key) == place.state()
    assert place.state().transaction.number > number
    assert sorted(place.listed()) == sorted(ids)
    last = goes_on(place, tmp_path)
    assert place.listed()[2:] == [last]
