"""One DynamoDB table: consistent reads, writes under conditions, deletions, each sent until its outcome is known.

botocore is imported with the first request. Its own retries are off, since a silent retry hides whose write it was; a
table that throttles, and an endpoint that does not answer, are waited for as storage is. Codes tell what an answer
means: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html and
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html.
"""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from singerlake.aws import errors as aws_errors
from singerlake.aws.session import client_of, in_session, region_for
from singerlake.aws.settings import KEYS, S3Settings
from singerlake.clock import Clock
from singerlake.errors import (
    AccessDeniedError,
    CorruptObjectError,
    SettingError,
    SingerlakeError,
    StorageUnavailableError,
)
from singerlake.interpreter.threads import side_by_side
from singerlake.storage.checks import check_endpoint
from singerlake.storage.failures import masked, without_answer
from singerlake.storage.lost_replies import DriverErrors, Meaning, Write, send_until_answered, send_until_known
from singerlake.storage.patience import Patience

Result = TypeVar("Result")
Item = Mapping[str, Mapping[str, str]]
"""Attributes in DynamoDB's own form: ``{"number": {"N": "7"}, "body": {"S": "..."}}``."""

HASH = "table_id"
"""The table's hash key, a string."""
RANGE = "number"
"""The table's range key, a number."""
_PAGES_SCANNED = 20
_BATCH = 25
"""Most items that one request may put or delete."""
_AT_ONCE = 8
"""Such requests under way."""
_TOKEN_LENGTH = 36

_REFUSED = "ConditionalCheckFailed"
_MEANINGS = {
    _REFUSED: Meaning.REFUSED,
    "ConditionalCheckFailedException": Meaning.REFUSED,
    "TransactionConflict": Meaning.CONFLICT,
    "TransactionConflictException": Meaning.CONFLICT,
    "ReplicatedWriteConflictException": Meaning.CONFLICT,
    "ProvisionedThroughputExceeded": Meaning.BUSY,
    "ProvisionedThroughputExceededException": Meaning.BUSY,
    "RequestLimitExceeded": Meaning.BUSY,
    "Throttling": Meaning.BUSY,
    "ThrottlingError": Meaning.BUSY,
    "ThrottlingException": Meaning.BUSY,
    "LimitExceededException": Meaning.BUSY,
    # An earlier try under the same token is still at work.
    "TransactionInProgressException": Meaning.UNKNOWN,
}
_WORST_FIRST = (Meaning.FATAL, Meaning.REFUSED, Meaning.UNKNOWN, Meaning.CONFLICT, Meaning.BUSY)

_POLICY = "grant the action that the reason names; 'singerlake store create' prints all that are needed"
_KEY_ID = "check aws_access_key_id"
_SIGNATURE = "check aws_secret_access_key, and the clock of this machine"
_EXPIRED = "renew aws_session_token"
_EXPLAINED: dict[str, tuple[type[SingerlakeError], str, str]] = {
    "AccessDeniedException": (AccessDeniedError, "DynamoDB denied access", _POLICY),
    "UnrecognizedClientException": (AccessDeniedError, "AWS does not know the access key", _KEY_ID),
    "InvalidClientTokenId": (AccessDeniedError, "AWS does not know the access key", _KEY_ID),
    "MissingAuthenticationToken": (AccessDeniedError, "AWS asks for credentials", _KEY_ID),
    "MissingAuthenticationTokenException": (AccessDeniedError, "AWS asks for credentials", _KEY_ID),
    "InvalidSignatureException": (AccessDeniedError, "the secret does not belong to the access key", _SIGNATURE),
    "IncompleteSignatureException": (AccessDeniedError, "the secret does not belong to the access key", _SIGNATURE),
    "ExpiredTokenException": (AccessDeniedError, "the session token has expired", _EXPIRED),
    "ResourceNotFoundException": (
        SettingError,
        "the DynamoDB table does not exist",
        "check dynamodb_table and aws_region, or make it with 'singerlake store create'",
    ),
    "ValidationException": (
        SettingError,
        "the DynamoDB table cannot take this request",
        "let dynamodb_table name a table that 'singerlake store create' made: others have other keys",
    ),
    "UnknownOperationException": (
        SettingError,
        "the server that answers has only a part of DynamoDB",
        "use Amazon DynamoDB or DynamoDB Local: the store needs TransactWriteItems",
    ),
}
_WRONG_HOST = "check dynamodb_endpoint_url and aws_region"
_WRONG_PORT = "check host and port of dynamodb_endpoint_url, that the server runs, aws_region and the network"
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of an item: ``text`` speaks of its attribute ``of`` as ``#it``, and of ``value`` as ``:it``."""

    text: str
    of: str
    value: int | str | None = None


