"""A Google Cloud Storage for tests: real HTTP in a process of its own, honest by default, faulty on demand.

with gcs_server() as server:
    server.create_bucket("lake")
    driver = GcsDriver("lake", "prefix", server.settings())
    server.fail("insert", status=429, reason="rateLimitExceeded", times=3)

Operations are insert, media, look, list, delete, compose, batch, begin and block (of a resumable upload), and token.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from singerlake.storage.drivers.gcs.settings import GcsSettings
from tests.servers.s3 import ALWAYS, server_process

__all__ = ["ALWAYS", "GcsServer", "Request", "gcs_server"]


@dataclass(frozen=True)
class Request:
    """A request as the server saw it; header names are lower case. ``size`` is that of its body."""

    operation: str
    name: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    authorized: bool
    size: int


@dataclass(frozen=True)
class GcsServer:
    """A running server. Its faults apply, in the order given, to requests of these ``operations`` (as
    ``"insert,delete"``) whose object's name contains ``name_contains``; the first match is used up ``times`` times."""

    endpoint_url: str

    def settings(self, **changes: Any) -> GcsSettings:
        """What reaches this server, with some settings changed."""
        return GcsSettings(**{"endpoint_url": self.endpoint_url, **changes})

    def service_account(self, **changes: object) -> str:
        """A key file's content; this server gives the tokens for it."""
        return json.dumps(
            {
                "type": "service_account",
                "project_id": "lake",
                "private_key_id": "secret-key-id",
                "private_key": private_key(),
                "client_email": "writer@lake.iam.gserviceaccount.com",
                "token_uri": f"{self.endpoint_url}/token",
                **changes,
            },
            indent=2,
        )

    def create_bucket(self, name: str, *, keeps: str = "") -> str:
        """Make an empty bucket, one that ``keeps`` its objects by "retention" or "hold"; gives its name."""
        self._send("POST", "/storage/v1/b", {"name": name, "keeps": keeps})
        return name

    def keep(self, bucket: str, by: str, *, name_contains: str = "") -> None:
        """Have a bucket keep objects of such names from now on by "retention" or "hold", or none where that is ""."""
        self._send("POST", "/_control", {"keep": bucket, "by": by, "name_contains": name_contains})

    def fail(
        self,
        operations: str,
        *,
        status: int,
        reason: str = "",
        message: str = "injected",
        times: int = 1,
        after: bool = False,
        retry_after: str = "",
        name_contains: str = "",
        conditional_only: bool = False,
    ) -> None:
        """Answer with an error: instead of the effect, or ``after`` it. Without ``reason`` the body is not Google's."""
        more = {"status": status, "reason": reason, "message": message, "after": after, "retry_after": retry_after}
        self._add("error", operations, times, name_contains, conditional_only, **more)

    def drop_reply(self, operations: str, *, times: int = 1, name_contains: str = "") -> None:
        """Let the request take effect, then close the connection."""
        self._add("drop_reply", operations, times, name_contains)

    def drop_request(self, operations: str, *, times: int = 1, name_contains: str = "") -> None:
        """Close the connection before anything happens."""
        self._add("drop_request", operations, times, name_contains)

    def store_part_of_a_block(self, *, times: int = 1) -> None:
        """Store half of a resumable upload's block, then close the connection."""
        self._add("part_of_block", "block", times, "")

    def truncate(self, *, times: int = 1, name_contains: str = "") -> None:
        """Send half of an object's bytes, then close the connection."""
        self._add("truncate", "media", times, name_contains)

    def answer_with_a_page(self, operations: str) -> None:
        """Answer 200 with a page, as a portal does."""
        self._add("page", operations, ALWAYS, "")

    def ignore_conditions(self, operations: str = "insert,delete,compose,begin") -> None:
        """Act as if requests carried no ifGenerationMatch."""
        self._add("ignore_conditions", operations, ALWAYS, "", conditional_only=True)

    def expire_tokens(self) -> None:
        """Refuse all tokens given so far."""
        self._send("POST", "/_control", {"expire": True})

    def refuse_strangers(self) -> None:
        """Refuse requests without a token until ``calm``."""
        self._send("POST", "/_control", {"anonymous": False})

    def calm(self) -> None:
        """End all faults and forget the requests seen."""
        self._send("DELETE", "/_control")

    def requests(self) -> list[Request]:
        """The requests seen since the last call, oldest first."""
        return [Request(**each) for each in json.loads(self._send("GET", "/_control"))]

    def operations(self) -> list[str]:
        """What these requests did."""
        return [request.operation for request in self.requests()]

    def _add(
        self,
        kind: str,
        operations: str,
        times: int,
        name_contains: str,
        conditional_only: bool = False,
        **more: object,
    ) -> None:
        fault = {
            "kind": kind,
            "operations": operations.split(","),
            "times": times,
            "name_contains": name_contains,
            "conditional_only": conditional_only,
            **more,
        }
        self._send("POST", "/_control", fault)

    def _send(self, method: str, path: str, body: object = None) -> bytes:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.endpoint_url}{path}", data=data, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as reply:
            return bytes(reply.read())


@cache
def private_key() -> str:
    """A service account's private key, as a key file has it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    return (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode()
    )


@contextmanager
def gcs_server() -> Iterator[GcsServer]:
    """A fresh, empty server on a free port of 127.0.0.1; it ends with the block, or with this process."""
    with server_process("tests.servers.gcs.process") as endpoint_url:
        yield GcsServer(endpoint_url)


@pytest.fixture(scope="session")
def gcs_session() -> Iterator[GcsServer]:
    """The server that all tests of a session share; give each test a bucket of its own."""
    with gcs_server() as server:
        yield server


@pytest.fixture
def gcs(gcs_session: GcsServer) -> Iterator[GcsServer]:
    """The shared server, free of faults before and after the test."""
    gcs_session.calm()
    yield gcs_session
    gcs_session.calm()
