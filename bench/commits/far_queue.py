"""A FIFO queue in memory that is far away and speaks SQS's protocol: ``python -m bench.commits.far_queue SECONDS``
prints its port.

Each request takes ``SECONDS`` until it is answered. It knows what writers and committers ask for, and believes every
signature. It takes a tenth of the processor time of a server made for tests, whose share of two cores is more than that
of what is measured beside it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Group:
    """Messages in their order, and the receipts of those that were given out."""

    waiting: deque[tuple[str, str]] = field(default_factory=deque)
    given: set[str] = field(default_factory=set)


class Fifo:
    """One queue. Nothing that was given out comes again: nobody dies here."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._groups: dict[str, Group] = {}
        self._of: dict[str, Group] = {}

    def send(self, body: str, group: str) -> str:
        """Put a message behind those of its group; its id."""
        id = uuid.uuid4().hex
        with self._changed:
            there = self._groups.setdefault(group, Group())
            there.waiting.append((id, body))
            if not there.given:
                self._changed.notify()
        return id

    def receive(self, most: int, wait: float) -> list[tuple[str, str]]:
        """The first messages of a group of which none is given out."""
        ends = time.monotonic() + wait
        with self._changed:
            while True:
                for group in self._groups.values():
                    if group.waiting and not group.given:
                        found = [group.waiting.popleft() for _ in range(min(most, len(group.waiting)))]
                        group.given.update(id for id, _ in found)
                        self._of.update((id, group) for id, _ in found)
                        return found
                left = ends - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return []

    def delete(self, ids: list[str]) -> None:
        """End of what was given out."""
        with self._changed:
            for id in ids:
                group = self._of.pop(id, None)
                if group is not None:
                    group.given.discard(id)
                    if group.waiting and not group.given:
                        self._changed.notify()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    fifo = Fifo()
    seconds = 0.0

    def do_POST(self) -> None:
        """Any operation."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.seconds)
        operation = self.headers["X-Amz-Target"].partition(".")[2]
        does = {"SendMessage": self._send, "ReceiveMessage": self._receive, "DeleteMessageBatch": self._delete}
        answer = json.dumps(does[operation](asked)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""

    def _send(self, asked: dict[str, Any]) -> dict[str, Any]:
        body = asked["MessageBody"]
        id = self.fifo.send(body, asked["MessageGroupId"])
        return {"MessageId": id, "MD5OfMessageBody": hashlib.md5(body.encode()).hexdigest()}

    def _receive(self, asked: dict[str, Any]) -> dict[str, Any]:
        found = self.fifo.receive(asked["MaxNumberOfMessages"], asked.get("WaitTimeSeconds", 0))
        messages = [
            {"MessageId": id, "ReceiptHandle": id, "Body": body, "MD5OfBody": hashlib.md5(body.encode()).hexdigest()}
            for id, body in found
        ]
        return {"Messages": messages} if messages else {}

    def _delete(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.fifo.delete([each["ReceiptHandle"] for each in asked["Entries"]])
        return {"Successful": [{"Id": each["Id"]} for each in asked["Entries"]], "Failed": []}


class Server(ThreadingHTTPServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients are killed when all is measured."""


@contextmanager
def far_queue(seconds: float) -> Iterator[str]:
    """A server in a process of its own; the URL of its queue."""
    argv = [sys.executable, "-m", "bench.commits.far_queue", str(seconds)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/1/bench.fifo"
        finally:
            process.terminate()


def main() -> None:
    """Serve until the process is ended."""
    Handler.seconds = float(sys.argv[1])
    with Server(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