FREE = Condition("attribute_not_exists(#it)", RANGE)
"""No item has the key."""


def below(of: str, value: int) -> Condition:
    """The attribute is below ``value``, or there is no item."""
    return Condition("attribute_not_exists(#it) OR #it < :it", of, value)


def reached(of: str, value: int) -> Condition:
    """There is an item, and its attribute is at least ``value``."""
    return Condition("#it >= :it", of, value)


def equal(of: str, value: str) -> Condition:
    """There is an item, and its attribute is ``value``."""
    return Condition("#it = :it", of, value)


Action = tuple[str, dict[str, Any]]
"""A part of a transaction: its kind and arguments, without the table."""


def put(item: Item, condition: Condition) -> Action:
    """Write the whole item where ``condition`` holds of the one in its place."""
    return "Put", {"Item": item, **_arguments(condition)}


def check(key: Item, condition: Condition) -> Action:
    """Only look whether ``condition`` holds."""
    return "ConditionCheck", {"Key": key, **_arguments(condition)}


def key_of(table_id: str, number: int) -> Item:
    return {HASH: {"S": table_id}, RANGE: {"N": str(number)}}


class DynamoTable:
    """A table with the keys ``HASH`` and ``RANGE``, for many streams and threads, by credentials and region of
    ``settings``. Nothing is sent before the first call. Every method may raise ``AccessDeniedError``, ``SettingError``
    (no such table, or other keys) and ``StorageUnavailableError``."""

    def __init__(
        self, name: str, settings: S3Settings | None = None, *, endpoint_url: str | None = None, clock: Clock
    ) -> None:
        if not name or name != name.strip():
            raise SettingError("dynamodb_table is empty or has white space around it", hint="name a table")
        if endpoint_url:
            check_endpoint("dynamodb_endpoint_url", endpoint_url, credentials=KEYS)
        self.name = name
        self.clock = clock
        self._settings = settings or S3Settings()
        self._endpoint_url = endpoint_url
        self._patience = self._patience_of(self._settings.patience_seconds)
        self._lock = threading.Lock()
        self._connected: list[Any] = []

    def with_patience(self, seconds: float) -> DynamoTable:
        """This table, by the same client, for requests that wait no longer than that, nor than the settings say."""
        other = copy.copy(self)
        other._patience = self._patience_of(min(seconds, self._settings.patience_seconds))
        return other

    def get(self, key: Item) -> Item | None:
        reply = self.ask(lambda client: client.get_item(TableName=self.name, Key=key, ConsistentRead=True))
        item: Item | None = reply.get("Item")
        return item

    def query(self, table_id: str, condition: str, value: int, *, only_keys: bool = False) -> Iterator[Item]:
        """The items under a hash key whose range key is ``condition`` (as ``>``) ``value``, by rising range key."""
        arguments = self._query(table_id, f"{condition} :first", first=value)
        if only_keys:
            arguments["ProjectionExpression"] = "#hash, #range"
        return chain.from_iterable(self._pages("query", arguments))

    def query_between(self, table_id: str, first: int, last: int) -> Iterator[Item]:
        """The items under a hash key with range keys from ``first`` to ``last``, by rising range key."""
        arguments = self._query(table_id, "BETWEEN :first AND :last", first=first, last=last)
        return chain.from_iterable(self._pages("query", arguments))

    def last_up_to(self, table_id: str, number: int) -> Item | None:
        """The item under a hash key with the highest range key up to ``number``; None where there is none."""
        arguments = self._query(table_id, "<= :first", first=number)
        arguments |= {"ScanIndexForward": False, "Limit": 1}
        items: list[Item] = self.ask(lambda client: client.query(**arguments))["Items"]
        return items[0] if items else None

    def scan(self, part: str) -> list[Item]:
        """The hash keys that hold ``part``, of the first pages of the table alone: it may be large."""
        arguments = {
            "TableName": self.name,
            "ProjectionExpression": "#hash",
            "FilterExpression": "contains(#hash, :part)",
            "ExpressionAttributeNames": {"#hash": HASH},
            "ExpressionAttributeValues": {":part": {"S": part}},
        }
        return list(chain.from_iterable(islice(self._pages("scan", arguments), _PAGES_SCANNED)))

    def _query(self, table_id: str, condition: str, **values: int) -> dict[str, Any]:
        """What asks for the items under a hash key whose range key is ``condition``, which names ``values``."""
        numbers = {f":{name}": {"N": str(value)} for name, value in values.items()}
        return {
            "TableName": self.name,
            "ConsistentRead": True,
            "KeyConditionExpression": f"#hash = :hash AND #range {condition}",
            "ExpressionAttributeNames": {"#hash": HASH, "#range": RANGE},
            "ExpressionAttributeValues": {":hash": {"S": table_id}, **numbers},
        }

    def _pages(self, method: str, arguments: dict[str, Any]) -> Iterator[list[Item]]:
        while True:
            page = self.ask(lambda client: getattr(client, method)(**arguments))
            yield page["Items"]
            if not page.get("LastEvaluatedKey"):
                return
            arguments["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def write(self, *actions: Action, look: Callable[[], bool | None]) -> bool:
        """All of ``actions`` or none; False where a condition does not hold. Raises ``UnknownOutcomeError``.

        ``look`` reads back after a lost reply: True where the effect is seen, False where it can no longer come, None
        where it still may. The token is made of the request itself, so that sending it twice is harmless.
        """
        items = [{kind: {"TableName": self.name, **arguments}} for kind, arguments in actions]
        request = json.dumps(items, sort_keys=True).encode("ascii")
        token = hashlib.sha256(request).hexdigest()[:_TOKEN_LENGTH]

        def send() -> bool:
            self._client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            return True

        return self._settle(Write[bool](send, look, refused=False, conditional=True))

    def delete(self, keys: Sequence[Item]) -> None:
        """Delete items, which may be gone, in their order. Raises ``UnknownOutcomeError``."""
        for start in range(0, len(keys), _BATCH):
            self._send_batch([{"DeleteRequest": {"Key": key}} for key in keys[start : start + _BATCH]])

    def put_all(self, items: Sequence[Item]) -> None:
        """Write items that nobody writes otherwise, several requests at once. Raises ``UnknownOutcomeError``."""
        batches = [
            [{"PutRequest": {"Item": item}} for item in items[start : start + _BATCH]]
            for start in range(0, len(items), _BATCH)
        ]
        side_by_side(self._send_batch, batches, threads=_AT_ONCE, name="items")

    def ask(self, request: Callable[[Any], Result]) -> Result:
        """What ``request`` gets from the client; it may be repeated, also if it took effect."""
        return send_until_answered(
            lambda: request(self._client),
            patience=self._patience,
            errors=DYNAMO_ERRORS,
            translate=self._translate,
            key=self.name,
        )

    def _send_batch(self, requests: list[dict[str, Any]]) -> None:
        left = requests

        def send() -> bool:
            nonlocal left
            reply = self._client.batch_write_item(RequestItems={self.name: left})
            left = reply.get("UnprocessedItems", {}).get(self.name, [])
            if left:
                raise UnprocessedError
            return True

        self._settle(Write[bool](send, lambda: None, refused=False, conditional=False))

    def _settle(self, write: Write[Result]) -> Result:
        return send_until_known(
            write, patience=self._patience, errors=DYNAMO_ERRORS, translate=self._translate, key=self.name
        )

    def _patience_of(self, seconds: float) -> Patience:
        return Patience(seconds, self.clock, place=self._endpoint_url or "Amazon DynamoDB", what="DynamoDB")

    def _translate(self, error: Exception) -> SingerlakeError:
        where = {"endpoint": self._endpoint_url} if self._endpoint_url else {}
        return translate(error, self._settings, dynamodb_table=self.name, **where)

    @property
    def _client(self) -> Any:
        with self._lock:
            if not self._connected:
                self._connected.append(in_session(self._settings, self._connect, self._patience))
            return self._connected[0]

    def _connect(self, session: Any) -> Any:
        region = region_for(self._settings, session, self._endpoint_url)
        client = client_of(session, "dynamodb", region=region, endpoint_url=self._endpoint_url, read_timeout=20)
        client.meta.events.register("after-call.dynamodb", _believe)
        return client


def _arguments(condition: Condition) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "ConditionExpression": condition.text,
        "ExpressionAttributeNames": {"#it": condition.of},
    }
    if condition.value is not None:
        kind = "S" if isinstance(condition.value, str) else "N"
        arguments["ExpressionAttributeValues"] = {":it": {kind: str(condition.value)}}
    return arguments


