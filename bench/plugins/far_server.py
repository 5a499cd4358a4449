"""An S3 server in memory that is far away: ``python -m bench.plugins.far_server SECONDS RATE [drop]`` prints its port.

Each request takes ``SECONDS`` until it is answered, each connection ``RATE`` bytes a second each way. It knows what
capture and replay ask for, conditions among it, and believes every signature. ETags are those of S3: the MD5 of an
object, and for one in parts that of their ETags; only a part's own is any, since its MD5 would take time here.

A server that is really far away takes no time of this machine's processor. This one takes a tenth of a second to keep
150 MB, and with ``drop`` a third of that: parts of uploads are received and not kept, so that what has any can be
listed and not read. It uses the memory of large objects that were removed again: the first time, the kernel takes
several times as long to give it."""

from __future__ import annotations

import hashlib
import io
import mmap
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

_PIECE = 1 << 20
"""Bytes that are received or sent at a time. For each the kernel wakes a thread, which costs more than to copy them."""
_SHORTEST = 0.001
"""Seconds: no sleep is exact, so that shorter ones are made up for together."""
_ROOM = 1 << 20
"""Bytes: large bodies take memory in multiples of this."""
_WITHOUT_COPYING = socket.MSG_TRUNC if sys.platform == "linux" else 0


