"""The DynamoDB table: made once, known by its keys, used with the least of permissions and with consistent reads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from singerlake.clock import random_id
from singerlake.errors import AccessDeniedError, SettingError, StorageUnavailableError
from singerlake.stores.dynamodb.log import LARGEST_ITEM
from singerlake.stores.dynamodb.tables import create_table, least_policy
from tests.fakes import FakeClock
from tests.format.state.test_fold import add, new_file
from tests.servers.dynamodb import DynamoServer
from tests.servers.s3 import ALWAYS
from tests.stores.dynamodb.dynamo import Stream, WatchedTable, on

ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/"


@pytest.fixture
def table(dynamodb: DynamoServer) -> WatchedTable:
    """A table that is not there yet."""
    name = f"lake-{random_id()}"
    return WatchedTable(name, dynamodb.settings(), endpoint_url=dynamodb.endpoint_url, clock=FakeClock())


def described(server: DynamoServer, name: str) -> Any:
    return server.client().describe_table(TableName=name)["Table"]


def test_a_table_is_made_on_demand_and_only_once(dynamodb: DynamoServer, table: WatchedTable) -> None:
    assert create_table(table) == ARN + table.name
    assert create_table(table) == ARN + table.name
    made = described(dynamodb, table.name)
    assert made["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert [(each["AttributeName"], each["KeyType"]) for each in made["KeySchema"]] == [
        ("table_id", "HASH"),
        ("number", "RANGE"),
    ]
    assert [operation(each) for each in dynamodb.requests()].count("CreateTable") == 1


def test_a_table_that_another_makes_meanwhile_is_taken(dynamodb: DynamoServer, table: WatchedTable) -> None:
    def overtake(name: str, done: bool) -> None:
        if name == "create_table" and not done:
            table.hook = WatchedTable.hook
            create_table(table)

    table.hook = overtake
    assert create_table(table) == ARN + table.name


@pytest.mark.parametrize(("polls", "ready"), [(3, True), (10_000, False)])
def test_it_waits_until_the_table_can_be_used_but_not_for_ever(table: WatchedTable, polls: int, ready: bool) -> None:
    left: Iterator[int] = iter(range(polls))

    def still_creating(parsed: Any, **_: Any) -> None:
        if "Table" in parsed and next(left, None) is not None:
            parsed["Table"]["TableStatus"] = "CREATING"

    table._client.client.meta.events.register("after-call.dynamodb.DescribeTable", still_creating)
    if ready:
        assert create_table(table) == ARN + table.name
        assert table.clock.monotonic() == 3
    else:
        with pytest.raises(StorageUnavailableError, match=r"not ready.*status='CREATING'"):
            create_table(table)
        assert table.clock.monotonic() == pytest.approx(300, abs=2)


@pytest.mark.parametrize(
    "keys",
    [[("table_id", "S")], [("number", "N"), ("table_id", "S")], [("table_id", "S"), ("number", "S")]],
    ids=str,
)
def test_a_table_with_other_keys_is_left_alone(
    dynamodb: DynamoServer, table: WatchedTable, keys: list[tuple[str, str]]
) -> None:
    dynamodb.client().create_table(
        TableName=table.name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in keys],
        KeySchema=[
            {"AttributeName": key, "KeyType": role} for (key, _), role in zip(keys, ("HASH", "RANGE"), strict=False)
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    before = described(dynamodb, table.name)
    with pytest.raises(SettingError, match="other keys; choose another dynamodb_table"):
        create_table(table)
    assert described(dynamodb, table.name) == before


def test_creation_that_is_denied_or_throttled_says_so(dynamodb: DynamoServer, table: WatchedTable) -> None:
    dynamodb.fail("CreateTable", code="AccessDeniedException", message="not authorized: dynamodb:CreateTable")
    with pytest.raises(AccessDeniedError, match="dynamodb:CreateTable"):
        create_table(table)
    dynamodb.fail("CreateTable", code="LimitExceededException", times=2)
    assert create_table(table) == ARN + table.name
    dynamodb.fail("DescribeTable", code="500 InternalServerError", times=ALWAYS)
    with pytest.raises(StorageUnavailableError):
        create_table(table)


def test_a_server_without_transactions_is_refused_before_a_run_begins(
    dynamodb: DynamoServer, table: WatchedTable
) -> None:
    """As dynalite is, which takes every other request."""
    dynamodb.fail("TransactWriteItems", code="UnknownOperationException", message="", times=ALWAYS)
    with pytest.raises(SettingError, match=r"only a part of DynamoDB.*TransactWriteItems"):
        create_table(table)


def test_who_may_make_the_table_need_not_write_to_it(dynamodb: DynamoServer, table: WatchedTable) -> None:
    dynamodb.fail("TransactWriteItems", code="AccessDeniedException", times=ALWAYS)
    assert create_table(table) == ARN + table.name
    assert dynamodb.client().scan(TableName=table.name)["Count"] == 0


def test_the_policy_allows_what_writers_and_gc_do_and_nothing_else(dynamodb: DynamoServer) -> None:
    stream = on(dynamodb)
    base = stream.committed(stream.born(), *(add(new_file(f"f{number}")) for number in range(3)))
    stream.log().append(base.manifest.transaction.number + 1, b"x" * LARGEST_ITEM)
    stream.client().delete_item(TableName=stream.table_name, Key=key(stream, 4))
    writing, reads = used(dynamodb)
    stream.store().trim(keep=1, dry_run=False)
    collecting, more_reads = used(dynamodb)
    assert reads
    assert all(request["ConsistentRead"] for request in reads + more_reads)

    policy = least_policy(ARN + stream.table_name)
    assert json.loads(json.dumps(policy))["Version"] == "2012-10-17"
    writers, gc = policy["Statement"]
    assert {statement["Resource"] for statement in (writers, gc)} == {ARN + stream.table_name}
    assert {statement["Effect"] for statement in (writers, gc)} == {"Allow"}
    assert set(writers["Action"]) == writing - {"dynamodb:DeleteItem"}
    assert set(writers["Action"]) | set(gc["Action"]) == collecting | set(writers["Action"])
    assert set(gc["Action"]) == collecting - set(writers["Action"])


def test_with_items_the_policy_lets_writers_write_batches_and_readers_read() -> None:
    writers, gc, readers = least_policy(ARN + "lake", query_items=True)["Statement"]
    plain = least_policy(ARN + "lake")["Statement"]
    assert set(writers["Action"]) == {*plain[0]["Action"], "dynamodb:BatchWriteItem"}
    assert gc == plain[1]
    assert readers["Sid"] == "SingerlakeReaders"
    assert set(readers["Action"]) == {"dynamodb:GetItem", "dynamodb:Query"}
    assert {each["Resource"] for each in (writers, gc, readers)} == {ARN + "lake"}


def test_a_transaction_that_is_sent_again_has_the_token_it_had(dynamodb: DynamoServer) -> None:
    stream = on(dynamodb)
    dynamodb.drop_request("TransactWriteItems", times=2)
    assert stream.log().append(0, b"a" * LARGEST_ITEM)
    assert stream.log().append(1, b"b")
    tokens = [
        body(each)["ClientRequestToken"] for each in dynamodb.requests() if operation(each).startswith("Transact")
    ]
    assert tokens[:3] == [tokens[0]] * 3
    assert len(set(tokens)) == 2
    assert all(1 <= len(token) <= 36 for token in tokens)


def test_the_token_alone_resolves_a_lost_reply_where_reading_back_fails(dynamodb: DynamoServer) -> None:
    stream = on(dynamodb)
    dynamodb.drop_reply("TransactWriteItems", times=2)
    dynamodb.fail("GetItem", code="ThrottlingException", times=ALWAYS)
    assert stream.log().append(0, b"a")


def test_importing_the_log_imports_no_driver() -> None:
    script = (
        "import sys, singerlake.stores.dynamodb.log, singerlake.stores.dynamodb.tables;"
        "print([name for name in ('boto3', 'botocore') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def operation(request: Any) -> str:
    return str(request.headers["x-amz-target"].partition(".")[2])


def body(request: Any) -> Any:
    return json.loads(request.query)


def key(stream: Stream, number: int) -> dict[str, Any]:
    return {"table_id": {"S": stream.table_id}, "number": {"N": str(number)}}


def used(server: DynamoServer) -> tuple[set[str], list[Any]]:
    """The actions of IAM that the requests since the last call needed, and those of them that read."""
    actions, reads = set(), []
    for request in server.requests():
        if operation(request) == "TransactWriteItems":
            for part in body(request)["TransactItems"]:
                actions.add({"Put": "PutItem", "ConditionCheck": "ConditionCheckItem"}[next(iter(part))])
            continue
        if operation(request) in ("GetItem", "Query"):
            reads.append(body(request))
        actions.add(operation(request))
    return {f"dynamodb:{action}" for action in actions}, reads
