"""Small data files, had many at once: to open one by itself takes as long as to scan it."""

from __future__ import annotations

from collections.abc import Sequence

from singerlake.storage.port import Storage

SMALL_BYTES = 1 << 14
"""Stored bytes of a small file. To open a larger one takes little beside inflating it."""


def small_bodies(storage: Storage, files: Sequence[tuple[str, int]]) -> Sequence[bytes | None]:
    """The whole of each file, given by key and stored bytes, where it is small and storage has it at hand; None for
    each that has to be opened. Raises what storage raises."""
    bodies: list[bytes | None] = [None] * len(files)
    small = [at for at, (_, size) in enumerate(files) if size <= SMALL_BYTES]
    for at, body in zip(small, storage.bodies([files[at][0] for at in small], SMALL_BYTES), strict=True):
        bodies[at] = body
    return bodies
