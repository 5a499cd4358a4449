"""Objects of Google Cloud Storage: files that are sent whole, and objects made of others.

What is long goes up in one resumable upload (https://cloud.google.com/storage/docs/resumable-uploads): a break costs
one block. Parts that are sent side by side and then joined are objects meanwhile, which a retention policy keeps and
soft delete bills for days.

Storage joins whole objects of one storage class, at most 32 at once
(https://cloud.google.com/storage/docs/composite-objects). What is given, and a part of an object, becomes a temporary
one first, below ``_singerlake_parts/``. Those that go into one joined object alone are removed by the request that
joins them, which soft delete and early deletion fees leave out; the others afterwards. What is short, or has no whole
object in it, is fetched and sent without any, as on servers that do not join, and in a bucket that keeps temporary
objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from typing import Any, TypeVar
from urllib.parse import urlsplit

from singerlake.clock import IdSource
from singerlake.errors import ConfigurationError, MissingFileError, StorageUnavailableError
from singerlake.interpreter.threads import in_order, threads_ahead
from singerlake.storage.cloud.compose import SENT, NotCopiedError, Sources, Together, arranged
from singerlake.storage.cloud.driver import Ask
from singerlake.storage.drivers.gcs.bucket import KIND, MADE, MOST_IN_BATCH, Bucket, Seen, crc32c
from singerlake.storage.drivers.gcs.client import Body, not_gcs, parsed
from singerlake.storage.drivers.gcs.errors import is_no_bucket, meaning
from singerlake.storage.keys import ends_early
from singerlake.storage.lost_replies import Meaning
from singerlake.storage.port import Part

Result = TypeVar("Result")

PARTS_PREFIX = "_singerlake_parts/"
JOINED = 32
"""Objects that one request joins."""
LEAST = 1 << 20
"""Bytes from which a whole object is worth a join: fetching less takes no longer."""
_FETCHES = 8
_AHEAD = 3
"""Blocks that are fetched while another one is sent."""
LONG = 64 << 20
"""Bytes from which an object is sent in blocks."""
BLOCK = 64 << 20
"""Bytes; a multiple of 256 KiB, as every block but the last has to be."""
_INCOMPLETE = 308


class Asked:
    """An ``Ask`` that knows whether a request was sent more than once, so that what is there may be one's own."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.repeated = False

    def __call__(self, request: Callable[[], Result], /, *, key: str | None = None) -> Result:
        tries = 0

        def once() -> Result:
            nonlocal tries
            tries += 1
            self.repeated = self.repeated or tries > 1
            return request()

        return self._ask(once, key=key)


Make = Callable[[str | None, Asked], dict[str, Any] | None]
"""Makes an object under a condition on its generation, until that is known; None where it did not hold."""


