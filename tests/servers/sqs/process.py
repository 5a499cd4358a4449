"""The SQS server behind ``tests.servers.sqs.server``: moto over HTTP, made atomic, and able to misbehave on demand.

A poll that waits is made of short ones, since one lock makes every request atomic. What moto leaves out is added:
credentials are checked.
"""

from __future__ import annotations

import json
import sys
import time

from tests.servers.operations.process import JSON, OperationApplication
from tests.servers.s3_process import Environ, Reply, hang_up, serve

_LOOK_EVERY = 0.02


class SqsApplication(OperationApplication):
    """moto's SQS as one atomic application, with faults in front of and behind it."""

    def answer(self, environ: Environ, operation: str, body: bytes) -> Reply:
        if not self.is_known(environ):
            return _error("InvalidClientTokenId", 403)
        fault = self.fault_of(operation)
        if fault["kind"] == "drop_request":
            raise hang_up(environ)
        if fault["kind"] == "error":
            return _error(fault["code"], fault["status"])
        if fault["kind"] == "fail_all":
            ids = [each["Id"] for each in json.loads(body)["Entries"]]
            failed = [{"Id": id, "Code": "InternalError", "SenderFault": False} for id in ids]
            return "200 OK", JSON, json.dumps({"Successful": [], "Failed": failed}).encode()
        reply = self._received(environ, body) if operation == "ReceiveMessage" else self._forward(environ, body)
        if fault["kind"] == "drop_reply":
            raise hang_up(environ)
        return reply

    def _received(self, environ: Environ, body: bytes) -> Reply:
        request = json.loads(body)
        ends = time.monotonic() + request.pop("WaitTimeSeconds", 0)
        request["WaitTimeSeconds"] = 0
        while True:
            reply = self._forward(dict(environ), json.dumps(request).encode())
            if not reply[0].startswith("200") or json.loads(reply[2]).get("Messages") or time.monotonic() >= ends:
                return reply
            time.sleep(_LOOK_EVERY)


def _error(code: str, status: int) -> Reply:
    body = json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": "injected"})
    return f"{status} Error", JSON, body.encode()


if __name__ == "__main__":
    serve(SqsApplication(sys.argv[1]))
