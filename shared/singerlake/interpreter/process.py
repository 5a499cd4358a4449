"""How the interpreter of a process is set: calls within one another, for libraries that walk schemas by recursion; the
garbage collector, where it looks for what cannot be there; and threads of numpy, with which nothing here computes."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

CALLS = 8_000
"""Calls within one another. singer-sdk's libraries take some 4,000 to hold a record against the deepest schema that
there may be (``schema_hash.DEEPEST``), and Python allows 1,000 by itself."""

READING = 10_000
"""Calls within one another that reading a line may take: more than a writer has, so that what it took is read again by
a process that did not make room, and by one that is many calls deep already."""


def make_room(calls: int = CALLS) -> None:
    """Let this process make as many calls within one another; a limit that is higher stays."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), calls))


def with_room(read: Callable[[], T]) -> T:
    """What ``read`` gives, with room on a second try. Raises ``RecursionError``, and what ``read`` raises."""
    try:
        return read()
    except RecursionError:
        make_room(READING)
        return read()


@contextmanager
def collector_paused() -> Iterator[None]:
    """While very many objects are made that stay: modules, a client of a cloud, the state of a large stream. To look
    through them again and again takes longer than to make them."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


_spares = False


def spare_what_lasts() -> None:
    """In a process of one's own: what there is by now, and at the end, is never looked through. Call it while the
    collector is paused, which otherwise first looks through all that was made meanwhile."""
    global _spares
    _spares = True
    gc.freeze()
    atexit.register(gc.freeze)


@contextmanager
def made_to_last() -> Iterator[None]:
    """As ``collector_paused``, for a client of a cloud. In a process of one's own the first one stays to the end, so
    that it is not looked through afterwards either. Those that come later, for one file each, may be garbage soon."""
    global _spares
    with collector_paused():
        yield
        if _spares:
            _spares = False
            gc.freeze()


def one_openblas_thread() -> None:
    """In a process of one's own, before anything imports numpy, as singer-sdk does: a thread of OpenBLAS for each core
    would look for work for a tenth of a second. A number that the environment gives stays."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
