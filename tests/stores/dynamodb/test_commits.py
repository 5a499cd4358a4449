"""Atomic runs in DynamoDB: one transaction over the items of all streams, and the decision among them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from singerlake.clock import random_id
from singerlake.errors import CorruptObjectError, SettingError, UnknownOutcomeError, UnsupportedFormatError
from singerlake.format import layout
from singerlake.format.decision import Decision
from singerlake.format.state.model import StreamSchema
from singerlake.stores.atomic.commit_run import RunShare
from singerlake.stores.dynamodb.client import FREE, Item, key_of, put
from singerlake.stores.dynamodb.log import (
    LARGEST_ITEM,
    LARGEST_TOGETHER,
    MOST_STREAMS,
    NextRecord,
    append_together,
)
from tests.format.state.test_fold import new_file
from tests.servers.dynamodb import DynamoServer
from tests.servers.s3 import ALWAYS
from tests.stores.atomic.runs import Runs, files
from tests.stores.dynamodb.dynamo import Stream, WatchedTable, on
from tests.stores.dynamodb.test_faults import APPEND, CANCELLED, LOST
from tests.stores.stores import make_place


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> Runs:
    return Runs(make_place("dynamodb", request))


def opened(runs: Runs, *streams: str) -> list[RunShare]:
    """A run that is about to bring a file to each of these streams."""
    parts = [runs.part(stream, *files(f"{stream}1")) for stream in streams]
    for part in parts:
        part.writer.open()
    return parts


def items(runs: Runs, server: DynamoServer, of: str) -> list[Item]:
    reply = server.client().query(
        TableName=runs.place.settings.dynamodb_table,
        ConsistentRead=True,
        KeyConditionExpression="table_id = :id",
        ExpressionAttributeValues={":id": {"S": f"{runs.place.lake.lake_id()}/t{of}"}},
    )
    found: list[Item] = reply["Items"]
    return found


def transactions(server: DynamoServer) -> list[list[str]]:
    """The kinds of actions in each transaction that was sent since the last look."""
    sent = [request for request in server.requests() if request.headers["x-amz-target"].endswith(APPEND)]
    return [[next(iter(action)) for action in json.loads(request.query)["TransactItems"]] for request in sent]


def test_a_run_is_one_transaction_with_an_item_of_its_decision(runs: Runs, dynamodb: DynamoServer) -> None:
    parts = opened(runs, "a", "b")
    dynamodb.requests()
    name = runs.commit(parts)["a"].settled
    assert transactions(dynamodb) == [["Put", "Put", "ConditionCheck", "Put", "ConditionCheck"]]
    (kept,) = items(runs, dynamodb, f"#commit/{name}")
    assert kept["number"] == {"N": "0"}
    assert msgspec.json.decode(kept["body"]["S"], type=Decision) == runs.decisions.get(str(name))
    for stream in ("a", "b"):
        _, record = items(runs, dynamodb, f"/{stream}")
        change = json.loads(record["body"]["S"])["transaction"]["change"]
        assert (change["kind"], change["commit"]) == ("commit_files", name)


@pytest.mark.crossed("kind", "times")
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("kind", LOST)
def test_a_run_whose_reply_is_lost_is_there_exactly_once(
    runs: Runs, dynamodb: DynamoServer, kind: str, times: int
) -> None:
    parts = opened(runs, "a", "b")
    LOST[kind](dynamodb, APPEND, times)
    states = runs.commit(parts)
    assert [state.transaction.number for state in states.values()] == [1, 1]
    assert [runs.place.listed(stream) for stream in ("a", "b")] == [["a1"], ["b1"]]
    assert runs.decisions.listed().names == (states["a"].settled,)
    assert runs.viewed() == {"a": 3, "b": 3}


def test_a_run_of_which_it_cannot_be_known_is_an_error_of_its_own_and_is_shown_by_the_next_one(
    runs: Runs, dynamodb: DynamoServer
) -> None:
    parts = opened(runs, "a", "b")
    dynamodb.drop_reply(APPEND, times=ALWAYS)
    dynamodb.fail("GetItem", code="500 InternalServerError", times=ALWAYS)
    with pytest.raises(UnknownOutcomeError):
        runs.commit(parts)
    dynamodb.calm()
    assert runs.viewed() == {"a": 0, "b": 0}
    runs.append("b", new_file("b2"))
    assert runs.viewed() == {"a": 3, "b": 6}


def test_a_run_that_meets_another_s_transaction_is_sent_again(runs: Runs, dynamodb: DynamoServer) -> None:
    parts = opened(runs, "a", "b")
    dynamodb.fail(APPEND, code=CANCELLED, reasons=["None", "TransactionConflict", "None", "None", "None"], times=3)
    runs.commit(parts)
    assert runs.viewed() == {"a": 3, "b": 3}
    assert len(runs.decisions.listed().names) == 1


def test_as_many_streams_as_one_transaction_holds_are_committed(runs: Runs, dynamodb: DynamoServer) -> None:
    parts = opened(runs, *(f"s{number}" for number in range(MOST_STREAMS)))
    dynamodb.requests()
    states = runs.commit(parts)
    (actions,) = transactions(dynamodb)
    assert len(actions) == 2 * MOST_STREAMS + 1 == 99
    assert set(runs.viewed().values()) == {3}
    assert len(states) == MOST_STREAMS


def test_more_streams_are_refused_before_anything_is_written(runs: Runs, dynamodb: DynamoServer) -> None:
    parts = opened(runs, *(f"s{number}" for number in range(MOST_STREAMS + 1)))
    dynamodb.requests()
    before = [entry.key for entry in runs.place.storage.list("")]
    with pytest.raises(SettingError, match=r"at most 49 streams at once in dynamodb.*select fewer streams"):
        runs.commit(parts)
    assert transactions(dynamodb) == []
    assert [entry.key for entry in runs.place.storage.list("")] == before


def test_large_records_of_many_streams_leave_room_for_one_another(runs: Runs, dynamodb: DynamoServer) -> None:
    """Each fits an item by itself, and all of them do not fit one transaction."""
    streams = [f"s{number}" for number in range(30)]
    size = LARGEST_ITEM - 10_000
    assert size * len(streams) > 4 << 20
    large = {"type": "object", "description": "x" * size}
    parts = [
        replace(part, schemas={part.files[0].version: StreamSchema(schema=large)}) for part in opened(runs, *streams)
    ]
    dynamodb.requests()
    runs.commit(parts)
    sent = [request for request in dynamodb.requests() if request.headers["x-amz-target"].endswith(APPEND)]
    assert len(sent) == 1
    assert len(sent[0].query) < LARGEST_TOGETHER
    assert set(runs.viewed().values()) == {3}
    assert all(runs.place.listed(stream) == [f"{stream}1"] for stream in streams)


@pytest.mark.parametrize("body", [None, "{}", "[", '{"format": 2}'])
def test_a_decision_that_cannot_be_believed_stops_who_needs_it(
    runs: Runs, dynamodb: DynamoServer, body: str | None
) -> None:
    name = runs.run({"a": files("a1")})["a"].settled
    for entry in list(runs.place.storage.list(layout.commits_prefix("t"))):
        runs.place.storage.delete(entry.key)
    key = key_of(f"{runs.place.lake.lake_id()}/t#commit/{name}", 0)
    item = {**key, **({"body": {"S": body}} if body is not None else {})}
    dynamodb.client().put_item(TableName=runs.place.settings.dynamodb_table, Item=item)
    with pytest.raises((CorruptObjectError, UnsupportedFormatError), match="#commit/"):
        runs.append("a", new_file("a2"))
    assert runs.place.listed("a") == ["a1"]


def test_a_floor_that_went_past_a_run_refuses_it(runs: Runs) -> None:
    (part,) = opened(runs, "a")
    stale = part.writer.loaded
    runs.append("a", new_file("a0"))
    runs.append("a", new_file("a2"))
    runs.place.store("a").trim(keep=0, dry_run=False)
    part.writer.accept(stale)
    states = runs.commit([part])
    assert [file.id for file in states["a"].files] == ["a0", "a2", "a1"]


class TestWhatBecameOfIt:
    """After a lost reply, what is read back tells whether it took effect, whatever comes between the reads."""

    @pytest.fixture
    def stream(self, dynamodb: DynamoServer) -> Stream:
        return on(dynamodb)

    def appended(self, stream: Stream, table: WatchedTable, body: bytes, kept: Item) -> bool:
        return append_together([NextRecord(stream.log(table), 0, body)], kept)

    def test_what_lands_between_the_looks_is_seen(self, stream: Stream, dynamodb: DynamoServer) -> None:
        kept = {**key_of(f"{random_id()}/t#commit/n", 0), "body": {"S": "d"}}
        table, looks = stream.table(), 0

        def lands(operation: str, done: bool) -> None:
            nonlocal looks
            if operation == "get_item" and not done:
                looks += 1
                if looks == 2:
                    table.hook = WatchedTable.hook
                    assert self.appended(stream, stream.table(), b"mine", kept)

        dynamodb.drop_request(APPEND)
        table.hook = lands
        assert self.appended(stream, table, b"mine", kept)
        assert looks == 2
        assert list(stream.log().read(-1, whole=True)) == [(0, b"mine")]

    @pytest.mark.parametrize("taken", ["the number", "the floor"])
    def test_what_another_took_is_refused(self, stream: Stream, dynamodb: DynamoServer, taken: str) -> None:
        kept = {**key_of(f"{random_id()}/t#commit/n", 0), "body": {"S": "d"}}
        rivals: dict[str, Callable[[], object]] = {
            "the number": lambda: stream.log().append(0, b"other"),
            "the floor": lambda: stream.table().write(
                put({**key_of(f"{stream.table_id}#floor", 0), "floor": {"N": "5"}}, FREE), look=lambda: None
            ),
        }
        left = iter([rivals[taken]])
        stream.clock.on_sleep = lambda _: [act() for act in left] and None
        dynamodb.drop_request(APPEND)
        assert not self.appended(stream, stream.table(), b"mine", kept)
        assert stream.table().get({name: kept[name] for name in ("table_id", "number")}) is None

    def test_a_name_that_is_kept_for_another_is_refused(self, stream: Stream) -> None:
        kept = {**key_of(f"{random_id()}/t#commit/n", 0), "body": {"S": "d"}}
        assert self.appended(stream, stream.table(), b"mine", kept)
        other = on_the_same_table(stream)
        assert not append_together([NextRecord(other.log(), 0, b"theirs")], {**kept, "body": {"S": "e"}})
        assert other.items() == {}


def on_the_same_table(stream: Stream) -> Stream:
    return Stream(stream.table_name, stream.endpoint_url, stream.settings)
