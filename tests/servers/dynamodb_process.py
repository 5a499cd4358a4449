"""The DynamoDB server behind ``tests.servers.dynamodb``: moto over HTTP, made atomic, and able to misbehave on demand.

Like ``tests.servers.s3_process``, one lock makes every request atomic. What moto leaves out is added: credentials are
checked, keys against the table's, and a transaction's request token makes it idempotent, with a refusal where the
parameters are others. The answers are those of DynamoDB Local.
"""

from __future__ import annotations

import copy
import json
import re
import sys
import threading
from collections import defaultdict
from typing import Any

from moto.dynamodb.models import Table

from tests.servers.operations.process import JSON, OperationApplication
from tests.servers.s3_process import Environ, Reply, hang_up, serve

_ERROR_TYPE = "com.amazonaws.dynamodb.v20120810#"


def _copied(table: Table, memo: dict[int, Any]) -> Table:
    """What moto goes back to if a transaction fails. It would copy each item of the table, which took half of this
    server's time; a Put and a Delete replace items, so copies of the dictionaries are enough without an Update."""
    del memo
    made = copy.copy(table)
    made.items = defaultdict(dict, {key: copy.copy(items) for key, items in table.items.items()})
    return made


Table.__deepcopy__ = _copied


class DynamoApplication(OperationApplication):
    """moto's DynamoDB as one atomic application, with faults in front of and behind it."""

    def __init__(self, access_key_id: str) -> None:
        super().__init__(access_key_id)
        self._token_lock = threading.Lock()
        self._tokens: dict[str, tuple[str, Reply]] = {}
        self._keys: dict[str, dict[str, str]] = {}

    def answer(self, environ: Environ, operation: str, body: bytes) -> Reply:
        if not self.is_known(environ):
            return _error("UnrecognizedClientException", "The security token included in the request is invalid.")
        fault = self.fault_of(operation)
        if fault["kind"] == "drop_request":
            raise hang_up(environ)
        if fault["kind"] == "error" and not fault["after"]:
            return _injected(fault)
        if fault["kind"] == "unprocessed":
            return self._part_of(environ, body, fault["processed"])
        if fault["kind"] == "not_dynamodb":
            return "200 OK", [("Content-Type", "text/html")], b"<html>please sign in</html>"
        misfit = self._misfit(operation, json.loads(body))
        if misfit is not None:
            return misfit
        reply = self._once(environ, body) if operation == "TransactWriteItems" else self._forward(environ, body)
        if fault["kind"] == "drop_reply":
            raise hang_up(environ)
        if fault["kind"] == "error":
            return _injected(fault)
        return reply

    def _misfit(self, operation: str, request: dict[str, Any]) -> Reply | None:
        """The refusal of a request whose keys are not the table's."""
        parts: list[tuple[str, dict[str, Any], bool]] = []
        if operation == "CreateTable":
            types = {each["AttributeName"]: each["AttributeType"] for each in request["AttributeDefinitions"]}
            self._keys[request["TableName"]] = types
        elif operation == "GetItem":
            parts = [(request["TableName"], request["Key"], True)]
        elif operation == "Query":
            names, values = request.get("ExpressionAttributeNames", {}), request["ExpressionAttributeValues"]
            compared = re.findall(r"(#?\w+) (?:=|>|<=) (:\w+)", request["KeyConditionExpression"])
            parts = [(request["TableName"], {names.get(name, name): values[value] for name, value in compared}, False)]
        elif operation == "TransactWriteItems":
            for action in request["TransactItems"]:
                ((kind, arguments),) = action.items()
                assert kind != "Update", "copies of a table share its items"
                parts.append((arguments["TableName"], arguments.get("Item", arguments.get("Key")), kind != "Put"))
        for table, attributes, only_keys in parts:
            keys = self._keys.get(table, {})
            needed = keys.keys() & attributes.keys() if operation == "Query" else keys.keys()
            if not needed <= attributes.keys() or (only_keys and keys and keys.keys() != attributes.keys()):
                return _error("ValidationException", "The provided key element does not match the schema")
            if any(keys[name] not in attributes[name] for name in needed):
                return _mismatch(operation, len(parts))
        return None

    def _once(self, environ: Environ, body: bytes) -> Reply:
        """A transaction that succeeded under a token succeeds again without effect."""
        request = json.loads(body)
        token = request.pop("ClientRequestToken", None)
        parameters = json.dumps(request, sort_keys=True)
        with self._token_lock:
            if token in self._tokens:
                before, reply = self._tokens[token]
                return reply if before == parameters else _error("IdempotentParameterMismatchException", token)
            reply = self._forward(environ, body)
            if token is not None and reply[0].startswith("200"):
                self._tokens[token] = (parameters, reply)
            return reply

    def _part_of(self, environ: Environ, body: bytes, processed: int) -> Reply:
        """Process the first requests of a batch and leave the others over."""
        request = json.loads(body)
        ((table, requests),) = request["RequestItems"].items()
        request["RequestItems"] = {table: requests[:processed]}
        if processed:
            self._forward(environ, json.dumps(request).encode())
        left = {table: requests[processed:]} if requests[processed:] else {}
        return "200 OK", JSON, json.dumps({"UnprocessedItems": left}).encode()


def _mismatch(operation: str, actions: int) -> Reply:
    reason = {"Code": "ValidationError", "Message": "Type mismatch for attribute to update"}
    if operation == "TransactWriteItems":
        return _error("TransactionCanceledException", "cancelled", CancellationReasons=[reason] * actions)
    return _error("ValidationException", "Condition parameter type does not match schema type")


def _injected(fault: dict[str, Any]) -> Reply:
    status, _, code = fault["code"].rpartition(" ")
    reasons = [{"Code": reason, "Message": "injected"} for reason in fault["reasons"]]
    more = {"CancellationReasons": reasons} if reasons else {}
    return _error(code, fault["message"], status=int(status or 400), **more)


def _error(code: str, message: str, status: int = 400, **more: object) -> Reply:
    body = json.dumps({"__type": _ERROR_TYPE + code, "message": message, **more})
    return f"{status} Error", JSON, body.encode()


if __name__ == "__main__":
    serve(DynamoApplication(sys.argv[1]))
