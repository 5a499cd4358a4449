"""Buckets and objects as Google Cloud Storage has them: generations, conditions, joins, and what keeps objects."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import google_crc32c

MOST_JOINED = 32
PAGE = 100
"""Entries of one answer to a listing, however many it asks for; Google gives ten times as many."""


class Refusal(Exception):
    """An error as the JSON API words it."""

    def __init__(self, status: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        one = {"message": self.message, "domain": "global", "reason": self.reason}
        return json.dumps({"error": {"code": self.status, "message": self.message, "errors": [one]}}).encode()


@dataclass(frozen=True)
class Object:
    """One generation of an object."""

    bucket: str
    name: str
    data: bytes
    generation: int
    created: datetime
    about: Mapping[str, Any]
    components: int = 1

    @property
    def crc32c(self) -> str:
        return base64.b64encode(google_crc32c.value(self.data).to_bytes(4, "big")).decode()

    def resource(self) -> dict[str, Any]:
        stamp = self.created.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        return {
            "kind": "storage#object",
            "name": self.name,
            "bucket": self.bucket,
            "generation": str(self.generation),
            "metageneration": "1",
            "contentType": self.about.get("contentType", "application/octet-stream"),
            "storageClass": self.about.get("storageClass", "STANDARD"),
            "size": str(len(self.data)),
            "crc32c": self.crc32c,
            "timeCreated": stamp,
            "updated": stamp,
            **({"kmsKeyName": self.about["kmsKeyName"]} if self.about.get("kmsKeyName") else {}),
            **({"componentCount": self.components} if self.components > 1 else {}),
        }

    def headers(self) -> dict[str, str]:
        return {
            "Content-Type": self.about.get("contentType", "application/octet-stream"),
            "Last-Modified": format_datetime(self.created.replace(microsecond=0), usegmt=True),
            "X-Goog-Generation": str(self.generation),
            "X-Goog-Metageneration": "1",
            "X-Goog-Hash": f"crc32c={self.crc32c}",
            "X-Goog-Stored-Content-Length": str(len(self.data)),
            "X-Goog-Stored-Content-Encoding": "identity",
        }


@dataclass
class Bucket:
    """Live objects by name. ``keeps`` nothing, or has a retention policy, or holds objects whose names contain
    ``kept``."""

    name: str
    keeps: str = ""
    kept: str = ""
    objects: dict[str, Object] = field(default_factory=dict)


class Objects:
    """All buckets of a server; its caller makes each call atomic."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._last = 0

    def create_bucket(self, name: str, keeps: str) -> None:
        self._buckets[name] = Bucket(name, keeps)

    def keep(self, name: str, keeps: str, kept: str) -> None:
        self.bucket(name).keeps, self.bucket(name).kept = keeps, kept

    def bucket(self, name: str) -> Bucket:
        if name not in self._buckets:
            raise Refusal(404, "notFound", "The specified bucket does not exist.")
        return self._buckets[name]

    def get(self, bucket: str, name: str, generation: str | None = None) -> Object:
        found = self.bucket(bucket).objects.get(name)
        if found is None or generation not in (None, str(found.generation)):
            raise Refusal(404, "notFound", f"No such object: {bucket}/{name}")
        return found

    def check(self, bucket: str, name: str, query: Mapping[str, str]) -> None:
        """Refuse a write whose condition does not hold, then one that would replace what is kept."""
        found = self.bucket(bucket).objects.get(name)
        wanted = query.get("ifGenerationMatch")
        if wanted is not None and int(wanted) != (found.generation if found else 0):
            raise Refusal(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
        if found is not None:
            self._check_kept(bucket, name)

    def write(self, bucket: str, about: Mapping[str, Any], data: bytes, query: Mapping[str, str]) -> Object:
        name = about.get("name") or query.get("name") or ""
        if not name or len(name.encode()) > 1024 or "\n" in name or "\r" in name:
            raise Refusal(400, "invalid", "Invalid object name")
        self.check(bucket, name, query)
        made = self._made(bucket, name, data, about, query)
        if about.get("crc32c") not in (None, made.crc32c):
            raise Refusal(400, "invalid", f"Provided CRC32C does not match calculated CRC32C {made.crc32c}.")
        self.bucket(bucket).objects[name] = made
        return made

    def delete(self, bucket: str, name: str, query: Mapping[str, str]) -> None:
        self.get(bucket, name)
        self.check(bucket, name, query)
        del self.bucket(bucket).objects[name]

    def compose(self, bucket: str, name: str, asked: Mapping[str, Any], query: Mapping[str, str]) -> Object:
        named = asked.get("sourceObjects", [])
        if not 1 <= len(named) <= MOST_JOINED:
            raise Refusal(400, "invalid", "The number of source components provided is not between 1 and 32.")
        self.bucket(bucket)
        sources = [self._source(bucket, each) for each in named]
        if len({each.about.get("storageClass", "STANDARD") for each in sources}) > 1:
            raise Refusal(400, "invalid", "Source objects must have the same storage class.")
        self.check(bucket, name, query)
        if asked.get("deleteSourceObjects"):
            for each in sources:
                self._check_kept(bucket, each.name)
        about = {**asked.get("destination", {}), "storageClass": sources[0].about.get("storageClass", "STANDARD")}
        components = sum(each.components for each in sources)
        made = self._made(bucket, name, b"".join(each.data for each in sources), about, query, components)
        self.bucket(bucket).objects[name] = made
        if asked.get("deleteSourceObjects"):
            for each in sources:
                self.bucket(bucket).objects.pop(each.name, None)
        return made

    def listed(self, bucket: str, query: Mapping[str, str]) -> dict[str, Any]:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        start = max(query.get("startOffset", ""), query.get("pageToken", ""), key=str.encode)
        items: list[dict[str, Any]] = []
        prefixes: list[str] = []
        for name in self._names(bucket, prefix, start):
            end = name.find(delimiter, len(prefix)) if delimiter else -1
            folder = name[: end + len(delimiter)] if end >= 0 else None
            if folder is not None and prefixes[-1:] == [folder]:
                continue
            if len(items) + len(prefixes) == min(int(query.get("maxResults", PAGE)), PAGE):
                return {"items": items, "prefixes": prefixes, "nextPageToken": name}
            if folder is not None:
                # The next page begins behind the folder.
                prefixes.append(folder)
            else:
                items.append(self.get(bucket, name).resource())
        return {
            "kind": "storage#objects",
            **({"items": items} if items else {}),
            **({"prefixes": prefixes} if prefixes else {}),
        }

    def _names(self, bucket: str, prefix: str, start: str) -> Sequence[str]:
        names = self.bucket(bucket).objects
        return sorted(
            (name for name in names if name.startswith(prefix) and name.encode() >= start.encode()), key=str.encode
        )

    def _source(self, bucket: str, named: Mapping[str, Any]) -> Object:
        generation = named.get("generation")
        found = self.bucket(bucket).objects.get(named["name"])
        if found is None or generation not in (None, str(found.generation)):
            raise Refusal(404, "notFound", f"Object {named['name']} (generation: {generation or 0}) not found.")
        return found

    def _check_kept(self, bucket: str, name: str) -> None:
        found = self.bucket(bucket)
        keeps = found.keeps if found.kept in name else ""
        if keeps == "retention":
            message = f"Object '{bucket}/{name}' is subject to bucket's retention policy and cannot be deleted"
            raise Refusal(403, "retentionPolicyNotMet", message)
        if keeps == "hold":
            message = f"Object '{bucket}/{name}' is under active Temporary hold and cannot be deleted"
            raise Refusal(403, "forbidden", message)

    def _made(
        self,
        bucket: str,
        name: str,
        data: bytes,
        about: Mapping[str, Any],
        query: Mapping[str, str],
        components: int = 1,
    ) -> Object:
        now = datetime.now(UTC)
        self._last = max(self._last + 1, int(now.timestamp() * 1_000_000))
        kept = {key: value for key, value in about.items() if key not in ("name", "crc32c")}
        if "kmsKeyName" in query:
            kept["kmsKeyName"] = query["kmsKeyName"]
        return Object(bucket, name, data, self._last, now, kept, components)
