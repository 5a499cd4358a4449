"""An object made of others on a cloud: how it is cut into the parts of an upload, and what is fetched and sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from singerlake.errors import MissingFileError
from singerlake.interpreter.threads import threads_ahead
from singerlake.storage.cloud.driver import Ask, Driver
from singerlake.storage.keys import ends_early
from singerlake.storage.port import Part

SENT = 16 << 20
"""Bytes from which what was fetched is sent as a part: few requests, little memory."""
_FETCHES = 8

Together = list[bytes | Part]
"""What is fetched and sent as one part."""


class NotCopiedError(Exception):
    """The server refused to copy a part that is there, so that all of them are to be fetched and sent."""


@dataclass(frozen=True)
class Sources:
    """The objects that parts are taken from. What is asked about them is asked until it is answered."""

    objects: Driver
    ask: Ask

    def fetched(self, together: Sequence[bytes | Part], pool: ThreadPoolExecutor) -> bytes:
        """The bytes of pieces behind each other. Raises ``MissingFileError`` where one is not there."""
        return b"".join(pool.map(self._bytes, together))

    def check(self, part: Part) -> None:
        """See that a part is there. Raises ``MissingFileError``."""
        entry = self.ask(lambda: self.objects.head(part.key), key=part.key)
        if entry is None:
            raise self._missing(part.key)
        if entry.size < part.end:
            raise ends_early(part)

    def _bytes(self, piece: bytes | Part) -> bytes:
        if isinstance(piece, bytes):
            return piece
        found = self.ask(lambda: self.objects.get_range(piece.key, piece.start, piece.size), key=piece.key)
        if found is None:
            raise self._missing(piece.key)
        if len(found.body) != piece.size:
            raise ends_early(piece)
        return found.body

    def _missing(self, key: str) -> MissingFileError:
        return MissingFileError("no such object", key=key, lake_root=self.objects.url)


def compose(
    pieces: Sequence[bytes | Part],
    sources: Sources,
    *,
    put: Callable[[bytes], object],
    in_parts: Callable[[Sequence[Part | Together], ThreadPoolExecutor], None],
    least: int,
    longest: int,
    sent: int = SENT,
) -> None:
    """Make an object of ``pieces``: with ``put`` where they are one short part, else with ``in_parts``, which gets
    threads to fetch with, and after ``NotCopiedError`` parts to send. The last three are those of ``arranged``."""
    for copy in (True, False):
        parts = list(arranged(pieces, least=least, longest=longest, sent=sent, copy=copy))
        with threads_ahead(_FETCHES, "singerlake-parts") as pool:
            if len(parts) < 2 and not any(isinstance(part, Part) for part in parts):
                put(b"".join(sources.fetched(part, pool) for part in parts if not isinstance(part, Part)))
                return
            try:
                in_parts(parts, pool)
                return
            except NotCopiedError:
                if not copy:
                    raise


def arranged(
    pieces: Sequence[bytes | Part], *, least: int, longest: int, sent: int = SENT, copy: bool = True
) -> Iterator[Part | Together]:
    """The parts of an upload of ``pieces``: a ``Part`` is copied, where ``copy`` allows it, what is ``Together`` is
    sent. All but the last have ``least`` bytes, a copied one at most ``longest``; no more is sent than that takes."""
    together: Together = []
    size = 0
    for piece in pieces:
        start, end = (0, len(piece)) if isinstance(piece, bytes) else (piece.start, piece.end)
        while start < end:
            short = least - size if 0 < size < least else 0
            if copy and isinstance(piece, Part) and end - start - short >= least:
                if short:
                    together.append(Part(piece.key, start, start + short))
                if together:
                    yield together
                start += short
                # What would be left over has to be a legal part, too.
                taken = end - start if end - start <= longest else min(longest, end - start - least)
                yield Part(piece.key, start, start + taken)
                together, size = [], 0
            else:
                taken = min(end - start, max(sent - size, 1))
                stop = start + taken
                together.append(piece[start:stop] if isinstance(piece, bytes) else Part(piece.key, start, stop))
                size += taken
                if size >= sent:
                    yield together
                    together, size = [], 0
            start += taken
    if together:
        yield together
