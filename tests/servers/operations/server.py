"""What the servers of services have in common whose requests name an operation: DynamoDB and SQS."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from singerlake.aws.settings import S3Settings
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, Request, S3Server


@dataclass(frozen=True)
class OperationServer:
    """A running server. Its faults apply, in the order given, to requests of the ``operations`` (as
    ``"Query,GetItem"``); the first match is used up ``times`` times, -1: for ever."""

    endpoint_url: str

    def settings(self, **changes: Any) -> S3Settings:
        """Credentials that reach this server, with some settings changed."""
        known = {"access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET_ACCESS_KEY, "region": REGION}
        return S3Settings(**{**known, **changes})

    def drop_reply(self, operations: str, *, times: int = 1) -> None:
        """Let the request take effect, then close the connection."""
        self._add(operations, "drop_reply", times)

    def drop_request(self, operations: str, *, times: int = 1) -> None:
        """Close the connection before anything happens."""
        self._add(operations, "drop_request", times)

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