def _believe(http_response: Any, **_: Any) -> None:
    """Refuse a success that some proxy made up: the answer to a write holds nothing that would be missed."""
    kind = http_response.headers.get("content-type", "")
    if http_response.status_code < 300 and not kind.startswith("application/x-amz-json"):
        raise NotDynamoDBError


def foreign(table: DynamoTable, item: Item, **more: object) -> CorruptObjectError:
    """For an item that does not have what it should."""
    return CorruptObjectError(
        "an item of the DynamoDB table is not one that a Singerlake wrote",
        hint="restore it; nothing was changed",
        dynamodb_table=table.name,
        table_id=item[HASH]["S"],
        **more,
    )


class UnprocessedError(Exception):
    """A batch was answered with a part of it left over, for want of throughput."""


class NotDynamoDBError(Exception):
    """A success that is not in DynamoDB's form, which botocore would take for an empty one."""


def meaning(error: Exception) -> Meaning:
    """What a failed write tells about its effect. Errors that are not botocore's are raised again."""
    from botocore.exceptions import ClientError

    if isinstance(error, UnprocessedError):
        return Meaning.BUSY
    if isinstance(error, NotDynamoDBError):
        return Meaning.UNKNOWN
    if not isinstance(error, ClientError):
        return aws_errors.meaning(error)
    reasons = [reason["Code"] for reason in _reasons(error) if reason.get("Code", "None") != "None"]
    if reasons:
        meanings = {_MEANINGS.get(code, Meaning.FATAL) for code in reasons}
        return next(means for means in _WORST_FIRST if means in meanings)
    code, status = aws_errors.code_of(error), aws_errors.status_of(error)
    if code in _MEANINGS:
        return _MEANINGS[code]
    return Meaning.UNKNOWN if status >= 500 else Meaning.BUSY if status == 429 else Meaning.FATAL


