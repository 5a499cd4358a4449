"""What the gzip members of a data file come to, for the manifest that lists it."""

from __future__ import annotations

import json
import zlib


def members_of(body: bytes) -> list[tuple[int, bytes]]:
    """Where each gzip member begins, and its text."""
    found, at = [], 0
    while at < len(body):
        inflater = zlib.decompressobj(31)
        text = inflater.decompress(body[at:])
        found.append((at, text))
        at = len(body) - len(inflater.unused_data)
    return found


def text_of(body: bytes) -> bytes:
    return b"".join(text for _, text in members_of(body))


def table_of(body: bytes) -> tuple[tuple[int, int], ...]:
    table = []
    for start, text in members_of(body):
        count = sum(json.loads(line)["type"] != "SCHEMA" for line in text.splitlines())
        if count:
            table.append((start, count))
    return tuple(table)