def refused_as_none(request: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """What a request gives; None where its condition does not hold."""
    from google.api_core.exceptions import PreconditionFailed

    try:
        return request()
    except PreconditionFailed as error:
        if meaning(error) is not Meaning.REFUSED:
            raise
        return None


def place(bucket: Bucket, name: str, size: int, checksum: str | None, make: Make, ask: Ask) -> None:
    """Have ``make`` make an object at a name that nobody else writes.

    It is made where there is none: to replace what a lost try made would need the permission to delete. What is there
    already is one's own where it is the same; ``StorageUnavailableError`` is raised where it is another one.
    """
    asked = Asked(ask)
    made = make("0", asked)
    if made is None:
        seen = ask(lambda: bucket.look(name))
        if seen is not None and seen.size == size and (seen.crc32c == checksum if checksum else asked.repeated):
            return
        made = make(None, asked)
    stored, told = made or {}, (made or {}).get("crc32c")
    if int(stored.get("size", size)) != size or (checksum is not None and told not in (None, checksum)):
        raise StorageUnavailableError("storage has other bytes than were sent", hint="run again", sent=size)


def send_whole(bucket: Bucket, name: str, body: bytes | memoryview, checksum: str | None, ask: Ask) -> None:

    def make(generation: str | None, ask: Asked) -> dict[str, Any] | None:
        return ask(lambda: refused_as_none(lambda: bucket.put(name, body, generation=generation)))

    place(bucket, name, len(body), checksum, make, ask)


def send_blocks(
    bucket: Bucket,
    name: str,
    size: int,
    checksum: str | None,
    blocks: Callable[[], Iterable[bytes | memoryview]],
    ask: Ask,
) -> None:

    def make(generation: str | None, ask: Asked) -> dict[str, Any] | None:
        upload = _Upload(bucket, name, size, checksum, generation, ask)
        for block in blocks():
            if upload.refused or upload.made is not None:
                break
            upload.send(block)
        if upload.made is None and not upload.refused:
            raise StorageUnavailableError("storage has not all of an upload", hint="run again", sent=size)
        return upload.made

    place(bucket, name, size, checksum, make, ask)


class _Upload:
    """One resumable upload, which is begun with the first block. Its URL is a secret: whoever has it may write."""

    def __init__(
        self, bucket: Bucket, name: str, size: int, checksum: str | None, generation: str | None, ask: Asked
    ) -> None:
        self._bucket = bucket
        # Storage compares the checksum with what it has in the end.
        self._about = {"name": name, "contentType": KIND, **({"crc32c": checksum} if checksum else {})}
        self._size = size
        self._generation = generation
        self._ask = ask
        self._session: str | None = None
        self._stored = 0
        self._is_clear = True
        self.made: dict[str, Any] | None = None
        self.refused = False

    def send(self, block: bytes | memoryview) -> None:
        """Add a block. Afterwards the object may be ``made``, or ``refused`` since its condition does not hold."""
        start = self._stored
        if self._session is None:
            self._session = self._ask(self._begin)
        while not (self.refused or self.made is not None) and self._stored < start + len(block):
            self._ask(lambda: self._step(start, block))
            if self._stored < start:
                raise StorageUnavailableError("storage lost a part of an upload", hint="run again")

    def _begin(self) -> str:
        query = {"uploadType": "resumable", "fields": MADE, **self._bucket.written(self._generation)}
        headers = {
            "Content-Type": "application/json; charset=UTF-8",
            "X-Upload-Content-Type": KIND,
            "X-Upload-Content-Length": str(self._size),
        }
        path = f"/upload/storage/v1{self._bucket.objects}"
        reply = refused_as_none(
            lambda: {"at": self._bucket.client.send("POST", path, query, json.dumps(self._about).encode(), headers)}
        )
        if reply is None:
            self.refused = True
            return ""
        parts = urlsplit(reply["at"].headers.get("Location", ""))
        if not parts.query:
            raise not_gcs()
        return f"{parts.path}?{parts.query}"

    def _step(self, start: int, block: bytes | memoryview) -> None:
        """Send the rest of a block that begins at ``start``. After a failed try, storage says first how far it is."""
        if self._is_clear:
            self._is_clear = False
            at = self._stored
            rest = memoryview(block)[at - start :]
            self._exchange(f"bytes {at}-{at + len(rest) - 1}/{self._size}", Body(rest))
        else:
            self._exchange(f"bytes */{self._size}", b"")
        self._is_clear = True

    def _exchange(self, told: str, body: bytes | Body) -> None:
        from google.api_core.exceptions import GoogleAPICallError

        path, _, query = (self._session or "").partition("?")
        try:
            reply = self._bucket.client.send("PUT", path, query, body, {"Content-Range": told}, also=_INCOMPLETE)
        except GoogleAPICallError as error:
            if error.code == 412:
                self.refused = True
                return
            if error.code in (404, 410):
                raise StorageUnavailableError("storage ended an upload", hint="run again") from error
            raise
        if reply.status_code == _INCOMPLETE:
            found = re.fullmatch(r"bytes=0-(\d+)", reply.headers.get("Range", ""))
            self._stored = int(found[1]) + 1 if found else 0
        else:
            self._stored = self._size
            self.made = parsed(reply)


@dataclass(frozen=True, slots=True)
class _Source:
    """An object that is joined, pinned to what was looked at; ``key`` is None for a temporary one."""

    name: str
    generation: str
    size: int
    key: str | None = None


@dataclass(frozen=True)
class Composer:
    """Composes objects in one bucket; ``prefix`` is the lake's within it."""

    bucket: Bucket
    prefix: str
    name_of: Callable[[str], str]
    ids: IdSource
    sources: Sources

    @property
    def ask(self) -> Ask:
        """What sends a request until it is answered."""
        return self.sources.ask

    def compose(self, key: str, pieces: Sequence[bytes | Part]) -> None:
        """Make the object at ``key``. Raises ``MissingFileError`` where a part is not there."""
        wanted = [piece for piece in pieces if _size(piece)]
        size = sum(map(_size, wanted))
        with ThreadPoolExecutor(_FETCHES, thread_name_prefix="singerlake-fetch") as pool:
            if size <= SENT:
                body = self.sources.fetched(wanted, pool)
                send_whole(self.bucket, self.name_of(key), body, crc32c(body), self.ask)
                return
            seen = self._seen(wanted, pool)
            whole = [
                seen[piece.key] for piece in wanted if isinstance(piece, Part) and _is_whole(piece, seen[piece.key])
            ]
            if (
                max((each.size for each in whole), default=0) >= LEAST
                and len({each.storage_class for each in whole}) == 1
            ):
                with suppress(NotCopiedError):
                    _Join(self, key, size, whole[0].storage_class, pool).make(wanted, seen)
                    return
            self._send(key, wanted, size, pool)

    def _send(self, key: str, wanted: Sequence[bytes | Part], size: int, pool: ThreadPoolExecutor) -> None:
        def blocks() -> Iterator[bytes]:
            parts = arranged(wanted, least=1, longest=SENT, copy=False)
            together = (part for part in parts if not isinstance(part, Part))
            # A pool of their own: each of them waits for what the other pool fetches.
            with threads_ahead(_AHEAD, "singerlake-blocks") as ahead:
                yield from in_order(ahead, partial(self.sources.fetched, pool=pool), together, most=_AHEAD + 1)

        send_blocks(self.bucket, self.name_of(key), size, None, blocks, self.ask)

    def _seen(self, wanted: Sequence[bytes | Part], pool: ThreadPoolExecutor) -> dict[str, Seen]:
        """What all objects are that parts are taken from."""
        parts = {piece.key: piece for piece in wanted if isinstance(piece, Part)}
        found = dict(zip(parts, pool.map(self._look, parts), strict=True))
        for piece in wanted:
            if isinstance(piece, Part) and piece.end > found[piece.key].size:
                raise ends_early(piece)
        return found

    def _look(self, key: str) -> Seen:
        seen = self.ask(lambda: self.bucket.look(self.name_of(key)), key=key)
        if seen is None:
            raise _missing(key)
        return seen


class _Join:
    """One object that is joined, and the temporary ones that it takes."""

    def __init__(self, composer: Composer, key: str, size: int, storage_class: str, pool: ThreadPoolExecutor) -> None:
        self._composer = composer
        self._bucket = composer.bucket
        self._ask = composer.ask
        self._name = composer.name_of(key)
        self._size = size
        self._storage_class = storage_class
        self._pool = pool
        self._base = f"{composer.prefix}{PARTS_PREFIX}{composer.ids()}/"
        self._numbers = count()
        self._left: set[str] = set()
        """Temporary objects that may be there."""

    def make(self, wanted: Sequence[bytes | Part], seen: dict[str, Seen]) -> None:
        """Make the object. Raises ``NotCopiedError`` where the server does not join what is there."""
        try:
            sources = self._sources(wanted, seen)
            while len(sources) > JOINED:
                groups = [sources[start : start + JOINED] for start in range(0, len(sources), JOINED)]
                sources = list(self._pool.map(self._joined, groups))
            self._join(self._name, sources, self._size)
        finally:
            self._remove()

    def _sources(self, wanted: Sequence[bytes | Part], seen: dict[str, Seen]) -> list[_Source]:
        """All that is to be joined, in its order; what is not a whole object was sent as a temporary one."""
        sources: list[_Source | Future[_Source]] = []

        def is_whole(piece: bytes | Part) -> bool:
            return isinstance(piece, Part) and _is_whole(piece, seen[piece.key])

        with ThreadPoolExecutor(_AHEAD, thread_name_prefix="singerlake-parts") as senders:
            for whole, run in groupby(wanted, is_whole):
                if whole:
                    found = ((piece.key, seen[piece.key]) for piece in run if isinstance(piece, Part))
                    sources += (_Source(each.name, each.generation, each.size, key) for key, each in found)
                    continue
                for part in arranged(list(run), least=1, longest=SENT, copy=False):
                    if not isinstance(part, Part):
                        sources.append(senders.submit(self._sent, part))
            return [each.result() if isinstance(each, Future) else each for each in sources]

    def _sent(self, together: Together) -> _Source:
        body, name = self._composer.sources.fetched(together, self._pool), self._temporary()
        put = self._bucket.put
        made = self._ask(lambda: put(name, body, generation=None, storage_class=self._storage_class or None))
        return _Source(name, str(made["generation"]), len(body))

    def _joined(self, sources: Sequence[_Source]) -> _Source:
        name, size = self._temporary(), sum(source.size for source in sources)
        generation = self._join(name, sources, size)
        return _Source(name, generation, size)

    def _join(self, name: str, sources: Sequence[_Source], size: int) -> str:
        """Join at most 32 sources; gives the generation."""
        remove = all(source.key is None for source in sources)
        pinned = [(source.name, source.generation) for source in sources]
        generation_made = ""

        def make(generation: str | None, ask: Asked) -> dict[str, Any] | None:
            nonlocal generation_made

            def once() -> dict[str, Any] | None:
                return refused_as_none(
                    lambda: self._request(name, sources, pinned, size, generation, remove=remove, again=ask.repeated)
                )

            made = ask(once)
            generation_made = str((made or {}).get("generation", ""))
            return made

        place(self._bucket, name, size, None, make, self._ask)
        if not generation_made:
            seen = self._ask(lambda: self._bucket.look(name))
            generation_made = seen.generation if seen is not None else ""
        return generation_made

    def _request(
        self,
        name: str,
        sources: Sequence[_Source],
        pinned: Sequence[tuple[str, str]],
        size: int,
        generation: str | None,
        *,
        remove: bool,
        again: bool,
    ) -> dict[str, Any]:
        from google.api_core.exceptions import GoogleAPICallError

        try:
            return self._bucket.join(name, pinned, generation=generation, remove=remove)
        except GoogleAPICallError as error:
            means = meaning(error)
            if is_no_bucket(error) or error.code in (401, 412) or means not in (Meaning.FATAL, Meaning.REFUSED):
                raise
            refused = error
        # An earlier try, whose reply was lost, may have joined them and removed the temporary ones.
        there = self._bucket.look(name) if again else None
        if there is not None and there.size == size:
            return {"generation": there.generation, "size": there.size}
        self._check(sources, refused)
        raise NotCopiedError from refused

    def _check(self, sources: Sequence[_Source], refused: Exception) -> None:
        """See whether the sources are what they were when they were looked at."""
        for source in sources:
            there = self._bucket.look(source.name)
            if source.key is None or (there is not None and there.generation == source.generation):
                continue
            if there is None:
                raise _missing(source.key) from refused
            raise StorageUnavailableError(
                "an object was replaced while it was joined with others", hint="run again", key=source.key
            ) from refused

    def _temporary(self) -> str:
        name = f"{self._base}{next(self._numbers)}"
        self._left.add(name)
        return name

    def _remove(self) -> None:
        """Remove the temporary objects, as far as that goes: they are nobody's."""
        names = sorted(self._left)
        with suppress(Exception):
            for start in range(0, len(names), MOST_IN_BATCH):
                some = names[start : start + MOST_IN_BATCH]
                for name, is_gone in zip(some, self._gone(some), strict=True):
                    if not is_gone:
                        self._ask(partial(self._bucket.delete, name, generation=None))

    def _gone(self, names: Sequence[str]) -> Sequence[bool]:
        try:
            return self._ask(partial(self._bucket.delete_many, names))
        except ConfigurationError:
            # Not all servers know batches.
            return [False] * len(names)


def _size(piece: bytes | Part) -> int:
    return len(piece) if isinstance(piece, bytes) else piece.size


def _is_whole(part: Part, seen: Seen) -> bool:
    return part.start == 0 and part.end == seen.size


def _missing(key: str) -> MissingFileError:
    return MissingFileError("no such object", key=key)
