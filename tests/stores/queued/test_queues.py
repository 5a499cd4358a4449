"""One suite for every queue, the one in memory that other tests use among them; and SQS on a server that fails."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.errors import AccessDeniedError, SettingError, StorageUnavailableError
from singerlake.stores.queued.message import Queue
from singerlake.stores.queued.settings import QueueSettings, queue_settings
from singerlake.stores.queued.sqs import SqsQueue
from tests.servers.sqs.server import SqsServer
from tests.stores.queued.queues import MemoryQueue

CLOCK = SystemClock()


KINDS = ("memory", "sqs")


@pytest.fixture(params=KINDS)
def queue(request: pytest.FixtureRequest) -> Queue:
    return hiding(request, 60)


@pytest.fixture(params=KINDS)
def brief(request: pytest.FixtureRequest) -> Queue:
    """A queue that gives a message again after a second."""
    return hiding(request, 1)


def hiding(request: pytest.FixtureRequest, seconds: int) -> Queue:
    if request.param == "memory":
        return MemoryQueue(CLOCK, hidden=seconds)
    sqs: SqsServer = request.getfixturevalue("sqs")
    return queue_of(sqs, sqs.queue(hidden=seconds))


def queue_of(sqs: SqsServer, url: str, **changes: object) -> SqsQueue:
    return SqsQueue(QueueSettings(url=url), sqs.settings(**changes), clock=CLOCK)


def send(queue: Queue, *bodies: str, group: str = "g") -> None:
    for body in bodies:
        queue.send(body, group=group, deduplication=random_id())


def bodies(queue: Queue, most: int = 10) -> list[str]:
    return [each.body for each in queue.receive(most, wait=0)]


def test_messages_come_in_the_order_of_their_group(queue: Queue) -> None:
    send(queue, *(f"{number} \\u00fc" for number in range(12)))
    first = queue.receive(10, wait=0)
    assert [each.body for each in first] == [f"{number} \\u00fc" for number in range(10)]
    assert len({each.id for each in first}) == 10
    assert not queue.delete(first)
    assert bodies(queue) == ["10 \\u00fc", "11 \\u00fc"]


def test_a_group_waits_for_what_was_given_out_and_others_do_not(queue: Queue) -> None:
    send(queue, "a1", "a2")
    (first,) = queue.receive(1, wait=0)
    assert first.body == "a1"
    send(queue, "b1", group="h")
    assert bodies(queue) == ["b1"]
    queue.delete([first])
    assert bodies(queue) == ["a2"]


def test_what_is_not_deleted_comes_again_and_its_old_receipt_may_be_used_up(brief: Queue) -> None:
    send(brief, "a")
    (first,) = brief.receive(10, wait=0)
    time.sleep(1.1)
    (again,) = brief.receive(10, wait=0)
    assert (again.id, again.body) == (first.id, "a")
    brief.delete([again])
    time.sleep(1.1)
    assert bodies(brief) == []


def test_a_second_one_of_a_deduplication_id_is_dropped(queue: Queue) -> None:
    for body in ("a", "b"):
        queue.send(body, group="g", deduplication="same")
    assert bodies(queue) == ["a"]


@dataclass
class Case:
    """What a server answers, and what is made of it."""

    operation: str
    code: str
    status: int
    error: type[Exception]
    match: str


@pytest.mark.parametrize(
    "case",
    [
        Case("SendMessage", "AccessDeniedException", 403, AccessDeniedError, "sqs:SendMessage"),
        Case("SendMessage", "QueueDoesNotExist", 400, SettingError, "the queue does not exist"),
        Case("SendMessage", "RequestThrottled", 400, StorageUnavailableError, "SQS could not answer"),
        Case("SendMessage", "InternalError", 500, StorageUnavailableError, "SQS could not answer"),
        Case("SendMessage", "InvalidMessageContents", 400, SettingError, "SQS refused a request"),
    ],
    ids=lambda case: case.code,
)
def test_what_sqs_answers_is_an_error_of_this_package_that_names_the_queue(sqs: SqsServer, case: Case) -> None:
    url = sqs.queue()
    sqs.fail(case.operation, code=case.code, status=case.status, times=-1)
    with pytest.raises(case.error, match=case.match) as raised:
        send(queue_of(sqs, url), "a")
    assert url in str(raised.value)


def test_a_queue_that_is_not_there_and_a_server_that_is_not_there(sqs: SqsServer) -> None:
    with pytest.raises(SettingError, match="the queue does not exist; check commit_queue_url"):
        queue_of(sqs, f"{sqs.endpoint_url}/123456789012/none.fifo").hidden_seconds()
    started = time.monotonic()
    with pytest.raises(StorageUnavailableError, match="SQS cannot be reached"):
        send(SqsQueue(QueueSettings(url="http://127.0.0.1:1/1/none.fifo"), sqs.settings(), clock=CLOCK), "a")
    assert time.monotonic() - started < 5


def test_credentials_that_are_wrong_are_named_and_not_shown(sqs: SqsServer) -> None:
    url = sqs.queue()
    with pytest.raises(AccessDeniedError) as raised:
        send(queue_of(sqs, url, access_key_id="nobody", secret_access_key="hunter2"), "a")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("fault", ["drop_reply", "drop_request"])
def test_a_lost_reply_is_asked_for_again_and_the_message_comes_once(sqs: SqsServer, fault: str) -> None:
    queue = queue_of(sqs, sqs.queue())
    getattr(sqs, fault)("SendMessage")
    send(queue, "a")
    assert bodies(queue) == ["a"]


def test_of_a_batch_of_deletions_what_failed_is_given(sqs: SqsServer) -> None:
    queue = queue_of(sqs, sqs.queue())
    send(queue, "a", "b")
    messages = queue.receive(10, wait=0)
    sqs.fail_all()
    assert list(queue.delete(messages)) == list(messages)
    assert list(queue.delete(messages)) == []


def test_a_poll_waits_for_a_message(sqs: SqsServer) -> None:
    queue = queue_of(sqs, sqs.queue())
    started = time.monotonic()
    assert queue.receive(10, wait=1) == []
    assert 0.8 < time.monotonic() - started < 8


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("queue.fifo", "is not a URL"),
        ("ftp://host/queue.fifo", "is not a URL"),
        ("https://user:hunter2@host/1/queue.fifo", "holds credentials"),
        ("https://host/1/queue.fifo?X-Amz-Signature=hunter2", "holds credentials"),
        ("https://host/1/queue", "not the URL of a FIFO queue"),
        ("https://host/1/.fifo", "not the URL of a FIFO queue"),
        ("https://host/1/queue.fifo#hunter2", "not the URL of a FIFO queue"),
    ],
)
def test_a_url_that_is_no_fifo_queue_s_is_refused_without_what_may_be_secret(url: str, match: str) -> None:
    with pytest.raises(SettingError, match=match) as raised:
        QueueSettings(url=url)
    assert "hunter2" not in str(raised.value)


def test_settings_come_from_a_configuration() -> None:
    url = "https://sqs.eu-west-1.amazonaws.com/1/lake.fifo"
    assert queue_settings({}) is None
    assert queue_settings({"commit_queue_url": "", "commit_queue_groups": 3}) is None
    found = queue_settings({"commit_queue_url": url, "commit_queue_patience_seconds": "7"})
    assert found == QueueSettings(url=url, patience_seconds=7)
    assert url not in repr(found)
    for name in ("patience_seconds", "groups"):
        with pytest.raises(SettingError, match=f"commit_queue_{name} is 0"):
            QueueSettings(**{"url": url, name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("sqs.eu-west-1.amazonaws.com", "eu-west-1"),
        ("vpce-1-2.sqs.us-gov-east-1.vpce.amazonaws.com", "us-gov-east-1"),
        ("localhost:9324", "us-east-2"),
    ],
)
def test_the_region_is_the_queue_s(sqs: SqsServer, host: str, region: str) -> None:
    settings = sqs.settings(region="us-east-2")
    queue = SqsQueue(QueueSettings(url=f"https://{host}/1/lake.fifo"), settings, clock=CLOCK)
    client = queue._client
    assert (client.meta.region_name, client.meta.endpoint_url) == (region, f"https://{host}")


def test_nothing_of_a_message_is_in_a_log(sqs: SqsServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        queue = queue_of(sqs, sqs.queue())
        send(queue, "hunter2")
        queue.receive(1, wait=0)
    assert "hunter2" not in caplog.text
    assert "hunter2" not in repr(MemoryQueue(CLOCK).receive(1, wait=0))