class Memory:
    """Room for large bodies, which is used again when nobody has the body any more."""

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}
        self._changing = threading.Lock()

    def take(self, size: int) -> Body:
        """Room for a body of ``size`` bytes."""
        if size < _ROOM:
            return Body(bytearray(size), size)
        length = -(-size // _ROOM) * _ROOM
        with self._changing:
            free = self._free.get(length)
            room = free.pop() if free else _large(length)
        body = Body(room, size)
        weakref.finalize(body, self._free_again, room)
        return body

    def _free_again(self, room: mmap.mmap) -> None:
        # Without the lock, which the thread that drops a body may hold. Both calls are single steps of the interpreter.
        self._free.setdefault(len(room), []).append(room)


def _large(length: int) -> mmap.mmap:
    room = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        room.madvise(mmap.MADV_HUGEPAGE)
    return room


@dataclass(frozen=True)
class Body:
    """The first ``size`` bytes of ``room``; None has none of them."""

    room: bytearray | mmap.mmap | None
    size: int

    @property
    def view(self) -> memoryview:
        """The bytes."""
        assert self.room is not None, "this server drops the parts of uploads"
        return memoryview(self.room)[: self.size]


@dataclass(frozen=True)
class Object:
    """One object as it was written. Its parts stay apart: joining them would take processor time from what is
    measured."""

    parts: Sequence[Body]
    etag: str
    modified: float

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(part.size for part in self.parts)

    def pieces(self, start: int, end: int) -> Iterator[memoryview]:
        """Its bytes from ``start`` to before ``end``."""
        for part in self.parts:
            view = part.view
            for at in range(max(start, 0), min(end, part.size), _PIECE):
                yield view[at : min(at + _PIECE, end)]
            start, end = start - part.size, end - part.size


@dataclass
class Buckets:
    """All objects by ``/bucket/key``, and the parts of uploads under way."""

    objects: dict[str, Object] = field(default_factory=dict)
    uploads: dict[str, dict[int, tuple[Body, str]]] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, path: str, written: Object, absent: bool = False, match: str | None = None) -> bool:
        """Write an object; False where a condition does not hold."""
        with self.lock:
            there = self.objects.get(path)
            if (absent and there is not None) or (match is not None and (there is None or there.etag != match)):
                return False
            self.objects[path] = written
            return True

    def listing(self, bucket: str, query: dict[str, str]) -> str:
        """A page of ``ListObjectsV2``: all keys of a prefix, those below a delimiter as common prefixes."""
        start, prefix, delimiter = f"/{bucket}/", query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("start-after", "")
        with self.lock:
            keys = sorted(key[len(start) :] for key in self.objects if key.startswith(start + prefix))
            rows = {key: self.objects[start + key] for key in keys if key > after}
        folders: dict[str, None] = {}
        shown = []
        for key, row in rows.items():
            below = key[len(prefix) :]
            if delimiter and delimiter in below:
                folders[prefix + below.partition(delimiter)[0] + delimiter] = None
                continue
            at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(row.modified))
            shown.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{at}</LastModified><ETag>{escape(row.etag)}</ETag>"
                f"<Size>{row.size}</Size></Contents>"
            )
        shown += [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders]
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(shown)}</ListBucketResult>"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    buckets = Buckets()
    seconds = 0.0
    rate = 1e12
    drops = False

    def handle_expect_100(self) -> bool:
        """The client waits for this before it sends a body."""
        time.sleep(self.seconds)
        return super().handle_expect_100()

    def do_GET(self) -> None:
        """An object, a range of one, or a listing."""
        path, query = self._asked()
        if "list-type" in query:
            return self._answer(200, self.buckets.listing(path.strip("/"), query).encode())
        return self._object(path, body=True)

    def do_HEAD(self) -> None:
        """An object's size and ETag; every bucket is there."""
        path, _ = self._asked()
        if path.count("/") == 1:
            return self._answer(200)
        return self._object(path, body=False)

    def do_PUT(self) -> None:
        """An object, or a part of an upload."""
        path, query = self._asked()
        if "uploadId" in query:
            part = (self._dropped() if self.drops else self._body(), uuid.uuid4().hex)
            self.buckets.uploads[query["uploadId"]][int(query["partNumber"])] = part
            return self._answer(200, etag=f'"{part[1]}"')
        digest = hashlib.md5()
        body = self._body(digest.update)
        written = Object([body], f'"{digest.hexdigest()}"', time.time())
        if not self.buckets.put(path, written, self.headers["If-None-Match"] == "*", self.headers["If-Match"]):
            return self._refuse(412, "PreconditionFailed")
        return self._answer(200, etag=written.etag)

    def do_POST(self) -> None:
        """The beginning or the end of an upload in parts, or the names of what is to be removed."""
        path, query = self._asked()
        body = self._body()
        if "delete" in query:
            for key in re.findall(r"<Key>(.*?)</Key>", bytes(body.view).decode()):
                self.buckets.objects.pop(f"{path.rstrip('/')}/{unescape(key)}", None)
            return self._answer(200, b"<DeleteResult></DeleteResult>")
        if "uploadId" not in query:
            upload = uuid.uuid4().hex
            self.buckets.uploads[upload] = {}
            answer = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return self._answer(200, answer.encode())
        parts = [part for _, part in sorted(self.buckets.uploads.pop(query["uploadId"]).items())]
        digest = hashlib.md5(b"".join(bytes.fromhex(etag) for _, etag in parts))
        written = Object([part for part, _ in parts], f'"{digest.hexdigest()}-{len(parts)}"', time.time())
        self.buckets.put(path, written)
        answer = f"<CompleteMultipartUploadResult><ETag>{escape(written.etag)}</ETag></CompleteMultipartUploadResult>"
        return self._answer(200, answer.encode())

    def do_DELETE(self) -> None:
        """Remove an object, if it is the one that is meant, or the parts of an upload."""
        path, query = self._asked()
        if "uploadId" in query:
            self.buckets.uploads.pop(query["uploadId"], None)
            return self._answer(204)
        with self.buckets.lock:
            there, match = self.buckets.objects.get(path), self.headers["If-Match"]
            if there is None or match in (None, there.etag):
                self.buckets.objects.pop(path, None)
                match = None
        return self._answer(204) if match is None else self._refuse(412, "PreconditionFailed")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""

    def _asked(self) -> tuple[str, dict[str, str]]:
        if "Expect" not in self.headers:
            time.sleep(self.seconds)
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        return unquote(parts.path), {name: values[0] for name, values in query.items()}

    def _body(self, look: Callable[[memoryview], object] = len) -> Body:
        """What the client sends; ``look`` gets each piece of it."""
        body = self.buckets.memory.take(int(self.headers["Content-Length"] or 0))
        view = body.view
        for start, end in self._received(body.size, lambda start, end: view[start:end]):
            look(view[start:end])
        return body

    def _dropped(self) -> Body:
        """What the client sends, without its bytes."""
        scratch = memoryview(bytearray(_PIECE))
        body = Body(None, int(self.headers["Content-Length"] or 0))
        # Linux takes them off the connection without copying them (tcp(7)). Elsewhere they are copied.
        for _ in self._received(body.size, lambda start, end: scratch[: end - start], _WITHOUT_COPYING):
            pass
        return body

    def _received(self, size: int, room: Callable[[int, int], memoryview], flags: int = 0) -> Iterator[tuple[int, int]]:
        """Receive a body to where ``room`` says for each piece of it, a start and an end; gives those that came."""
        # What came with the headers is in the reader's buffer. The rest is received without it.
        assert isinstance(self.rfile, io.BufferedReader)
        start = self.rfile.readinto(room(0, min(size, len(self.rfile.peek())))) if size else 0
        yield 0, start
        free = time.monotonic()
        while start < size:
            into = room(start, min(start + _PIECE, size))
            received = self.connection.recv_into(into, 0, socket.MSG_WAITALL | flags)
            if not received:
                raise ConnectionResetError
            yield start, start + received
            start += received
            free = self._paced(free, received)
        if "Expect" in self.headers:
            time.sleep(self.seconds)

    def _object(self, path: str, *, body: bool) -> None:
        there = self.buckets.objects.get(path)
        if there is None:
            return self._refuse(404, "NoSuchKey", body=body)
        start, end, asked = 0, there.size, re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "")
        if asked:
            start, end = int(asked[1]), min(int(asked[2]) + 1, end) if asked[2] else end
            if start >= end:
                return self._refuse(416, "InvalidRange", body=body)
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{there.size}")
        self.send_header("Content-Length", str(end - start))
        self.send_header("ETag", there.etag)
        self.send_header("Last-Modified", formatdate(there.modified, usegmt=True))
        self.end_headers()
        free = time.monotonic()
        for piece in there.pieces(start, end) if body else ():
            self.wfile.write(piece)
            free = self._paced(free, len(piece))
        return None

    def _refuse(self, status: int, code: str, *, body: bool = True) -> None:
        answer = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        self._answer(status, answer if body else b"")

    def _answer(self, status: int, body: bytes = b"", *, etag: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if etag:
            self.send_header("ETag", etag)
        self.end_headers()
        self.wfile.write(body)

    def _paced(self, free: float, size: int) -> float:
        # What the server does between two pieces is no pause of the connection: its buffers hold one meanwhile.
        free = max(free, time.monotonic() - _PIECE / self.rate) + size / self.rate
        if (wait := free - time.monotonic()) > _SHORTEST:
            time.sleep(wait)
        return free


class Server(ThreadingHTTPServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 64


@contextmanager
def far_server(seconds: float, rate: float, *, drops: bool = False) -> Iterator[str]:
    """A server in a process of its own, with empty buckets of all names; its URL. Where it ``drops`` the parts of
    uploads, nothing that has any can be read."""
    argv = [sys.executable, "-m", "bench.plugins.far_server", str(seconds), str(rate), *["drop"] * drops]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}


def main() -> None:
    """Serve until the process is ended."""
    Handler.seconds, Handler.rate, Handler.drops = float(sys.argv[1]), float(sys.argv[2]), "drop" in sys.argv[3:]
    with Server(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
