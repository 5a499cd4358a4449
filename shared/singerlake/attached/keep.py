"""The objects of attached files: the same bytes once, under their checksum, whichever records have them."""

from __future__ import annotations

import binascii
import hashlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import unquote_to_bytes

from singerlake.attached.media_types import UNKNOWN, media_type_in, media_type_of_name
from singerlake.attached.sources.locations import CORRECT
from singerlake.attached.sources.source import Deadline, OpenedFile, Opener, changed
from singerlake.clock import Backoff, Clock
from singerlake.errors import CorruptObjectError, StorageUnavailableError, UnreadableSourceError
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.singer_file import spool_error
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Storage, Written

_ATTEMPTS = 5
_REMEMBERED = 1 << 16
_SECONDS = 900.0
"""How long an object counts as there: less than any collector waits before it deletes what nobody lists."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a file: the copy of the object, and whether it was written now."""

    copy: int
    new: bool


@dataclass
class Keeper:
    """Writes the objects of attached files, and knows those that it wrote lately. Safe to share between threads."""

    storage: Storage
    clock: Clock
    remembered: int = _REMEMBERED
    _known: dict[tuple[str, str], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, tap: str, stream: str, fetched: Fetched, state: Callable[[], Manifest]) -> Kept:
        """See that the lake has the bytes. ``state`` is what the writer knows by now. Raises as ``put_attached``."""
        copy = free_copy(state(), fetched.sha256)
        path = layout.attached_path(fetched.sha256, copy)
        if self._is_known(stream, path):
            return Kept(copy, new=False)
        new = put_attached(self.storage, layout.stream_prefix(tap, stream) + path, fetched.body, fetched.size)
        self._remember(stream, path)
        return Kept(copy, new)

    def _is_known(self, stream: str, path: str) -> bool:
        with self._lock:
            since = self._known.get((stream, path))
        return since is not None and self.clock.monotonic() - since < _SECONDS

    def _remember(self, stream: str, path: str) -> None:
        with self._lock:
            while len(self._known) >= self.remembered:
                del self._known[next(iter(self._known))]
            self._known.pop((stream, path), None)
            self._known[stream, path] = self.clock.monotonic()


def free_copy(manifest: Manifest, sha256: str) -> int:
    """The copy under which a writer that knows the state ``manifest`` keeps the bytes with this checksum: the least one
    that is not being collected, so that no collector deletes what is in use again."""
    retired = manifest.retired_by_id
    return next(copy for copy in count(1) if layout.attached_name(sha256, copy) not in retired)


def put_attached(storage: Storage, key: str, body: bytes | Path, size: int) -> bool:
    """See to it that the object at ``key``, whose name is the checksum of ``body``, is there with its ``size`` bytes;
    whether it was written now. A file at a path may be taken away. Raises ``CorruptObjectError`` for an object of
    another size, ``StorageUnavailableError`` where others keep deleting it, and what storage raises."""
    for _ in range(_ATTEMPTS):
        new = True
        if isinstance(body, bytes):
            outcome = put_on_condition(storage, key, body, etag=None, just_read=True)
            if isinstance(outcome, Written) and outcome.etag == hashlib.md5(body, usedforsecurity=False).hexdigest():
                return True
            new = isinstance(outcome, Written)
        elif storage.head(key) is None:
            storage.upload(key, body)
            return True
        else:
            new = False
        there = storage.head(key)
        # A collector may have deleted it since.
        if there is not None:
            if there.size != size:
                raise CorruptObjectError(
                    f"has {there.size} bytes, the file with this name has {size}",
                    hint="move it away, run again, then run 'singerlake verify'",
                    key=key,
                )
            return new
    message = "an attached file is deleted each time that it is stored"
    raise StorageUnavailableError(message, hint="run again when 'singerlake gc' is done", key=key)


IN_MEMORY = 1 << 20
"""Bytes of a file that is kept in memory until it is in the lake."""
TRIES = 3
"""How often a file is read anew because reading it broke off."""
_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that was read. ``body`` is its bytes, or a file of the spool that has them."""

    sha256: str
    size: int
    media_type: str
    body: bytes | Path

    def drop(self) -> None:
        """Remove what it has in the spool; it may be gone."""
        if isinstance(self.body, Path):
            with suppress(OSError):
                self.body.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Reads files of at most ``most`` bytes, those of more than ``in_memory`` to paths that ``spool`` gives."""

    sources: Opener
    spool: Callable[[], Path]
    most: int
    clock: Clock
    in_memory: int = IN_MEMORY

    def fetch(self, location: str, deadline: Deadline) -> Fetched:
        """The file that ``location`` names. Raises ``UnreadableSourceError``, ``CancelledError`` as ``deadline`` does,
        and ``StorageFullError``, ``AccessDeniedError`` or ``StorageUnavailableError`` where the spool takes no more."""
        backoff = Backoff(self.clock, first=0.2, longest=5.0, growth=3.0)
        for left in reversed(range(TRIES)):
            try:
                source = self.sources.open(location, deadline)
                with closing(source.stream):
                    return read_whole(source, deadline, self.spool, in_memory=self.in_memory, most=self.most)
            except UnreadableSourceError as error:
                if not left or not error.passing:
                    raise
                deadline.wait(backoff.next())
        raise AssertionError("the last try returns or raises")


