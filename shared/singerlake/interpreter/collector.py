"""Python's garbage collector, where it looks for what cannot be there."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
    """In a process of one's own: what there is by now stays to its end, and is not looked through any more, nor is what
    there is at the end, where Python would look through all of it once more. Call it while the collector is paused.
    Otherwise the collector first looks through all that was made meanwhile."""
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
