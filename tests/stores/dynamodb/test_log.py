"""The transaction log in DynamoDB: numbers, ranges, items that cannot be believed, large bodies."""

from __future__ import annotations

import pytest

from singerlake.errors import CorruptObjectError
from singerlake.stores.dynamodb import log as dynamodb_log
from singerlake.stores.dynamodb.log import LARGEST_ITEM
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.dynamodb.dynamo import FOLDER, PLACES, Stream, filled, numbers, open_place, state_at


@pytest.fixture(params=PLACES)
def stream(request: pytest.FixtureRequest) -> Stream:
    return open_place(request)


class TestNumbers:
    def test_a_log_without_history_is_empty(self, stream: Stream) -> None:
        log = stream.log()
        assert (numbers(log), log.base(), log.floor()) == ([], None, -1)
        assert stream.store().load() is None

    @pytest.mark.parametrize(("after", "expected"), [(-1, [0, 1, 2]), (0, [1, 2]), (1, [2]), (2, []), (9, [])])
    def test_records_are_read_in_order_after_a_number(self, stream: Stream, after: int, expected: list[int]) -> None:
        assert numbers(filled(stream, 3), after) == expected

    def test_a_number_is_used_once_and_the_first_record_stays(self, stream: Stream) -> None:
        log = filled(stream, 1)
        assert not stream.log().append(0, b"another")
        assert list(log.read(-1, whole=True)) == [(0, b'{"number":0}')]

    def test_twenty_digits_are_no_limit_to_the_order(self, stream: Stream) -> None:
        log = stream.log()
        for number in (10**19, 9, 10):
            assert log.append(number, b"{}")
        assert numbers(log) == [9, 10, 10**19]

    def test_streams_share_a_table_and_see_nothing_of_one_another(self, stream: Stream) -> None:
        filled(stream, 3)
        stream.log().snapshot(state_at(2))
        stream.log().raise_floor(1)
        other = Stream(stream.table_name, stream.endpoint_url, stream.settings, table_id=stream.table_id + "2")
        assert (numbers(other.log()), other.log().floor(), other.log().base()) == ([], -1, None)
        assert other.log().append(0, b"{}")

    def test_a_range_is_read_over_pages_of_a_megabyte(self, stream: Stream) -> None:
        log = stream.log()
        large = [b"%x" % number * (LARGEST_ITEM - 1000) for number in range(14)]
        for number, body in enumerate(large):
            assert log.append(number, body)
        pages = []
        table = stream.table()
        table.hook = lambda operation, done: pages.append(operation) if done else None
        assert list(stream.log(table).read(1, whole=False)) == list(enumerate(large))[2:]
        assert pages.count("query") >= 2
        assert stream.objects() == []

    def test_bodies_keep_every_character(self, stream: Stream) -> None:
        body = '{"name":"日本語 \U0001f98a \\ud800 \x7f"}'.encode()
        log = stream.log()
        log.append(0, body)
        assert list(log.read(-1, whole=True)) == [(0, body)]


WRONG: dict[str, dict[str, dict[str, object]]] = {
    "no JSON": {"body": {"S": "{"}},
    "an unknown change": {
        "body": {"S": '{"number":1,"after":"x","transaction":{"id":"y","at":"z","change":{"kind":"new"}}}'}
    },
    "another type": {"body": {"B": b"{}"}},
    "no body": {},
    "an object elsewhere": {"object": {"S": "../manifest.json"}, "sha256": {"S": "0"}},
    "a snapshot as body": {"object": {"S": f"{1:020d}-{'0' * 16}.snapshot.json"}, "sha256": {"S": "0"}},
}


@pytest.mark.parametrize("kind", WRONG)
def test_an_item_that_cannot_be_believed_stops_readers_and_stays_as_it_is(stream: Stream, kind: str) -> None:
    stream.born()
    stream.put(1, **WRONG[kind])
    before = stream.items()
    with pytest.raises(CorruptObjectError):
        stream.store().load()
    assert stream.items() == before


