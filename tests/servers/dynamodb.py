"""A DynamoDB server for tests: real HTTP in a process of its own, honest by default, faulty on demand.

with dynamodb_server() as server:
    table = DynamoTable("lake", server.settings(), endpoint_url=server.endpoint_url, clock=SystemClock())
    create_table(table)
    server.fail("TransactWriteItems", code="ThrottlingException", times=3)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.servers.operations.server import OperationServer
from tests.servers.s3 import server_process


@dataclass(frozen=True)
class DynamoServer(OperationServer):
    """A running server."""

    def client(self) -> Any:
        """A plain boto3 client, to arrange and to look behind a log's back."""
        return self._plain.client("dynamodb")

    def fail(
        self,
        operations: str,
        *,
        code: str,
        reasons: Sequence[str] = (),
        times: int = 1,
        after: bool = False,
        message: str = "injected",
    ) -> None:
        """Answer with an error, of status 400 unless ``code`` begins with another: instead of the effect, or ``after``
        it. ``reasons`` are those of a cancelled transaction."""
        self._add(operations, "error", times, code=code, reasons=list(reasons), after=after, message=message)

    def leave_over(self, *, processed: int, times: int = 1) -> None:
        """Process only the first requests of a batch."""
        self._add("BatchWriteItem", "unprocessed", times, processed=processed)

    def answer_with_html(self, operations: str, *, times: int = 1) -> None:
        """Answer 200 with a page, as a proxy may, before anything happens."""
        self._add(operations, "not_dynamodb", times)


@contextmanager
def dynamodb_server() -> Iterator[DynamoServer]:
    """A fresh, empty server on a free port of 127.0.0.1; it ends with the block, or with this process."""
    with server_process("tests.servers.dynamodb_process") as endpoint_url:
        yield DynamoServer(endpoint_url)


@pytest.fixture(scope="session")
def dynamodb_session() -> Iterator[DynamoServer]:
    """The server that all tests of a session share; give each test a table of its own."""
    with dynamodb_server() as server:
        yield server


@pytest.fixture
def dynamodb(dynamodb_session: DynamoServer) -> Iterator[DynamoServer]:
    """The shared server, free of faults before and after the test."""
    dynamodb_session.calm()
    yield dynamodb_session
    dynamodb_session.calm()
