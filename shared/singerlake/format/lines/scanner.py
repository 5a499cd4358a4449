"""Blocks of lines taken apart by stream, compiled; without a C compiler there is none, and msgspec decodes each line.

It is stricter than the decoder: it leaves a line that it is not sure of. Other threads run meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

try:
    from singerlake.format.lines import _scanner as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

Run = tuple[str, bytes, int, int, list[str]]
"""Stream, lines, how many, the first one's number in the scan, and texts with their first and last time."""


def available() -> bool:
    return compiled is not None


class Scanner:
    """The RECORD lines of the streams that it knows. For one thread at a time."""

    def __init__(self) -> None:
        self._scanner = compiled.Scanner()

    def know(self, stream: str, key_properties: Sequence[str]) -> None:
        """Take the lines of ``stream`` whose record has all ``key_properties``; a later call replaces them."""
        self._scanner.know(stream, _spellings(stream), tuple(map(_spellings, key_properties)))

    def scan(self, block: bytes | bytearray, start: int) -> tuple[int, int, list[Run]]:
        """What a block of whole lines holds from ``start`` on: where the first line that is left begins, how many lines
        were taken, and a run for each stream, in the order of their first lines. Nothing of a ``bytearray`` is kept."""
        return self._scanner.scan(block, start)


def _spellings(name: str) -> tuple[bytes, ...]:
    """The text of a name as JSON writers spell it, without quotes: with and without escapes beyond ASCII."""
    found = [json.dumps(name).encode()]
    with suppress(UnicodeEncodeError):
        found.append(json.dumps(name, ensure_ascii=False).encode())
    return tuple(dict.fromkeys(text[1:-1] for text in found))
