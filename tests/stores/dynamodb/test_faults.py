"""DynamoDB that throttles, and that loses replies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from singerlake.clock import random_id
from singerlake.errors import SettingError, StorageUnavailableError, UnknownOutcomeError
from singerlake.format.state.transactions import Transaction
from singerlake.stores.commit import commit_transaction
from singerlake.stores.dynamodb.log import LARGEST_ITEM, DynamoLog
from singerlake.stores.port import Loaded, Outdated
from tests.format.state.test_fold import add, new_file
from tests.servers.dynamodb import DynamoServer
from tests.servers.ports.door import door_to
from tests.servers.s3 import ALWAYS
from tests.stores.dynamodb.dynamo import Stream, WatchedTable, on, state_at

APPEND = "TransactWriteItems"
CANCELLED = "TransactionCanceledException"
BUSY: dict[str, dict[str, object]] = {
    "throughput": {"code": "ProvisionedThroughputExceededException"},
    "requests": {"code": "RequestLimitExceeded"},
    "throttling": {"code": "ThrottlingException"},
    "a conflict": {"code": CANCELLED, "reasons": ["None", "TransactionConflict"]},
    "throughput of an item": {"code": CANCELLED, "reasons": ["ProvisionedThroughputExceeded", "None"]},
    "throttling of an item": {"code": CANCELLED, "reasons": ["ThrottlingError", "TransactionConflict"]},
}


@pytest.fixture
def stream(dynamodb: DynamoServer) -> Stream:
    return on(dynamodb)


def appended(stream: Stream, count: int = 3) -> DynamoLog:
    log = stream.log()
    for number in range(count):
        assert log.append(number, b"%d" % number)
    return log


def coverable(stream: Stream) -> DynamoLog:
    """Three records, a snapshot of all of them, and the floor at the second."""
    log = appended(stream)
    log.snapshot(state_at(2))
    log.raise_floor(1)
    return log


class TestThrottling:
    @pytest.mark.parametrize("kind", BUSY)
    def test_an_append_waits_with_jitter_and_succeeds(self, stream: Stream, dynamodb: DynamoServer, kind: str) -> None:
        slept: list[float] = []
        stream.clock.on_sleep = slept.append
        dynamodb.fail(APPEND, times=3, **BUSY[kind])  # type: ignore[arg-type]
        assert stream.log().append(0, b"a")
        assert slept == pytest.approx([0.1, 0.2, 0.4])  # half of each ceiling: that is the test clock's jitter

    @pytest.mark.parametrize("kind", BUSY)
    def test_an_append_that_is_never_let_in_gives_up_with_nothing_written(
        self, stream: Stream, dynamodb: DynamoServer, kind: str
    ) -> None:
        dynamodb.fail(APPEND, times=ALWAYS, **BUSY[kind])  # type: ignore[arg-type]
        with pytest.raises(StorageUnavailableError, match=r"again later.*dynamodb_table='lake-"):
            stream.log().append(0, b"a")
        sent = [request.headers["x-amz-target"].rpartition(".")[2] for request in dynamodb.requests()]
        assert sent[:10] == [APPEND] * 10
        assert stream.clock.seconds == pytest.approx(60)
        dynamodb.calm()
        assert stream.items() == {}

    @pytest.mark.parametrize("other", ["None", "TransactionConflict", "ThrottlingError"])
    def test_a_condition_that_does_not_hold_decides_at_once(
        self, stream: Stream, dynamodb: DynamoServer, other: str
    ) -> None:
        dynamodb.fail(APPEND, code=CANCELLED, reasons=["ConditionalCheckFailed", other])
        assert not stream.log().append(0, b"a")
        assert stream.clock.seconds == 0

    @pytest.mark.parametrize("reason", ["ValidationError", "ItemCollectionSizeLimitExceeded"])
    def test_what_no_other_try_can_mend_is_an_error_at_once(
        self, stream: Stream, dynamodb: DynamoServer, reason: str
    ) -> None:
        dynamodb.fail(APPEND, code=CANCELLED, reasons=["ConditionalCheckFailed", reason])
        with pytest.raises(SettingError, match="injected"):
            stream.log().append(0, b"a")
        assert stream.clock.seconds == 0

    @pytest.mark.parametrize("code", ["ThrottlingException", "500 InternalServerError", "503 ServiceUnavailable"])
    def test_reads_are_tried_again_and_give_up_in_the_end(
        self, stream: Stream, dynamodb: DynamoServer, code: str
    ) -> None:
        log = coverable(stream)
        for read in (log.floor, log.base, lambda: list(log.read(1, whole=True))):
            dynamodb.fail("Query,GetItem", code=code, times=9)
            assert read()
            dynamodb.fail("Query,GetItem", code=code, times=ALWAYS)
            with pytest.raises(StorageUnavailableError):
                read()
            dynamodb.calm()
            stream.clock.sleep(100)  # so that the next failure is another outage

    def test_an_endpoint_that_restarts_is_waited_for(self, stream: Stream, dynamodb: DynamoServer) -> None:
        with door_to(dynamodb.endpoint_url) as door:
            door.open()
            stream.endpoint_url = door.endpoint_url
            log = stream.log(stream.table())
            assert log.append(0, b"a")
            door.shut()
            stream.clock.on_sleep = lambda _: door.open() if stream.clock.seconds >= 40 else None
            assert log.append(1, b"b")
            assert 40 <= stream.clock.seconds < 50
            stream.clock.on_sleep = lambda _: None
            door.shut()
            with pytest.raises(StorageUnavailableError, match=r"DynamoDB answered before.*waited_seconds=6"):
                log.append(2, b"c")
        assert sorted(stream.items()) == [0, 1]

    @pytest.mark.usefixtures("first_contact")
    def test_an_endpoint_that_never_answered_is_given_up_sooner(self, stream: Stream, dynamodb: DynamoServer) -> None:
        with door_to(dynamodb.endpoint_url) as door:
            stream.endpoint_url = door.endpoint_url
            with pytest.raises(
                StorageUnavailableError, match=r"DynamoDB never answered.*port of dynamodb_endpoint_url"
            ):
                stream.log(stream.table()).append(0, b"a")
        assert 15 <= stream.clock.seconds < 16

    def test_reads_that_are_answered_do_not_make_writes_wait_longer(
        self, stream: Stream, dynamodb: DynamoServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        log = appended(stream)
        dynamodb.fail(APPEND, code="500 InternalServerError", times=ALWAYS)
        for number in (3, 4):
            with pytest.raises(UnknownOutcomeError, match="InternalServerError"):
                log.append(number, b"a")
            assert list(log.read(1, whole=True)) == [(2, b"2")]
        assert 60 <= stream.clock.seconds < 62
        assert "waiting for DynamoDB for 2 s now, since it answers with an error: InternalServerError" in caplog.text

    def test_what_a_batch_leaves_over_is_deleted_later(self, stream: Stream, dynamodb: DynamoServer) -> None:
        log = appended(stream, 30)
        log.snapshot(state_at(29))
        log.raise_floor(28)
        dynamodb.leave_over(processed=10)
        dynamodb.leave_over(processed=0)
        assert log.remove(28, dry_run=False) == 29
        assert sorted(stream.items()) == [29]

    def test_a_batch_that_is_never_processed_is_an_error_and_can_be_taken_up_again(
        self, stream: Stream, dynamodb: DynamoServer
    ) -> None:
        log = coverable(stream)
        dynamodb.leave_over(processed=0, times=ALWAYS)
        with pytest.raises(StorageUnavailableError, match="slow down"):
            log.remove(1, dry_run=False)
        dynamodb.calm()
        assert log.remove(1, dry_run=False) == 2


LOST: dict[str, Callable[[DynamoServer, str, int], None]] = {
    "before its effect": lambda server, operation, times: server.drop_request(operation, times=times),
    "after its effect": lambda server, operation, times: server.drop_reply(operation, times=times),
    "a 500 before": lambda server, operation, times: server.fail(
        operation, code="500 InternalServerError", times=times
    ),
    "a 500 after": lambda server, operation, times: server.fail(
        operation, code="500 InternalServerError", times=times, after=True
    ),
    "still at work": lambda server, operation, times: server.fail(
        operation, code="TransactionInProgressException", times=times, after=True
    ),
    "at work on another": lambda server, operation, times: server.fail(
        operation, code="TransactionInProgressException", times=times
    ),
    "a page": lambda server, operation, times: server.answer_with_html(operation, times=times),
}


class TestLostReplies:
    @pytest.mark.crossed("size", "kind", "times")
    @pytest.mark.parametrize("times", [1, 3])
    @pytest.mark.parametrize("kind", LOST)
    @pytest.mark.parametrize("size", [1, LARGEST_ITEM], ids=["small", "large"])
    def test_an_append_takes_effect_once(
        self, stream: Stream, dynamodb: DynamoServer, kind: str, times: int, size: int
    ) -> None:
        LOST[kind](dynamodb, APPEND, times)
        assert stream.log().append(0, b"a" * size)
        assert [(number, len(body)) for number, body in stream.log().read(-1, whole=True)] == [(0, size)]
        assert len(stream.objects()) == (size > 1)

    @pytest.mark.parametrize("kind", LOST)
    def test_snapshot_floor_and_removal_take_effect(self, stream: Stream, dynamodb: DynamoServer, kind: str) -> None:
        log, state = appended(stream), state_at(2)
        LOST[kind](dynamodb, APPEND, 2)
        log.snapshot(state)
        assert log.base() == state
        dynamodb.calm()
        LOST[kind](dynamodb, APPEND, 2)
        log.raise_floor(1)
        assert log.floor() == 1
        LOST[kind](dynamodb, "BatchWriteItem", 2)
        assert log.remove(1, dry_run=False) == 2
        assert sorted(stream.items()) == [2]

    def test_a_number_that_another_took_after_the_lost_request_is_refused(
        self, stream: Stream, dynamodb: DynamoServer
    ) -> None:
        dynamodb.drop_request(APPEND)
        others = iter([b"other"])

        def other(_: float) -> None:
            for body in others:
                assert stream.log().append(0, body)

        stream.clock.on_sleep = other
        assert not stream.log().append(0, b"mine")
        assert list(stream.log().read(-1, whole=True)) == [(0, b"other")]

    @pytest.mark.parametrize("kind", ["before its effect", "after its effect"])
    def test_a_commit_whose_number_was_trimmed_before_it_knew_is_there_once(
        self, stream: Stream, dynamodb: DynamoServer, kind: str
    ) -> None:
        base = stream.born()
        mine = Transaction(id=random_id(), at="2026-02", change=add(new_file("mine")))

        def others(operation: str, done: bool) -> None:
            if operation == "get_item" and not done:  # looking for what became of the append
                table.hook = WatchedTable.hook
                current = stream.store().load()
                assert current is not None
                stream.committed(current, add(new_file("a")), add(new_file("b")))
                stream.store().trim(keep=0, dry_run=False)

        table = stream.table()
        table.hook = others
        LOST[kind](dynamodb, APPEND, 1)
        store = stream.store(table)
        assert isinstance(store.commit(base, mine), Outdated)
        outcome = commit_transaction(store, base, mine, clock=stream.clock)
        assert isinstance(outcome, Loaded)
        assert sorted(stream.listed()) == ["a", "b", "mine"]

    @pytest.mark.parametrize("kind", ["before its effect", "a 500 before", "at work on another", "a page"])
    def test_an_outcome_that_cannot_be_known_is_an_error_of_its_own(
        self, stream: Stream, dynamodb: DynamoServer, kind: str
    ) -> None:
        LOST[kind](dynamodb, APPEND, ALWAYS)
        with pytest.raises(UnknownOutcomeError, match="delete nothing"):
            stream.log().append(0, b"a" * LARGEST_ITEM)
        dynamodb.calm()
        assert stream.items() == {}
        assert len(stream.objects()) == 1

    def test_an_outcome_that_nobody_can_look_at_is_unknown_too(self, stream: Stream, dynamodb: DynamoServer) -> None:
        dynamodb.drop_reply(APPEND, times=ALWAYS)
        dynamodb.fail("GetItem", code="500 InternalServerError", times=ALWAYS)
        log = stream.log()
        with pytest.raises(UnknownOutcomeError):
            log.append(0, b"a")
        dynamodb.calm()
        assert log.append(0, b"a")
        assert list(stream.items()) == [0]

    def test_what_answers_as_no_dynamodb_does_is_not_believed(self, stream: Stream, dynamodb: DynamoServer) -> None:
        dynamodb.answer_with_html("GetItem,Query", times=ALWAYS)
        for read in (stream.log().floor, lambda: list(stream.log().read(-1, whole=True))):
            with pytest.raises(SettingError, match="not DynamoDB; check dynamodb_endpoint_url"):
                read()
