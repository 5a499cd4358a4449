"""An S3 server for tests: real HTTP in a process of its own, honest by default, faulty on demand.

with s3_server() as server:
    server.create_bucket("lake")
    storage = s3_storage("lake", "prefix", server.settings(), clock=SystemClock(), ids=random_id)
    server.fail("PUT", status=409, code="ConditionalRequestConflict", times=3)
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from singerlake.aws.settings import S3Settings

ACCESS_KEY_ID = "AKIATESTSINGERLAKE00"
SECRET_ACCESS_KEY = "not-a-real-secret-access-key-0123456789"
REGION = "us-east-1"
ALWAYS = -1
"""As ``times``: until ``calm``."""


@dataclass(frozen=True)
class Request:
    """A request as the server saw it; header names are lower case, credentials left out. For services other than S3,
    ``query`` is the body."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class S3Server:
    """A running server. Its faults apply, in the order given, to requests that match ``methods`` (as ``"PUT,DELETE"``)
    and whose path contains ``key_contains``; the first match is used up ``times`` times."""

    endpoint_url: str
    access_key_id: str = ACCESS_KEY_ID

    def settings(self, **changes: Any) -> S3Settings:
        """What reaches this server, with some settings changed."""
        known: dict[str, Any] = {
            "access_key_id": self.access_key_id,
            "secret_access_key": SECRET_ACCESS_KEY,
            "region": REGION,
            "endpoint_url": self.endpoint_url,
        }
        return S3Settings(**{**known, **changes})

    def config(self, **changes: Any) -> dict[str, Any]:
        """The settings of a plugin that reach this server, with some changed or added."""
        return {
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": SECRET_ACCESS_KEY,
            "aws_region": REGION,
            "s3_endpoint_url": self.endpoint_url,
            **changes,
        }

    def environment(self) -> dict[str, str]:
        """Variables with which a process that uses botocore's defaults reaches this server."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint_url,
        }

    def client(self, service: str = "s3") -> Any:
        """A plain boto3 client, to arrange and to look behind an adapter's back."""
        import boto3

        return boto3.client(
            service,
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=SECRET_ACCESS_KEY,
        )

    def create_bucket(self, name: str) -> str:
        """Make a bucket, which may exist; gives its name."""
        self.client().create_bucket(Bucket=name)
        return name

    def fail(
        self,
        methods: str,
        *,
        status: int,
        code: str = "",
        times: int = 1,
        after: bool = False,
        key_contains: str = "",
        conditional_only: bool = False,
    ) -> None:
        """Answer with an error: instead of the effect, or ``after`` it. Without ``code`` the body is not S3's."""
        self._add("error", methods, times, key_contains, conditional_only, status=status, code=code, after=after)

    def drop_reply(
        self, methods: str, *, times: int = 1, key_contains: str = "", conditional_only: bool = False
    ) -> None:
        """Let the request take effect, then close the connection."""
        self._add("drop_reply", methods, times, key_contains, conditional_only)

    def drop_request(self, methods: str, *, times: int = 1, key_contains: str = "") -> None:
        """Close the connection before anything happens."""
        self._add("drop_request", methods, times, key_contains, False)

    def truncate(self, *, times: int = 1, key_contains: str = "") -> None:
        """Send half of an object's bytes, then close the connection."""
        self._add("truncate", "GET", times, key_contains, False)

    def ignore_conditions(self, methods: str = "PUT,POST,DELETE") -> None:
        """Act as if requests carried no If-Match and no If-None-Match, as some stores do."""
        self._add("ignore_conditions", methods, ALWAYS, "", True)

    def refuse_quoted_etags(self) -> None:
        """Answer 412 to every quoted If-Match on PUT, as Ceph 16 does."""
        self._add("refuse_quoted_etags", "PUT", ALWAYS, "", True)

    def decode_copy_sources_twice(self) -> None:
        """Look for the source of a copy under its name decoded once too often, as Ceph 16 does for parts."""
        self._add("decode_copy_sources_twice", "PUT", ALWAYS, "", False)

    def calm(self) -> None:
        """End all faults and forget the requests seen."""
        self.control("DELETE")

    def requests(self) -> list[Request]:
        """The requests seen since the last call, oldest first."""
        return [Request(**each) for each in json.loads(self.control("GET"))]

    def _add(
        self, kind: str, methods: str, times: int, key_contains: str, conditional_only: bool, **more: object
    ) -> None:
        fault = {
            "kind": kind,
            "methods": methods.split(","),
            "times": times,
            "key_contains": key_contains,
            "conditional_only": conditional_only,
            **more,
        }
        self.control("POST", json.dumps(fault).encode())

    def control(self, method: str, body: bytes | None = None) -> bytes:
        """Speak to the server about itself: faults and requests seen."""
        request = urllib.request.Request(f"{self.endpoint_url}/_control", data=body, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as reply:
            return bytes(reply.read())


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A fresh, empty server on a free port of 127.0.0.1; it ends with the block, or with this process."""
    with server_process("tests.servers.s3_process") as endpoint_url:
        yield S3Server(endpoint_url)


@contextmanager
def server_process(module: str) -> Iterator[str]:
    """Run a module that serves on a port which it prints; gives the endpoint URL. It ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, ACCESS_KEY_ID],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port.isdigit(), "the server did not start; its own error output says why"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def s3_session() -> Iterator[S3Server]:
    """The server that all tests of a session share; give each test a bucket or a prefix of its own."""
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(s3_session: S3Server) -> Iterator[S3Server]:
    """The shared server, free of faults before and after the test."""
    s3_session.calm()
    yield s3_session
    s3_session.calm()
