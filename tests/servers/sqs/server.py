"""An SQS server for tests: real HTTP in a process of its own, honest by default, faulty on demand.

with sqs_server() as server:
    queue = SqsQueue(QueueSettings(url=server.queue("lake")), server.settings(), clock=SystemClock())
    server.fail("SendMessage", code="RequestThrottled", status=400)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from singerlake.clock import random_id
from tests.servers.operations.server import OperationServer
from tests.servers.s3 import server_process


@dataclass(frozen=True)
class SqsServer(OperationServer):
    """A running server."""

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

    def fail_all(self, *, times: int = 1) -> None:
        """Answer a batch of deletions with success, and each of them with a failure."""
        self._add("DeleteMessageBatch", "fail_all", times)


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
