"""moto over HTTP as one atomic application, for services whose requests name an operation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tests.servers.s3_process import Application, Environ, Reply, StartResponse, read_body

JSON = [("Content-Type", "application/x-amz-json-1.0")]


class OperationApplication(Application):
    """With faults in front of and behind it."""

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        body = read_body(environ)
        if environ["PATH_INFO"] == "/_control":
            status, headers, reply = self._control(environ["REQUEST_METHOD"], body)
        else:
            self._note(environ, body.decode("latin-1"))
            operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")[2]
            status, headers, reply = self.answer(environ, operation, body)
        start_response(status, headers)
        return [reply]

    def answer(self, environ: Environ, operation: str, body: bytes) -> Reply:
        """The service's answer to a request of ``operation``."""
        raise NotImplementedError

    def is_known(self, environ: Environ) -> bool:
        """Whether a request has the credentials of this server, which moto does not look at."""
        key_id = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        return key_id is not None and key_id[1] == self._access_key_id

    def fault_of(self, operation: str) -> dict[str, Any]:
        """The next fault of an operation; one of no kind where there is none."""
        with self._lock:
            for fault in self._faults:
                if fault["times"] != 0 and operation in fault["operations"]:
                    fault["times"] -= 1
                    return fault
        return {"kind": ""}
