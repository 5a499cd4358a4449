"""Reading many small data files for what they say of themselves, without the interpreter's lock: where a file is small,
opening it and putting together what it says takes ten times as long as inflating it.

Compiled, where there was a compiler and zlib to do it. A file is taken or left: what is left is for ``scan``, which
says the same of a file, and why of one that is broken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from singerlake.clock import timestamp
from singerlake.format.lines.times import span
from singerlake.maintenance.scan.lines import schema_in
from singerlake.maintenance.scan.scan import Scanned, own_words
from singerlake.singer_file import FileHeader
from singerlake.storage.port import Storage

try:
    from singerlake.format.lines import _whole as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

COMPILED = compiled is not None
MOST_BYTES = 1 << 14
"""Stored bytes of a small file. Larger ones are inflated faster by ``scan``, by more than they would save here."""


def scan_small(
    storage: Storage, files: Sequence[tuple[str, int]], stream: str, *, times: bool
) -> Sequence[Scanned | None]:
    """What ``scan`` says of each file, given by key and stored bytes, or None for one that is left to it; so is every
    file that is not sound, or not of ``stream``. Raises what storage raises."""
    found: list[Scanned | None] = [None] * len(files)
    small = [at for at, (_, size) in enumerate(files) if size <= MOST_BYTES]
    if compiled is None or not small:
        return found
    bodies = tuple(storage.bodies([files[at][0] for at in small], MOST_BYTES))
    try:
        said = compiled.scan(bodies, stream.encode(), times)
    except UnicodeEncodeError:
        return found
    for at, body, each in zip(small, bodies, said, strict=True):
        if body is not None and each is not None:
            found[at] = _scanned(body, stream, *each)
    return found


def _scanned(
    body: bytes,
    stream: str,
    extra: bytes | None,
    line: bytes,
    messages: int,
    records: int,
    raw_bytes: int,
    crc: int,
    first: bytes | None,
    last: bytes | None,
    members: tuple[tuple[int, int], ...],
    cuts: bytes,
) -> Scanned | None:
    words = own_words(extra) if extra is not None else None
    found = schema_in(line)
    if found is None or found[0] != stream or not (words is None or isinstance(words, FileHeader)):
        return None
    earliest = latest = None
    if first is not None and last is not None:
        earliest = _moment(first)
        latest = earliest if last == first else _moment(last)
        if earliest is None or latest is None:
            return None
    return Scanned(
        header=words,
        provenance=None,
        stream=stream,
        schema=found[1],
        messages=messages,
        records=records,
        bytes=len(body),
        raw_bytes=raw_bytes,
        sha256=hashlib.sha256(body).hexdigest(),
        first=earliest,
        last=latest,
        members=members,
        content=(raw_bytes, crc),
        cuts=cuts,
    )


def _moment(text: bytes) -> str | None:
    moments = span([text.decode("ascii")])
    return timestamp(moments[0]) if moments else None
