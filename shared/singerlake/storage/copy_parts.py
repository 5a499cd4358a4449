"""How an object made of others is cut into the parts of an upload: copied by the storage, or fetched and sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from singerlake.storage.port import Part

SENT = 16 << 20
"""Bytes from which what was fetched is sent as a part: few requests, little memory."""

Together = list[bytes | Part]
"""What is fetched and sent as one part."""


def arranged(
    pieces: Sequence[bytes | Part], *, least: int, longest: int, sent: int = SENT, copy: bool = True
) -> Iterator[Part | Together]:
    """The parts of an upload that gives ``pieces``: a ``Part`` is copied by the storage, what is ``Together`` is sent.
    All but the last have ``least`` bytes, and a copied one at most ``longest``; no more is sent than that takes, where
    ``copy`` is allowed."""
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
