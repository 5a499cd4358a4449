"""DynamoDB in memory, at the level of boto3's client: one table, conditions, transactions with their tokens, queries by
the page, and the answers that go wrong. The product's own code does all the rest, its retries included."""

# ruff: noqa: N803
# The names are boto3's.
from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError

from tests.simulation.world.faults import Fate
from tests.simulation.world.storage import PAGE
from tests.simulation.world.world import World
from tests.storage.memory import Step

Item = Mapping[str, Mapping[str, str]]
Place = tuple[str, int]
Changed = Callable[[Place, Item | None, Item | None], None]

_TOKENS_LIVE = 600.0
_COMPARED = re.compile(r"(#\w+) (<|>|<=|>=|=|<>) (:\w+)\Z")
_BETWEEN = re.compile(r"(#\w+) BETWEEN (:\w+) AND (:\w+)")
_ABSENT = re.compile(r"attribute_not_exists\((#\w+)\)\Z")
_OPERATORS = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}


class SimulatedDynamo:
    """What ``boto3.client("dynamodb")`` is to the product. ``changed`` is told of each effect."""

    def __init__(self, world: World, changed: Changed) -> None:
        self._world = world
        self._changed = changed
        self._items: dict[Place, Item] = {}
        self._tokens: dict[str, float] = {}

    def peek(self, place: Place) -> Item | None:
        """An item as it is, seen by nobody who takes part."""
        return self._items.get(place)

    def items(self) -> list[tuple[Place, Item]]:
        """All items, likewise."""
        return list(self._items.items())

    def get_item(self, *, TableName: str, Key: Item, ConsistentRead: bool) -> dict[str, Any]:
        del TableName
        assert ConsistentRead, "what an eventually consistent read shows is not simulated"

        def effect() -> dict[str, Any]:
            found = self._items.get(_place(Key))
            return {} if found is None else {"Item": found}

        return self._read(f"get_item {_place(Key)}", effect)

    def query(
        self,
        *,
        TableName: str,
        ConsistentRead: bool,
        KeyConditionExpression: str,
        ExpressionAttributeNames: dict[str, str],
        ExpressionAttributeValues: dict[str, dict[str, str]],
        ProjectionExpression: str | None = None,
        ExclusiveStartKey: Item | None = None,
        ScanIndexForward: bool = True,
        Limit: int = PAGE,
    ) -> dict[str, Any]:
        del TableName, ProjectionExpression
        assert ConsistentRead
        parts = _BETWEEN.sub(r"\1 >= \2 AND \1 <= \3", KeyConditionExpression).split(" AND ")
        after = _place(ExclusiveStartKey)[1] if ExclusiveStartKey else None

        def effect() -> dict[str, Any]:
            found = sorted(
                place
                for place, item in self._items.items()
                if all(_holds(part, item, ExpressionAttributeNames, ExpressionAttributeValues) for part in parts)
                and (after is None or place[1] > after)
            )
            found = found if ScanIndexForward else found[::-1]
            page = [self._items[place] for place in found[:Limit]]
            last = {name: page[-1][name] for name in ("table_id", "number")} if len(found) > Limit else None
            return {"Items": page, "LastEvaluatedKey": last}

        return self._read(f"query {KeyConditionExpression} {ExpressionAttributeValues}", effect)

    def transact_write_items(self, *, TransactItems: list[dict[str, Any]], ClientRequestToken: str) -> dict[str, Any]:
        what = "transact " + ", ".join(
            f"{kind} {_place(action.get('Item') or action['Key'])}"
            for each in TransactItems
            for kind, action in each.items()
        )

        def effect() -> dict[str, Any]:
            now = self._world.scheduler.now
            if now - self._tokens.get(ClientRequestToken, -_TOKENS_LIVE) < _TOKENS_LIVE:
                return {}
            reasons = [self._reason(each) for each in TransactItems]
            if any(reasons):
                raise _error(
                    "TransactionCanceledException", CancellationReasons=[{"Code": code or "None"} for code in reasons]
                )
            self._tokens[ClientRequestToken] = now
            for each in TransactItems:
                for kind, action in each.items():
                    if kind == "Put":
                        self._put(action["Item"])
            return {}

        return self._write(what, effect)

    def batch_write_item(self, *, RequestItems: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
        ((table, requests),) = RequestItems.items()
        done = len(requests) if self._world.faults.ceased else len(requests) - self._world.choices.below(2)

        def effect() -> dict[str, Any]:
            for request in requests[:done]:
                if "PutRequest" in request:
                    self._put(request["PutRequest"]["Item"])
                    continue
                place = _place(request["DeleteRequest"]["Key"])
                before = self._items.pop(place, None)
                if before is not None:
                    self._changed(place, before, None)
            return {"UnprocessedItems": {table: requests[done:]} if requests[done:] else {}}

        return self._write(f"batch_write_item {done} of {len(requests)}", effect)

    def _put(self, item: Item) -> None:
        place = _place(item)
        before = self._items.get(place)
        self._items[place] = item
        self._changed(place, before, item)

    def _reason(self, each: dict[str, Any]) -> str:
        ((_, action),) = each.items()
        present = self._items.get(_place(action.get("Item") or action["Key"]), {})
        names, values = action["ExpressionAttributeNames"], action.get("ExpressionAttributeValues", {})
        holds = any(_holds(part, present, names, values) for part in action["ConditionExpression"].split(" OR "))
        return "" if holds else "ConditionalCheckFailed"

    def _read(self, what: str, effect: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        self._world.step(Step("read", what, False))
        if self._world.fate("read", what) is not Fate.GOES_WELL:
            raise _error("ProvisionedThroughputExceededException")
        answer = effect()
        self._world.step(Step("read", what, True))
        return answer

    def _write(self, what: str, effect: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        fate = self._world.fate("write", what)
        self._world.step(Step("write", what, False))
        if fate is Fate.UNAVAILABLE:
            raise self._world.choices.one_of(_BUSY)()
        if fate in (Fate.LATE, Fate.NEVER):
            if fate is Fate.LATE:
                self._world.later(what, _answered(effect))
            raise ReadTimeoutError(endpoint_url="simulated")
        answer = effect()
        self._world.note(f"{what}: {answer}")
        self._world.step(Step("write", what, True))
        if fate is Fate.TWICE:
            self._world.later(f"{what} again", _answered(effect))
        if fate is Fate.DUPLICATED:
            answer = effect()
        if fate is Fate.REPLY_LOST:
            raise ReadTimeoutError(endpoint_url="simulated")
        if fate is Fate.REFUSED:
            # A second try under the same token while the first is at work.
            raise _error("TransactionInProgressException")
        return answer


def _place(key: Item) -> Place:
    return key["table_id"]["S"], int(key["number"]["N"])


def _holds(part: str, item: Item, names: Mapping[str, str], values: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether one comparison holds of an item; what is not there compares to nothing."""
    if found := _ABSENT.match(part):
        return names[found[1]] not in item
    found = _COMPARED.match(part)
    assert found is not None, part
    attribute, (wanted,) = item.get(names[found[1]]), values[found[3]].items()
    if attribute is None:
        return False
    ((kind, value),) = attribute.items()
    assert kind == wanted[0]
    same = (int(value), int(wanted[1])) if kind == "N" else (value, wanted[1])
    return bool(_OPERATORS[found[2]](*same))


def _answered(effect: Callable[[], dict[str, Any]]) -> Callable[[], object]:
    """A late effect whose refusal nobody hears."""

    def happen() -> object:
        try:
            return effect()
        except ClientError as error:
            return error

    return happen


def _error(code: str, **more: object) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "simulated"}, **more}, "simulated")


_BUSY: tuple[Callable[[], Exception], ...] = (
    lambda: _error("ThrottlingException"),
    lambda: ConnectTimeoutError(endpoint_url="simulated"),
    lambda: _error("TransactionCanceledException", CancellationReasons=[{"Code": "TransactionConflict"}]),
)
