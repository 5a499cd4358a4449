"""Making the DynamoDB table, what its users must be allowed, and the newest state of tables, by their marks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from singerlake.clock import Backoff
from singerlake.errors import AccessDeniedError, SettingError, StorageUnavailableError
from singerlake.format import layout
from singerlake.stores.dynamodb.client import FREE, HASH, RANGE, DynamoTable, Item, check, equal, foreign, key_of, put

_KEYS = [{"AttributeName": HASH, "KeyType": "HASH"}, {"AttributeName": RANGE, "KeyType": "RANGE"}]
_TYPES = [{"AttributeName": HASH, "AttributeType": "S"}, {"AttributeName": RANGE, "AttributeType": "N"}]
_LONGEST_WAIT = 300.0
_POLL = 1.0

WRITER_ACTIONS = ("ConditionCheckItem", "GetItem", "PutItem", "Query")
GC_ACTIONS = ("BatchWriteItem",)
READER_ACTIONS = ("GetItem", "Query")

_MARK = "mark"


def create_table(table: DynamoTable) -> str:
    """Make the table, billed on demand, where it is not there yet, and wait until it can be used; gives its ARN.

    One table serves all lakes of an account and region. Raises ``SettingError`` for other keys or a server without
    transactions, ``StorageUnavailableError`` where it is not ready in five minutes, and what ``DynamoTable`` raises.
    """

    def describe(client: Any) -> dict[str, Any] | None:
        try:
            described: dict[str, Any] = client.describe_table(TableName=table.name)["Table"]
        except client.exceptions.ResourceNotFoundException:
            return None
        return described

    def create(client: Any) -> None:
        try:
            client.create_table(
                TableName=table.name, KeySchema=_KEYS, AttributeDefinitions=_TYPES, BillingMode="PAY_PER_REQUEST"
            )
        except client.exceptions.ResourceInUseException:
            return

    began, backoff = table.clock.monotonic(), Backoff(table.clock, first=_POLL, longest=_POLL, jitter=0)
    description = table.ask(describe)
    if description is None:
        table.ask(create)
        description = table.ask(describe)
    # A description may lag behind the creation.
    while description is None or description["TableStatus"] not in ("ACTIVE", "UPDATING"):
        if table.clock.monotonic() - began > _LONGEST_WAIT:
            raise StorageUnavailableError(
                "the DynamoDB table is not ready yet",
                hint="run again later",
                dynamodb_table=table.name,
                status=description["TableStatus"] if description else None,
            )
        backoff.wait()
        description = table.ask(describe)
    types = {each["AttributeName"]: each["AttributeType"] for each in description["AttributeDefinitions"]}
    keys = [(each["KeyType"], each["AttributeName"], types[each["AttributeName"]]) for each in description["KeySchema"]]
    if keys != [("HASH", HASH, "S"), ("RANGE", RANGE, "N")]:
        raise SettingError(
            "the DynamoDB table has other keys", hint="choose another dynamodb_table", dynamodb_table=table.name
        )
    # A transaction that writes nothing. Who may not send one is denied it, by a server that has transactions.
    with suppress(AccessDeniedError):
        table.write(check(key_of("singerlake", 0), FREE), look=lambda: True)
    return str(description["TableArn"])


def least_policy(table_arn: str, *, query_items: bool = False) -> dict[str, Any]:
    """The least that IAM must allow to writers and 'singerlake' commands, and beyond that to 'singerlake gc'. With
    ``query_items`` writers write in batches, and readers read. Making the table takes CreateTable and DescribeTable."""
    needed = [("SingerlakeWriters", WRITER_ACTIONS), ("SingerlakeGc", GC_ACTIONS)]
    if query_items:
        needed[0] = ("SingerlakeWriters", tuple(sorted((*WRITER_ACTIONS, *GC_ACTIONS))))
        needed.append(("SingerlakeReaders", READER_ACTIONS))
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": sid,
                "Effect": "Allow",
                "Action": [f"dynamodb:{action}" for action in actions],
                "Resource": table_arn,
            }
            for sid, actions in needed
        ],
    }


class DynamoMarks:
    """The marks of a lake's tables. Every method may raise what ``DynamoTable`` raises."""

    def __init__(self, table: DynamoTable, lake_id: str) -> None:
        self._table = table
        self._lake_id = lake_id

    def read(self, table: str) -> str | None:
        """The table's mark now; None where it has none. Raises ``CorruptObjectError``."""
        key = self._key(table)
        item = self._table.get(key)
        if item is None:
            return None
        mark = item.get(_MARK, {}).get("S")
        if mark is None:
            raise foreign(self._table, key)
        return mark

    def swap(self, table: str, before: str | None, after: str) -> bool:
        """Put ``after``, a new text, for ``before`` (None: none), else False. Raises ``UnknownOutcomeError``."""

        def look() -> bool | None:
            now = self.read(table)
            return True if now == after else None if now == before else False

        item = {**self._key(table), _MARK: {"S": after}}
        return self._table.write(put(item, FREE if before is None else equal(_MARK, before)), look=look)

    def _key(self, table: str) -> Item:
        return key_of(f"{self._lake_id}#table/{layout.to_segment(table)}", 0)