DYNAMO_ERRORS = DriverErrors(meaning, partial(aws_errors.waits_for, judge=meaning))


def translate(error: Exception, settings: S3Settings, **context: object) -> SingerlakeError:
    """This package's error for one of botocore's, without secrets. What is not botocore's is raised as it is."""
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    if isinstance(error, UnprocessedError):
        return StorageUnavailableError("DynamoDB kept asking to slow down", hint="run again later", **context)
    if isinstance(error, NotDynamoDBError):
        return SettingError("the server that answers is not DynamoDB", hint="check dynamodb_endpoint_url", **context)
    if aws_errors.has_no_answer(error):
        return without_answer(error, "DynamoDB", wrong_host=_WRONG_HOST, wrong_port=_WRONG_PORT, **context)
    if isinstance(error, ResponseParserError):
        return translate(NotDynamoDBError(), settings, **context)
    if not isinstance(error, boto.ClientError):
        return aws_errors.translate(error, settings, **context)
    code = aws_errors.code_of(error)
    if any(reason.get("Code") == "ValidationError" for reason in _reasons(error)):
        code = "ValidationException"
    kind, message, hint = _EXPLAINED.get(code, (SettingError, "DynamoDB refused a request", "look at code and reason"))
    if code not in _EXPLAINED and meaning(error) is not Meaning.FATAL:
        kind, message, hint = StorageUnavailableError, "DynamoDB could not answer", "run again later"
    context = {**context, "code": code or f"HTTP {aws_errors.status_of(error)}"}
    if "Signature" not in code:  # its message quotes the signed headers, a session token among them
        reason = _reason(error, settings)
        context |= {"reason": reason} if reason else {}
    return kind(message, hint=hint, **context)


def _reason(error: Any, settings: S3Settings) -> str:
    said = [aws_errors.details(error), *_reasons(error)]
    text = "; ".join(str(each["Message"]) for each in said if each.get("Message"))
    return masked(text, settings.secrets())[:_SHOWN]


def _reasons(error: Any) -> list[dict[str, Any]]:
    """Why a transaction was cancelled: one entry an action, in their order."""
    reasons: list[dict[str, Any]] = error.response.get("CancellationReasons", [])
    return reasons
