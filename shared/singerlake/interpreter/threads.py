"""Threads that work ahead for a generator."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def threads_ahead(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Up to ``count`` threads for a generator, which end with it. What is left of a generator that nobody goes on with
    is cleared away anywhere, also where Python has just begun to start a thread, with its own locks held: to join a
    thread there waits for ever. So nothing is joined then; what runs ends by itself, and nothing else is begun."""
    executor = ThreadPoolExecutor(count, thread_name_prefix=name)
    try:
        yield executor
    except GeneratorExit:
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    except BaseException:
        executor.shutdown(cancel_futures=True)
        raise
    executor.shutdown()