@pytest.mark.parametrize("name", [f"{1:020d}-{'0' * 16}.snapshot.json", f"{1:020d}.json", "elsewhere/1.json"])
def test_an_item_that_points_at_what_is_no_body_is_refused_whatever_is_there(
    stream: Stream, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamodb_log, "LARGEST_ITEM", 0)
    stream.committed(stream.born(), add(new_file("a")))
    item = stream.items()[1]
    stored = stream.storage.get(FOLDER + item["object"]["S"])
    assert stored is not None
    stream.storage.put(FOLDER + name, stored.body)
    stream.put(1, object={"S": name}, sha256=item["sha256"])
    with pytest.raises(CorruptObjectError, match=r"not one that a Singerlake wrote.*number='1'"):
        stream.store().load()


class TestLargeBodies:
    def room(self, stream: Stream) -> int:
        """Bytes of the largest body that fits an item."""
        return LARGEST_ITEM - len("table_id" + stream.table_id + "number" + "body") - 21

    def test_the_limit_is_counted_in_bytes_with_names_and_keys(self, stream: Stream) -> None:
        log, room = stream.log(), self.room(stream)
        characters = "é日\U0001f98a" * (room // 9)
        exact = (characters + "x" * (room - len(characters.encode()))).encode()
        assert len(exact) == room
        assert len(exact.decode()) < room // 2
        assert log.append(0, exact)
        assert stream.objects() == []
        assert log.append(1, exact + b"x")
        (name,) = stream.objects()
        assert name.startswith("00000000000000000001-")
        assert name.endswith(".body.json")
        assert "body" not in stream.items()[1]
        assert list(log.read(-1, whole=True)) == [(0, exact), (1, exact + b"x")]

    def test_the_loser_of_a_race_stores_nothing_and_deletes_nothing(self, stream: Stream) -> None:
        large = b"x" * LARGEST_ITEM
        assert stream.log().append(0, large)
        before = stream.objects()
        assert not stream.log().append(0, b"y" * LARGEST_ITEM)
        assert stream.objects() == before
        assert list(stream.log().read(-1, whole=True)) == [(0, large)]

    def test_a_loser_that_had_stored_its_body_already_leaves_it_to_be_removed(self, stream: Stream) -> None:
        large = b"x" * LARGEST_ITEM

        def overtake(step: Step) -> None:
            if step.operation == "put" and step.done:
                stream.storage.hook = lambda _: None
                assert stream.log().append(0, large)

        stream.storage.hook = overtake
        assert not stream.log().append(0, b"y" * LARGEST_ITEM)
        assert len(stream.objects()) == 2
        assert list(stream.log().read(-1, whole=True)) == [(0, large)]
        log = stream.log()
        log.snapshot(state_at(0))
        log.raise_floor(0)
        assert log.remove(0, dry_run=False) == 3
        assert stream.kinds() == [(0, "snapshot")]

    def test_an_append_that_is_tried_again_stores_its_body_once(self, stream: Stream) -> None:
        log, large = stream.log(), b"x" * LARGEST_ITEM
        assert log.append(0, large)
        assert log.append(0, large)
        assert len(stream.objects()) == 1

    @pytest.mark.parametrize("change", [None, b"", b"{}", b'{"number":1}'], ids=repr)
    def test_a_body_that_is_missing_or_another_is_an_error_that_names_it(
        self, stream: Stream, change: bytes | None
    ) -> None:
        stream.log().append(0, b"x" * LARGEST_ITEM)
        (name,) = stream.objects()
        stream.storage.delete(FOLDER + name)
        if change is not None:
            stream.storage.put(FOLDER + name, change)
        with pytest.raises(CorruptObjectError, match=FOLDER + name):
            numbers(stream.log())

    def test_a_body_that_is_trimmed_while_it_is_read_is_no_error(
        self, stream: Stream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dynamodb_log, "LARGEST_ITEM", 0)
        base = stream.committed(stream.born(), *(add(new_file(f"f{number}")) for number in range(4)))

        def trim(step: Step) -> None:
            if step.operation == "get" and step.key.startswith(FOLDER + f"{2:020d}"):
                stream.storage.hook = lambda _: None
                stream.store().trim(keep=0, dry_run=False)

        stream.storage.hook = trim
        loaded = stream.store().load()
        assert loaded is not None
        assert loaded.manifest == base.manifest
        assert stream.kinds() == [(4, "snapshot")]
