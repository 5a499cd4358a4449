"""A cloud in memory: single requests, which a test can have fail before or after their effect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from singerlake.errors import AccessDeniedError, MissingFileError, SingerlakeError, StorageUnavailableError
from singerlake.storage.cloud.driver import Ask, Fetched, Page
from singerlake.storage.keys import ends_early
from singerlake.storage.lost_replies import DriverErrors, Meaning
from singerlake.storage.patience import RetryReason
from singerlake.storage.port import Entry, Part

_PAGE = 100
_DELETED_AT_ONCE = 2
_numbers = count(1)


class AnswerError(Exception):
    """What the cloud answers in the place of a result."""

    def __init__(self, meaning: Meaning, *, retry_after: float = 0.0) -> None:
        super().__init__(meaning.value)
        self.meaning = meaning
        self.retry_after = retry_after


def _own(error: Exception) -> AnswerError:
    if not isinstance(error, AnswerError):
        raise error
    return error


@dataclass
class Fault:
    """The next ``times`` requests of the kind ``request`` get ``error``, ``after`` their effect or in its place."""

    request: str
    error: Exception
    after: bool = False
    times: int = 1


@dataclass
class DriverInMemory:
    """A ``Driver`` over a dict. Where it does not list in order, it lists backwards."""

    lists_in_order: bool = True
    url: str = "memory://bucket/lake"
    is_down: Callable[[], bool] = lambda: False
    """Whether the cloud answers nothing."""
    faults: list[Fault] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.identity = ("memory", f"bucket {next(_numbers)}")
        self.most_deleted = _DELETED_AT_ONCE
        self.errors = DriverErrors(
            meaning=lambda error: _own(error).meaning,
            reason=lambda error: RetryReason.BUSY,
            retry_after=lambda error: _own(error).retry_after,
        )
        self._objects: dict[str, Fetched] = {}
        self._lock = threading.RLock()

    def translate(self, error: Exception, **context: object) -> SingerlakeError:
        if _own(error).meaning is Meaning.FATAL:
            return AccessDeniedError("storage denied access", hint="ask for it", **context)
        return StorageUnavailableError("storage could not answer", hint="run again later", **context)

    def get(self, key: str) -> Fetched | None:
        self._meet("get")
        return self._objects.get(key)

    def get_range(self, key: str, start: int, length: int) -> Fetched | None:
        self._meet("get_range")
        there = self._objects.get(key)
        if there is None:
            return None
        return Fetched(there.body[start : start + length], there.size, there.etag, there.last_modified)

    def head(self, key: str) -> Entry | None:
        self._meet("head")
        return self._entry(key) if key in self._objects else None

    def put(self, key: str, body: bytes, *, if_absent: bool, if_match: str | None) -> str:
        with self._lock:
            self._meet("put")
            there = self._objects.get(key)
            if (if_absent and there is not None) or (if_match is not None and (not there or there.etag != if_match)):
                raise AnswerError(Meaning.REFUSED)
            etag = f"e{next(_numbers)}"
            self._objects[key] = Fetched(body, len(body), etag, datetime.now(UTC))
            self._meet("put", after=True)
            return etag

    def delete(self, key: str, *, if_match: str | None) -> None:
        with self._lock:
            self._meet("delete")
            there = self._objects.get(key)
            if there is not None and if_match is not None and there.etag != if_match:
                raise AnswerError(Meaning.REFUSED)
            self._objects.pop(key, None)
            self._meet("delete", after=True)

    def delete_many(self, keys: Sequence[str]) -> Sequence[str]:
        self._meet("delete_many")
        self._objects.pop(keys[0], None)
        return keys[1:]

    def page(self, prefix: str, *, folders: bool, start_after: str, token: str | None) -> Page:
        self._meet("page")
        names: set[str] = set()
        for key in list(self._objects):
            if key.startswith(prefix):
                folder, slash, _ = key[len(prefix) :].partition("/")
                names.add(f"{prefix}{folder}/" if folders and slash else key)
        ordered = sorted(names, reverse=not self.lists_in_order)
        begin = int(token or 0)
        some = ordered[begin : begin + _PAGE]
        entries = [self._entry(name) for name in some if not (folders and name.endswith("/"))]
        more = str(begin + _PAGE) if begin + _PAGE < len(ordered) else None
        return Page(entries, [name for name in some if folders and name.endswith("/")], more)

    def stream(self, key: str, start: int, ask: Ask) -> None:
        return None

    def upload(self, key: str, path: Path, size: int, ask: Ask, ready: Callable[[], object]) -> bool:
        ready()
        ask(lambda: self.put(key, path.read_bytes()[:size], if_absent=False, if_match=None))
        return False

    def compose(self, key: str, pieces: Sequence[bytes | Part], ask: Ask) -> None:
        whole = b"".join(piece if isinstance(piece, bytes) else self._part(piece, ask) for piece in pieces)
        ask(lambda: self.put(key, whole, if_absent=False, if_match=None))

    def _part(self, part: Part, ask: Ask) -> bytes:
        there = ask(lambda: self.get(part.key), key=part.key)
        if there is None:
            raise MissingFileError("no such object", key=part.key)
        if there.size < part.end:
            raise ends_early(part)
        return there.body[part.start : part.end]

    def _entry(self, key: str) -> Entry:
        there = self._objects[key]
        return Entry(key=key, size=there.size, last_modified=there.last_modified, etag=there.etag)

    def _meet(self, request: str, *, after: bool = False) -> None:
        with self._lock:
            if not after:
                self.asked.append(request)
                if self.is_down():
                    raise AnswerError(Meaning.BUSY)
            for fault in self.faults:
                if fault.request == request and fault.after is after and fault.times:
                    fault.times -= 1
                    raise fault.error
