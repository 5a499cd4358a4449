"""The log of numbered transactions beside the data: what may be missing, what must be an error, and trimming."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

from singerlake.errors import ConditionNotSupportedError, CorruptObjectError, ForeignManifestError
from singerlake.format import layout
from singerlake.format.state.additions import Conflict
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Position
from singerlake.stores.log import ObjectLog
from singerlake.stores.numbered import NumberedStore, Record
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, Outdated
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.stores import Place

KEY = layout.manifest_key("t", "s")
LOG = layout.log_prefix("t", "s")


@pytest.fixture
def place() -> Place:
    return Place("log")


def filled(place: Place, commits: int = 8) -> Loaded:
    return place.committed(place.born(), *(add(new_file(f"f{number}")) for number in range(commits)))


def record_key(number: int) -> str:
    return LOG + layout.log_name(number)


def names(place: Place) -> list[str]:
    return [entry.key[len(LOG) :] for entry in place.storage.list(LOG)]


def test_each_transaction_is_one_object_that_names_the_one_before(place: Place) -> None:
    filled(place, 2)
    assert names(place) == [layout.log_name(number) for number in range(3)]
    before = None
    for number in range(3):
        stored = place.storage.get(record_key(number))
        assert stored is not None
        body = json.loads(stored.body)
        assert (body["number"], body["after"]) == (number, before)
        before = body["transaction"]["id"]


def test_a_reader_needs_the_snapshot_and_the_tail_alone(place: Place) -> None:
    base = filled(place, 5)
    place.store().publish(base, run_ended=True)
    for number in range(base.manifest.transaction.number + 1):
        place.storage.delete(record_key(number))
    assert place.state() == base.manifest


def test_a_manifest_that_is_gone_is_read_from_the_log_alone(place: Place) -> None:
    base = filled(place)
    place.storage.delete(KEY)
    assert place.state() == base.manifest
    assert place.lake.stream("t", "s").kind() == "log"
    assert place.lake.stream("t", "s").snapshot() == base.manifest


def test_a_manifest_that_was_put_back_to_an_older_state_is_caught_up(place: Place) -> None:
    old = place.storage.get(KEY) if place.born() else None
    assert old is not None
    base = place.committed(place.born(), *(add(new_file(f"f{number}")) for number in range(4)))
    place.store().publish(base, run_ended=True)
    place.storage.put(KEY, old.body)
    assert place.state() == base.manifest


def test_a_manifest_from_before_the_floor_gives_way_to_the_snapshot_that_the_floor_names(place: Place) -> None:
    born = place.storage.get(KEY) if place.born() else None
    assert born is not None
    base = place.committed(place.born(), *(add(new_file(f"f{number}")) for number in range(4)))
    place.store().trim(keep=1, dry_run=False)
    for body in (born.body, None):
        place.storage.delete(KEY)
        if body is not None:
            place.storage.put(KEY, body)
        assert place.state() == base.manifest


@pytest.mark.parametrize("missing", [1, 4, 7])
def test_a_gap_is_an_error_and_is_never_skipped(place: Place, missing: int) -> None:
    filled(place)
    place.storage.delete(record_key(missing))
    with pytest.raises(CorruptObjectError, match=f"transaction {missing + 1} follows {missing - 1}"):
        place.store().load()


BAD: dict[str, tuple[bytes, str]] = {
    "cut": (b'{"number":3,"af', "transaction 3"),
    "empty": (b"", "transaction 3"),
    "not an object": (b"[]", "transaction 3"),
    "unknown change": (b'{"number":3,"after":"x","transaction":{"id":"a","at":"b","change":{"kind":"new"}}}', "new"),
    "no change": (b'{"number":3,"after":"x","transaction":{"id":"a","at":"b"}}', "transaction 3"),
    "another log": (
        b'{"number":3,"after":"x","transaction":{"id":"a","at":"b","change":{"kind":"close","successor":"y"}}}',
        "continue",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_record_that_cannot_be_believed_is_an_error_and_stays_as_it_is(place: Place, kind: str) -> None:
    base = filled(place)
    body, said = BAD[kind]
    place.storage.put(record_key(3), body)
    with pytest.raises(CorruptObjectError, match=said) as raised:
        place.store().load()
    assert record_key(3) in str(raised.value)
    stored = place.storage.get(record_key(3))
    assert stored is not None
    assert stored.body == body
    place.committed(base, add(new_file("g")))


def test_a_transaction_that_does_not_fit_its_state_is_an_error(place: Place) -> None:
    base = filled(place, 2)
    outcome = place.commit(base, add(new_file("g", version="unknown")))
    assert isinstance(outcome, Conflict)
    body = json.loads(place.storage.get(record_key(2)).body)  # type: ignore[union-attr]
    body["transaction"]["change"]["schemas"] = {}
    body["transaction"]["change"]["files"][0]["version"] = "unknown"
    place.storage.put(record_key(2), json.dumps(body).encode())
    with pytest.raises(CorruptObjectError, match="transaction 2 does not fit"):
        place.store().load()


def test_a_log_is_never_begun_twice(place: Place) -> None:
    """A writer that was away while its next numbers were trimmed: what it appends there is no part of the log."""
    asleep = place.born()
    base = filled(place)
    place.store().trim(keep=0, dry_run=False)
    assert record_key(1) not in [LOG + name for name in names(place)]
    outcome = place.store().commit(asleep, place.transaction(add(new_file("late"))))
    assert isinstance(outcome, Outdated)
    assert place.state() == base.manifest
    place.committed(asleep, add(new_file("late")))
    assert place.listed() == [*(f"f{number}" for number in range(8)), "late"]
    assert place.state().transaction.number == 9


def test_a_reader_that_was_away_while_its_tail_was_trimmed_reads_the_snapshot(place: Place) -> None:
    behind = place.born()
    base = filled(place)
    place.store().trim(keep=2, dry_run=False)
    caught = place.store().catch_up(behind)
    assert caught is not None
    assert caught.manifest == base.manifest


def test_a_reader_between_whose_steps_the_log_is_trimmed_sees_no_gap(place: Place) -> None:
    behind, base = place.born(), filled(place)
    for moment in range(12):
        steps = iter(range(100))

        def trim_now(step: Step, moment: int = moment, steps: Iterator[int] = steps) -> None:
            if next(steps) == moment:
                place.storage.hook = lambda _: None
                place.store().trim(keep=1, dry_run=False)

        place.storage.hook = trim_now
        caught = place.store().catch_up(behind)
        place.storage.hook = lambda _: None
        assert caught is not None
        assert caught.manifest == base.manifest


class Crash(Exception):
    pass


def trim_dying_at(place: Place, moment: int) -> bool:
    """A trim that dies at that step of its own; False where it was through before."""
    steps = iter(range(1000))

    def die(step: Step) -> None:
        if next(steps) == moment:
            raise Crash

    place.storage.hook = die
    try:
        place.store().trim(keep=2, dry_run=False)
    except Crash:
        return True
    finally:
        place.storage.hook = lambda _: None
    return False


def test_a_trim_may_die_anywhere_and_is_done_again() -> None:
    moment = 0
    while True:
        place = Place("log")
        base = filled(place)
        if not trim_dying_at(place, moment):
            break
        assert place.state() == base.manifest
        base = place.committed(base, add(new_file("after")))
        place.store().trim(keep=0, dry_run=False)
        assert place.state() == base.manifest
        assert names(place) == [layout.log_snapshot_name(9), layout.LOG_FLOOR]
        moment += 1
    assert moment > 20


def test_a_trim_leaves_the_tail_the_floor_and_one_snapshot(place: Place) -> None:
    filled(place)
    place.store().trim(keep=5, dry_run=False)
    trimmed = place.store().trim(keep=2, dry_run=False)
    assert (trimmed.floor, trimmed.transactions) == (6, 3)
    tail = [layout.log_name(7), layout.log_name(8), layout.log_snapshot_name(8)]
    assert names(place) == [*tail, layout.LOG_FLOOR]


def test_a_snapshot_that_does_not_read_back_stops_the_trim_before_anything_is_removed(place: Place) -> None:
    filled(place)
    before = names(place)
    place.storage.put(LOG + layout.log_snapshot_name(8), b"{")
    with pytest.raises(CorruptObjectError, match=r"snapshot\.json"):
        place.store().trim(keep=1, dry_run=False)
    assert set(before) <= set(names(place))


def test_a_floor_that_cannot_be_read_is_an_error_that_names_it(place: Place) -> None:
    base = filled(place)
    place.storage.put(LOG + layout.LOG_FLOOR, b"7")
    for act in (place.store().load, lambda: place.store().catch_up(base)):
        with pytest.raises(CorruptObjectError, match=r"_log/floor\.json"):
            act()


def test_a_snapshot_that_the_floor_names_and_that_is_gone_is_an_error(place: Place) -> None:
    filled(place)
    place.store().trim(keep=1, dry_run=False)
    place.storage.delete(KEY)
    place.storage.delete(LOG + layout.log_snapshot_name(8))
    with pytest.raises(CorruptObjectError, match=r"snapshot\.json"):
        place.store().load()


def test_a_snapshot_of_another_stream_is_refused(place: Place) -> None:
    place.born("S")
    other = place.storage.get(layout.manifest_key("t", "S"))
    assert other is not None
    place.storage.put(KEY, other.body)
    with pytest.raises(ForeignManifestError, match="stream"):
        place.store().load()


def test_on_storage_without_conditions_nothing_is_written(place: Place) -> None:
    place = Place("log", ignore_conditions=True)
    with pytest.raises(ConditionNotSupportedError, match="manifest_store"):
        place.born()
    assert list(place.storage.list("raw/")) == []


def test_a_long_tail_is_read_whole_and_in_order(place: Place) -> None:
    base = filled(place, 100)
    assert place.state() == base.manifest


def test_a_stream_that_comes_from_another_store_begins_at_its_number(place: Place) -> None:
    """Records of an earlier life of the log, below the new birth, are void."""
    old = filled(place, 3)
    closed = old
    moved = msgspec.structs.replace(
        closed.manifest, store="log", transaction=Position(number=40, id="moved"), closed=None
    )
    place.storage.put(KEY, to_json(msgspec.structs.replace(closed.manifest, store="lockfile", closed="log")))
    loaded = place.store().create(moved)
    assert loaded.manifest == moved
    place.committed(loaded, add(new_file("next")))
    assert place.state().transaction.number == 41
    published = place.storage.get(KEY)
    assert published is not None
    assert from_json(published.body, key=KEY).store == "log"


def test_what_the_engine_reads_is_what_it_wrote(place: Place) -> None:
    filled(place, 3)
    where = StreamPlace(place.storage, "t", "s", place.clock, place.ids)
    log = ObjectLog(where)
    store = NumberedStore("log", log, where)
    assert [number for number, _ in log.read(-1, whole=True)] == [0, 1, 2, 3]
    assert [number for number, _ in log.read(1, whole=False)] == [2, 3]
    loaded = store.load()
    assert loaded is not None
    assert loaded.mark == "3"
    assert Record.__struct_fields__ == ("number", "after", "transaction")