def read_whole(
    source: OpenedFile, deadline: Deadline, spool: Callable[[], Path], *, in_memory: int, most: int = sys.maxsize
) -> Fetched:
    """The bytes of an opened file; more than ``in_memory`` go to a ``spool`` path. Raises as ``Fetcher.fetch``."""
    if source.size is not None and source.size > most:
        raise too_large(most)
    read = _Reading(source, most, deadline)
    held, size = list[bytes](), 0
    while size <= in_memory and (data := read.next()):
        held.append(data)
        size += len(data)
    if size <= in_memory:
        return read.ended(b"".join(held))
    path = spool()
    try:
        with _spooled(path) as write:
            for data in held:
                write(data)
            held.clear()
            while data := read.next():
                write(data)
        return read.ended(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


class _Reading:
    """The bytes of a source, counted and summed up as they pass."""

    def __init__(self, source: OpenedFile, most: int, deadline: Deadline) -> None:
        self._source = source
        self._most = most
        self._deadline = deadline
        self._sha256 = hashlib.sha256()
        self._size = 0

    def next(self) -> bytes:
        self._deadline.left()
        data = self._source.stream.read(_AT_ONCE)
        self._size += len(data)
        if self._size > self._most:
            raise too_large(self._most)
        if self._source.size is not None and self._size > self._source.size:
            # It may grow for ever.
            raise changed()
        self._sha256.update(data)
        return data

    def ended(self, body: bytes | Path) -> Fetched:
        source = self._source
        if source.size not in (None, self._size):
            raise changed()
        media_type = source.media_type or media_type_of_name(source.name)
        return Fetched(self._sha256.hexdigest(), self._size, media_type, body)


@contextmanager
def _spooled(path: Path) -> Iterator[Callable[[bytes], int]]:
    """Makes a file and gives what appends to it. Raises as ``spool_error`` says, whatever raises ``OSError``."""
    file = None
    try:
        file = path.open("xb")
        yield file.write
        file.close()
    except OSError as error:
        raise spool_error(error, path) from error
    finally:
        if file is not None:
            with suppress(OSError):
                file.close()


def inline(held: InlineBytes) -> Fetched:
    """The file that a record holds itself."""
    return Fetched(hashlib.sha256(held.body).hexdigest(), len(held.body), held.media_type, held.body)


_DATA_URL = re.compile(r"\s*data:([^,]*),", re.IGNORECASE)
_BASE64 = re.compile(r";\s*base64\s*\Z", re.IGNORECASE)
_WHITE_SPACE = b" \t\r\n\f\v"
_STANDARD = bytes.maketrans(b"-_", b"+/")
_PIECE = 1 << 16
"""Bytes of a text whose percent escapes are taken away at once, which takes eighty times as much memory."""


@dataclass(frozen=True, slots=True)
class InlineBytes:
    """A file that a record holds."""

    body: bytes
    media_type: str


def decode_base64(text: str, most: int) -> InlineBytes:
    """The bytes that ``text`` stands for: base64 (RFC 4648) in either alphabet, with or without ``=`` at its end and
    white space, or a ``data:`` URL of it. Raises ``UnreadableSourceError``, also where it is more than ``most`` bytes.
    """
    found = _DATA_URL.match(text)
    media_type = UNKNOWN
    if found is not None:
        if not _BASE64.search(found[1]):
            raise UnreadableSourceError("the data: URL is not base64", hint=CORRECT)
        media_type = media_type_in(found[1]) or UNKNOWN
        text = text[found.end() :]
    try:
        encoded = text.encode("ascii")
        if b"%" in encoded:
            encoded = b"".join(map(unquote_to_bytes, _pieces(encoded)))
        padded = encoded.translate(_STANDARD, _WHITE_SPACE)
        encoded = padded.rstrip(b"=")
        if len(padded) - len(encoded) > -len(encoded) % 4:
            raise ValueError("padding of nothing")
        if len(encoded) * 3 // 4 > most:
            raise too_large(most)
        body = binascii.a2b_base64(encoded + b"=" * (-len(encoded) % 4), strict_mode=True)
    except ValueError:
        raise UnreadableSourceError(
            "the text is not base64",
            hint=f"if it says where the file lies, set location for this property; else {CORRECT}",
        ) from None
    return InlineBytes(body, media_type)


def _pieces(encoded: bytes) -> Iterator[bytes]:
    """All of it, no escape in two of them."""
    begin = 0
    while begin < len(encoded):
        end = begin + _PIECE
        escape = encoded.rfind(b"%", end - 2, end)
        end = end if escape < 0 else escape
        yield encoded[begin:end]
        begin = end


def too_large(most: int) -> UnreadableSourceError:
    return UnreadableSourceError(
        f"it has more than {most:,} bytes", hint="raise max_attached_bytes, or set on_missing_file to record"
    )
