"""The JSON API of Google Cloud Storage over objects in memory: paths, uploads, ranges, batches.

As https://cloud.google.com/storage/docs/json_api/v1 and Google's own client libraries have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qsl, unquote

from tests.servers.gcs.objects import Object, Objects, Refusal

QUANTUM = 256 << 10
_MOST_IN_BATCH = 100


@dataclass
class Call:
    """A request. ``operation`` is what it does, ``name`` the object that it is about."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes
    host: str = ""
    operation: str = "other"
    bucket: str = ""
    name: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    content: bytes = b""


@dataclass
class Reply:
    """An answer."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class _Session:
    bucket: str
    about: dict[str, Any]
    query: dict[str, str]
    data: bytearray = field(default_factory=bytearray)
    made: Object | None = None


class Api:
    """Buckets and what may be asked of them. Its caller makes each call atomic."""

    def __init__(self) -> None:
        self.objects = Objects()
        self._sessions: dict[str, _Session] = {}

    def understand(self, call: Call) -> None:
        """Fill in what a request does, and to which object."""
        segments = call.path.strip("/").split("/")
        kind, rest = (segments[0], segments[1:]) if segments[0] in ("upload", "download", "batch") else ("", segments)
        if kind == "batch":
            call.operation = "batch"
            return
        if rest[:3] != ["storage", "v1", "b"]:
            return
        names = [unquote(each) for each in rest[3:]]
        call.bucket = names[0] if names else ""
        if len(names) < 2:
            call.operation = "bucket"
        elif kind == "upload":
            self._understand_upload(call)
        elif len(names) == 2:
            call.operation = "list"
        else:
            call.name = names[2]
            if names[3:] == ["compose"]:
                call.operation = "compose"
            elif call.method == "DELETE":
                call.operation = "delete"
            elif call.method == "GET":
                call.operation = "media" if call.query.get("alt") == "media" else "look"

    def answer(self, call: Call, *, part_of_block: bool = False) -> Reply:
        """Do what a request asks. With ``part_of_block`` a block is stored in part only."""
        if call.operation == "batch":
            return self._batch(call)
        if call.operation == "bucket":
            return self._bucket(call)
        if call.operation == "media":
            return self._media(call)
        if call.operation == "begin":
            return self._begin(call)
        if call.operation == "block":
            return self._block(call, part_of_block)
        if call.operation == "delete":
            self.objects.delete(call.bucket, call.name, call.query)
            return Reply(204)
        if call.operation == "list":
            return _shown(self.objects.listed(call.bucket, call.query), call.query)
        if call.operation == "look":
            found = self.objects.get(call.bucket, call.name, call.query.get("generation"))
        elif call.operation == "insert":
            found = self.objects.write(call.bucket, call.about, call.content, call.query)
        elif call.operation == "compose":
            found = self.objects.compose(call.bucket, call.name, json.loads(call.body), call.query)
        else:
            raise Refusal(404, "notFound", "Not Found")
        return _shown(found.resource(), call.query)

    def _understand_upload(self, call: Call) -> None:
        if "upload_id" in call.query:
            call.operation = "block"
            session = self._sessions.get(call.query["upload_id"])
            call.name = session.about["name"] if session else ""
            return
        way = call.query.get("uploadType")
        if way == "resumable":
            call.operation, call.about = "begin", json.loads(call.body or b"{}")
        elif way == "multipart":
            call.operation = "insert"
            call.about, call.content = _parts(call.headers.get("content-type", ""), call.body)
        elif way == "media":
            call.operation, call.content = "insert", call.body
        call.name = call.about.get("name") or call.query.get("name", "")

    def _bucket(self, call: Call) -> Reply:
        if call.method == "POST":
            asked = json.loads(call.body)
            self.objects.create_bucket(asked["name"], asked.get("keeps", ""))
            return _shown({"kind": "storage#bucket", "name": asked["name"]}, {})
        return _shown({"kind": "storage#bucket", "name": self.objects.bucket(call.bucket).name}, {})

    def _media(self, call: Call) -> Reply:
        found = self.objects.get(call.bucket, call.name, call.query.get("generation"))
        ranged = re.fullmatch(r"bytes=(\d+)-(\d*)", call.headers.get("range", ""))
        if ranged is None:
            return Reply(200, found.data, found.headers())
        start, size = int(ranged[1]), len(found.data)
        if start >= size:
            raise Refusal(416, "requestedRangeNotSatisfiable", "Request range not satisfiable")
        end = min(int(ranged[2] or size), size - 1)
        headers = {**found.headers(), "Content-Range": f"bytes {start}-{end}/{size}"}
        return Reply(206, found.data[start : end + 1], headers)

    def _begin(self, call: Call) -> Reply:
        self.objects.check(call.bucket, call.name, call.query)
        upload_id = f"secret-{len(self._sessions)}"
        self._sessions[upload_id] = _Session(call.bucket, call.about, call.query)
        location = f"http://{call.host}{call.path}?uploadType=resumable&upload_id={upload_id}"
        return Reply(200, b"", {"Location": location})

    def _block(self, call: Call, in_part: bool) -> Reply:
        session = self._sessions.get(call.query["upload_id"])
        if session is None:
            raise Refusal(404, "notFound", "Upload not found")
        if session.made is None:
            told = re.fullmatch(r"bytes (?:\*|(\d+)-(\d+))/(\d+)", call.headers.get("content-range", ""))
            if told is None:
                raise Refusal(400, "invalid", "Invalid Content-Range")
            if told[1] is not None:
                self._store(session, int(told[1]), call.body, int(told[3]), in_part)
            if len(session.data) < int(told[3]):
                stored = {"Range": f"bytes=0-{len(session.data) - 1}"} if session.data else {}
                return Reply(308, b"", stored)
            session.made = self.objects.write(session.bucket, session.about, bytes(session.data), session.query)
        return _shown(session.made.resource(), session.query)

    def _store(self, session: _Session, start: int, block: bytes, total: int, in_part: bool) -> None:
        if start > len(session.data):
            raise Refusal(400, "invalid", "Invalid request. A gap would be left.")
        if in_part:
            block = block[: len(block) // 2]
        if start + len(block) < total:
            # What is no multiple of 256 KiB is not kept before the end.
            block = block[: len(block) // QUANTUM * QUANTUM]
        session.data[start:] = block

    def _batch(self, call: Call) -> Reply:
        head = f"Content-Type: {call.headers['content-type']}\r\n\r\n".encode()
        parts: Any = BytesParser().parsebytes(head + call.body).get_payload()
        if len(parts) > _MOST_IN_BATCH:
            raise Refusal(400, "invalid", "The batch request has too many parts")
        answers = []
        for part in parts:
            line = part.get_payload().split("\n", 1)[0].split(" ")
            path, _, query = re.sub(r"^https?://[^/]+", "", line[1]).partition("?")
            inner = Call(line[0], path, dict(parse_qsl(query)), {}, b"")
            self.understand(inner)
            try:
                reply = self.answer(inner)
            except Refusal as refusal:
                reply = Reply(refusal.status, refusal.body())
            text = f"HTTP/1.1 {reply.status} Answer\r\nContent-Length: {len(reply.body)}\r\n\r\n"
            answers.append(b"--batch_x\r\nContent-Type: application/http\r\n\r\n" + text.encode() + reply.body)
        body = b"\r\n".join([*answers, b"--batch_x--\r\n"])
        return Reply(200, body, {"Content-Type": "multipart/mixed; boundary=batch_x"})


def _parts(content_type: str, body: bytes) -> tuple[dict[str, Any], bytes]:
    """The metadata and the content of an upload in one request."""
    boundary = re.search(r"boundary=\"?([^\";]+)", content_type)
    if boundary is None:
        raise Refusal(400, "invalid", "Missing boundary")
    mark = b"--" + boundary[1].encode()
    pieces = body.split(mark)
    if len(pieces) != 4:
        raise Refusal(400, "invalid", "Malformed multipart body.")
    first, second = pieces[1:3]
    metadata = json.loads(first.partition(b"\r\n\r\n")[2])
    return metadata, second.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")


def _shown(resource: dict[str, Any], query: Mapping[str, str]) -> Reply:
    """A resource with the members alone that the request asks for."""
    if "fields" in query:
        resource = _only(resource, query["fields"])
    return Reply(200, json.dumps(resource).encode(), {"Content-Type": "application/json; charset=UTF-8"})


def _only(resource: dict[str, Any], fields: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, inner in re.findall(r"(\w+)(?:\(([^)]*)\))?", fields):
        if name in resource:
            value = resource[name]
            kept[name] = [_only(each, inner) for each in value] if inner else value
    return kept
