"""Objects in the memory of one process, which fault between any two effects where a test says so."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from singerlake.clock import Clock, IdSource
from singerlake.errors import ConditionNotSupportedError, CorruptObjectError, MissingFileError
from singerlake.storage.keys import check_conditions, check_key, check_prefix, ends_early
from singerlake.storage.port import Beginning, Capabilities, Entry, Folder, Part, Refused, Stored, Written


@dataclass(frozen=True, slots=True)
class Step:
    """One side of one operation: ``done`` is False before its effect and True after it, before the caller knows.

    ``operation`` is the name of the port's method; ``key`` its key or prefix.
    """

    operation: str
    key: str
    done: bool


Hook = Callable[[Step], None]
"""Called on the caller's thread without any lock held. What it raises, the caller of the operation gets: before the
effect nothing has changed, after it the reply is lost."""


def _no_hook(step: Step) -> None:
    del step


class MemoryStorage:
    """A ``Storage`` that is linearizable and safe to share between threads; ``last_modified`` is the clock's.

    ``ignore_conditions`` imitates a store that answers success to every condition, ``ignore_delete_conditions`` one
    that does so for DELETE alone, ``refuse_conditions`` one that answers 501 to every condition. ``capabilities`` tells
    the truth about them.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        ids: IdSource,
        ignore_conditions: bool = False,
        ignore_delete_conditions: bool = False,
        refuse_conditions: bool = False,
        hook: Hook = _no_hook,
    ) -> None:
        self.hook = hook
        self._clock = clock
        self._ids = ids
        self._takes_conditions = not refuse_conditions
        self._conditional_put = not (ignore_conditions or refuse_conditions)
        self._conditional_delete = self._conditional_put and not ignore_delete_conditions
        self._url = f"memory://{ids()}"
        self._lock = threading.Lock()
        self._objects: dict[str, Stored] = {}

    @property
    def url(self) -> str:
        return self._url

    @property
    def near(self) -> bool:
        return True

    def capabilities(self) -> Capabilities:
        return Capabilities(
            conditional_put=self._conditional_put,
            conditional_delete=self._conditional_delete,
            takes_conditions=self._takes_conditions,
        )

    def get(self, key: str) -> Stored | None:
        check_key(key)
        self.hook(Step("get", key, False))
        with self._lock:
            stored = self._objects.get(key)
        self.hook(Step("get", key, True))
        return stored

    def head(self, key: str) -> Entry | None:
        check_key(key)
        self.hook(Step("head", key, False))
        with self._lock:
            stored = self._objects.get(key)
        self.hook(Step("head", key, True))
        return _entry(key, stored) if stored else None

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        check_key(key)
        check_conditions(if_absent, if_match)
        self._check_taken(key, if_absent or if_match is not None)
        self.hook(Step("put", key, False))
        with self._lock:
            present = self._objects.get(key)
            holds = not (
                (if_absent and present is not None)
                or (if_match is not None and (present is None or present.etag != if_match))
            )
            outcome: Written | Refused = Refused()
            if holds or not self._conditional_put:
                outcome = Written(self._store(key, body).etag)
        self.hook(Step("put", key, True))
        return outcome

    def upload(self, key: str, path: Path, ready: Callable[[], object] = lambda: None) -> int:
        check_key(key)
        ready()
        self.hook(Step("upload", key, False))
        body = path.read_bytes()
        with self._lock:
            stored = self._store(key, body)
        self.hook(Step("upload", key, True))
        return len(stored.body)

    def compose(self, key: str, pieces: Sequence[bytes | Part]) -> Entry:
        check_key(key)
        self.hook(Step("compose", key, False))
        body = b"".join(piece if isinstance(piece, bytes) else self._part(piece) for piece in pieces)
        with self._lock:
            stored = self._store(key, body)
        self.hook(Step("compose", key, True))
        return _entry(key, stored)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        check_key(key)
        self.hook(Step("read_range", key, False))
        body = self._existing(key)[start : start + length]
        self.hook(Step("read_range", key, True))
        return body

    def beginning(self, key: str, length: int) -> Beginning:
        check_key(key)
        self.hook(Step("beginning", key, False))
        body = self._existing(key)
        self.hook(Step("beginning", key, True))
        return Beginning(body[:length], len(body))

    def bodies(self, keys: Sequence[str], most: int) -> Sequence[bytes | None]:
        return [self._body(key, most) for key in keys]

    def _body(self, key: str, most: int) -> bytes | None:
        with suppress(MissingFileError, CorruptObjectError), self.open(key) as stream:
            body = stream.read()
            return body if len(body) <= most else None
        return None

    def open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        check_key(key)
        self.hook(Step("open", key, False))
        stream = io.BytesIO(self._existing(key)[start:end])
        self.hook(Step("open", key, True))
        return stream

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        check_prefix(prefix)
        self.hook(Step("list", prefix, False))
        with self._lock:
            found = [
                _entry(key, stored)
                for key, stored in self._objects.items()
                if key.startswith(prefix) and key.encode() > start_after.encode()
            ]
        self.hook(Step("list", prefix, True))
        return iter(sorted(found, key=lambda entry: entry.key.encode()))

    def list_folder(self, prefix: str) -> Folder:
        check_prefix(prefix)
        self.hook(Step("list_folder", prefix, False))
        entries: dict[str, Entry] = {}
        folders: set[str] = set()
        with self._lock:
            for key, stored in self._objects.items():
                if key.startswith(prefix):
                    name, slash, _ = key[len(prefix) :].partition("/")
                    if slash:
                        folders.add(name + slash)
                    else:
                        entries[key] = _entry(key, stored)
        self.hook(Step("list_folder", prefix, True))
        return Folder(
            entries=tuple(entries[key] for key in sorted(entries, key=str.encode)),
            folders=tuple(sorted(folders, key=str.encode)),
        )

    def unfinished(self, prefix: str) -> Iterator[tuple[str, BinaryIO]]:
        return iter(())

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        check_key(key)
        self._check_taken(key, if_match is not None)
        self.hook(Step("delete", key, False))
        with self._lock:
            present = self._objects.get(key)
            gone = if_match is None or not self._conditional_delete or present is None or present.etag == if_match
            if gone:
                self._objects.pop(key, None)
        self.hook(Step("delete", key, True))
        return gone

    def delete_all(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)

    def _check_taken(self, key: str, conditional: bool) -> None:
        if conditional and not self._takes_conditions:
            raise ConditionNotSupportedError("storage does not know this request", key=key)

    def _store(self, key: str, body: bytes) -> Stored:
        stored = Stored(body=bytes(body), etag=self._ids(), last_modified=self._clock.now())
        self._objects[key] = stored
        return stored

    def _part(self, part: Part) -> bytes:
        data = self._existing(part.key)[part.start : part.end]
        if len(data) != part.size:
            raise ends_early(part)
        return data

    def _existing(self, key: str) -> bytes:
        with self._lock:
            stored = self._objects.get(key)
        if stored is None:
            raise MissingFileError("no such object", key=key)
        return stored.body


def _entry(key: str, stored: Stored) -> Entry:
    return Entry(key=key, size=len(stored.body), last_modified=stored.last_modified, etag=stored.etag)
