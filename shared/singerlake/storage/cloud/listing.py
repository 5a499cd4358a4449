"""Listings in the byte order of keys, also of a cloud that has an order of its own.

Such a cloud orders the names of one folder otherwise than the port does, as Azure does with a hierarchical namespace,
or knows keys by other names. What is short enough to be held is sorted whole; what is longer is listed folder by
folder. Python's order of texts, by code point, is that of their UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from singerlake.storage.cloud.driver import Page
from singerlake.storage.port import Entry

HELD = 50_000
"""Entries that are sorted in memory: some 20 MB."""

Pages = Callable[[str, bool, str], Iterator[Page]]
"""All pages of a prefix, by folders or not, after a key."""


def in_order(pages: Pages, prefix: str, start_after: str, *, held: int = HELD) -> Iterator[Entry]:
    """The entries below ``prefix`` after ``start_after``, in the byte order of their keys."""
    entries: list[Entry] = []
    for page in pages(prefix, False, start_after):
        entries += (entry for entry in page.entries if entry.key > start_after)
        if len(entries) > held:
            break
    else:
        yield from sorted(entries, key=lambda entry: entry.key)
        return
    entries.clear()
    yield from _by_folders(pages, prefix, start_after, held)


def _by_folders(pages: Pages, prefix: str, start_after: str, held: int) -> Iterator[Entry]:
    level: list[Entry | str] = []
    for page in pages(prefix, True, start_after):
        level += (entry for entry in page.entries if entry.key > start_after)
        # A folder that comes before the key may hold it, and what follows it.
        level += (name for name in page.folders if name > start_after or start_after.startswith(name))
    level.sort(key=lambda each: each if isinstance(each, str) else each.key)
    for each in level:
        if isinstance(each, str):
            yield from in_order(pages, each, start_after, held=held)
        else:
            yield each
