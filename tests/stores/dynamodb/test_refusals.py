"""What is said where DynamoDB refuses, or is not there: by name, without secrets, and with nothing written."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from singerlake.aws.settings import S3Settings
from singerlake.clock import random_id
from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError, StorageUnavailableError
from singerlake.stores.dynamodb.client import DynamoTable
from singerlake.stores.dynamodb.log import DynamoLog
from tests.fakes import FakeClock
from tests.servers.dynamodb import DynamoServer
from tests.servers.s3 import SECRET_ACCESS_KEY
from tests.stores.dynamodb.dynamo import Stream, on, state_at

APPEND = "TransactWriteItems"
Act = Callable[[DynamoLog], object]


@pytest.fixture
def stream(dynamodb: DynamoServer) -> Stream:
    return on(dynamodb)


ACTS: dict[str, Act] = {
    "read": lambda log: list(log.read(-1, whole=True)),
    "base": lambda log: log.base(),
    "append": lambda log: log.append(0, b"a"),
    "snapshot": lambda log: log.snapshot(state_at(1)),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_missing_table_is_named_with_what_to_do(stream: Stream, act: str) -> None:
    stream.client().delete_table(TableName=stream.table_name)
    with pytest.raises(SettingError, match="dynamodb_table.*'singerlake store create'.*" + stream.table_name):
        ACTS[act](stream.log())


@pytest.mark.crossed("act", "keys")
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    "keys",
    [
        [("table_id", "S")],
        [("id", "S"), ("number", "N")],
        [("table_id", "S"), ("sort", "N")],
        [("table_id", "S"), ("number", "S")],
    ],
    ids=str,
)
def test_a_table_with_other_keys_takes_nothing(stream: Stream, act: str, keys: list[tuple[str, str]]) -> None:
    client, name = stream.client(), f"other-{random_id()}"
    client.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in keys],
        KeySchema=[
            {"AttributeName": key, "KeyType": role} for (key, _), role in zip(keys, ("HASH", "RANGE"), strict=False)
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    stream.table_name = name
    with pytest.raises(SettingError, match="'singerlake store create'"):
        ACTS[act](stream.log(stream.table()))
    assert client.scan(TableName=name)["Items"] == []


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("AccessDeniedException", "'singerlake store create'"),
        ("UnrecognizedClientException", "aws_access_key_id"),
        ("InvalidSignatureException", "aws_secret_access_key"),
        ("ExpiredTokenException", "aws_session_token"),
    ],
)
def test_credentials_that_are_refused_are_an_error_at_once(
    stream: Stream, dynamodb: DynamoServer, code: str, named: str
) -> None:
    dynamodb.fail(APPEND, code=code)
    with pytest.raises(AccessDeniedError, match=named):
        stream.log().append(0, b"a")
    assert stream.clock.seconds == 0


def test_a_wrong_access_key_is_told_so_and_writes_nothing(stream: Stream, dynamodb: DynamoServer) -> None:
    settings = dynamodb.settings(access_key_id="AKIAWRONG")
    table = DynamoTable(stream.table_name, settings, endpoint_url=stream.endpoint_url, clock=stream.clock)
    with pytest.raises(AccessDeniedError, match="does not know the access key"):
        stream.log(table).append(0, b"a")
    assert stream.items() == {}


def test_without_credentials_the_settings_are_named(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    table = DynamoTable("lake", S3Settings(region="x"), endpoint_url=stream.endpoint_url, clock=stream.clock)
    with pytest.raises(AccessDeniedError, match="aws_access_key_id"):
        stream.log(table).floor()
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    with pytest.raises(SettingError, match="region"):
        stream.log(DynamoTable("lake", S3Settings(), clock=stream.clock)).floor()


def test_an_endpoint_that_nobody_listens_at_is_named_after_some_tries(stream: Stream) -> None:
    nowhere = "http://127.0.0.1:9"
    table = DynamoTable("lake", stream.settings, endpoint_url=nowhere, clock=stream.clock)
    with pytest.raises(StorageUnavailableError, match=f"dynamodb_endpoint_url.*'{nowhere}'"):
        stream.log(table).append(0, b"a")
    assert stream.clock.seconds > 0


@pytest.mark.parametrize(
    ("name", "url", "named"),
    [
        ("lake", "http://user:s3cr3t@127.0.0.1:1", "dynamodb_endpoint_url holds credentials"),
        ("lake", "127.0.0.1:8000/s3cr3t", "dynamodb_endpoint_url is not a URL"),
        ("", None, "dynamodb_table"),
        (" lake", None, "dynamodb_table"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name_without_their_value(
    name: str, url: str | None, named: str
) -> None:
    with pytest.raises(SettingError, match=named) as caught:
        DynamoTable(name, endpoint_url=url, clock=FakeClock())
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("code", ["AccessDeniedException", "InvalidSignatureException", "ValidationException"])
def test_what_dynamodb_says_of_a_request_is_shown_without_secrets(
    stream: Stream, dynamodb: DynamoServer, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    dynamodb.fail(APPEND, code=code, message=f"for the secret {SECRET_ACCESS_KEY} and\nx-amz-security-token:t0ken")
    with pytest.raises(SingerlakeError) as caught:
        stream.log().append(0, b"a")
    assert SECRET_ACCESS_KEY not in str(caught.value) + caplog.text
    assert ("t0ken" in str(caught.value)) == (code != "InvalidSignatureException")
