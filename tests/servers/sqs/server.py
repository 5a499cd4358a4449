"""An SQS server for tests: real HTTP in a process of its own, honest by default, faulty on demand.

with sqs_server() as server:
    queue = SqsQueue(QueueSettings(url=server.queue("lake")), server.settings(), clock=SystemClock())
    server.fail("SendMessage", code="RequestThrottled", status=400)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from singerlake.clock import random_id
from singerlake.storage.s3.storage import S3Settings
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, Request, S3Server, server_process


@dataclass(frozen=True)
class SqsServer:
    """A running server. Its faults apply, in the order given, to requests of the ``operations`` (as
    ``"SendMessage,ReceiveMessage"``); the first match is used up ``times`` times, -1: for ever."""

    endpoint_url: str

    def settings(self, **changes: Any) -> S3Settings:
        """Credentials that reach this server, with some settings changed."""
        known = {"access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET_ACCESS_KEY, "region": REGION}
        return S3Settings(**{**known, **changes})

    def client(self) -> Any:
        """A plain boto3 client, to arrange and to look behind a committer's back."""
        return self._plain.client("sqs")

    def queue(self, *, hidden: int = 60, fifo: bool = True) -> str:
        """A new queue's URL. A message that was given out is ``hidden`` from others for so many seconds."""
        attributes = {"VisibilityTimeout": str(hidden), **({"FifoQueue": "true"} if fifo else {})}
        name = random_id() + (".fifo" if fifo else "")
        self.client().create_queue(QueueName=name, Attributes=attributes)
        return f"{self.endpoint_url}/123456789012/{name}"

    def waiting(self, url: str) -> int:
        """Messages that are in a queue, those that were given out among them."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client().get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    def fail(self, operations: str, *, code: str, status: int = 400, times: int = 1) -> None:
        """Answer with an error, before anything happens."""
        self._add(operations, "error", times, code=code, status=status)

    def drop_reply(self, operations: str, *, times: int = 1) -> None:
        """Let the request take effect, then close the connection."""
        self._add(operations, "drop_reply", times)

    def drop_request(self, operations: str, *, times: int = 1) -> None:
        """Close the connection before anything happens."""
        self._add(operations, "drop_request", times)

    def fail_all(self, *, times: int = 1) -> None:
        """Answer a batch of deletions with success, and each of them with a failure."""
        self._add("DeleteMessageBatch", "fail_all", times)

    def calm(self) -> None:
        """End all faults and forget the requests seen."""
        self._plain.calm()

    def requests(self) -> list[Request]:
        """The requests seen since the last call, oldest first; ``query`` is the body."""
        return self._plain.requests()

    @property
    def _plain(self) -> S3Server:
        return S3Server(self.endpoint_url)

    def _add(self, operations: str, kind: str, times: int, **more: object) -> None:
        fault = {"operations": operations.split(","), "kind": kind, "times": times}
        self._plain.control("POST", json.dumps({**fault, **more}).encode())


@contextmanager
def sqs_server() -> Iterator[SqsServer]:
    """A fresh server without queues on a free port of 127.0.0.1; it ends with the block, or with this process."""
    with server_process("tests.servers.sqs.process") as endpoint_url:
        yield SqsServer(endpoint_url)


@pytest.fixture(scope="session")
def sqs_session() -> Iterator[SqsServer]:
    """The server that all tests of a session share; give each test a queue of its own."""
    with sqs_server() as server:
        yield server


@pytest.fixture
def sqs(sqs_session: SqsServer) -> Iterator[SqsServer]:
    """The shared server, free of faults before and after the test."""
    sqs_session.calm()
    yield sqs_session
    sqs_session.calm()
