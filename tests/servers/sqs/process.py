"""The SQS server behind ``tests.servers.sqs.server``: moto over HTTP, made atomic, and able to misbehave on demand.

A poll that waits is made of short ones, since one lock makes every request atomic. What moto leaves out is added:
credentials are checked.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable
from typing import Any

from tests.servers.s3_process import Application, Environ, Reply, StartResponse, hang_up, read_body, serve

_JSON = [("Content-Type", "application/x-amz-json-1.0")]
_LOOK_EVERY = 0.02


class SqsApplication(Application):
    """moto's SQS as one atomic application, with faults in front of and behind it."""

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        body = read_body(environ)
        if environ["PATH_INFO"] == "/_control":
            status, headers, reply = self._control(environ["REQUEST_METHOD"], body)
        else:
            status, headers, reply = self._sqs(environ, body)
        start_response(status, headers)
        return [reply]

    def _sqs(self, environ: Environ, body: bytes) -> Reply:
        operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")[2]
        self._note(environ, body.decode("latin-1"))
        key_id = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        if key_id is None or key_id[1] != self._access_key_id:
            return _error("InvalidClientTokenId", 403)
        fault = self._fault_of(operation) or {"kind": ""}
        if fault["kind"] == "drop_request":
            raise hang_up(environ)
        if fault["kind"] == "error":
            return _error(fault["code"], fault["status"])
        if fault["kind"] == "fail_all":
            ids = [each["Id"] for each in json.loads(body)["Entries"]]
            failed = [{"Id": id, "Code": "InternalError", "SenderFault": False} for id in ids]
            return "200 OK", _JSON, json.dumps({"Successful": [], "Failed": failed}).encode()
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

    def _fault_of(self, operation: str) -> dict[str, Any] | None:
        with self._lock:
            for fault in self._faults:
                if fault["times"] != 0 and operation in fault["operations"]:
                    fault["times"] -= 1
                    return fault
        return None


def _error(code: str, status: int) -> Reply:
    body = json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": "injected"})
    return f"{status} Error", _JSON, body.encode()


if __name__ == "__main__":
    serve(SqsApplication(sys.argv[1]))
