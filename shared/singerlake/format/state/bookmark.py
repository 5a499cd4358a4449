"""Bookmarks of readers, and where a reader continues after a vacuum, a rebuild or a drop."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from singerlake.errors import LostBookmarkError
from singerlake.format.decoders import prepare_decoders
from singerlake.format.state.model import Manifest


class Bookmark(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a reader: it has read every message before ``offset``, the last ``line`` of them in ``file``."""

    lineage: str | None
    offset: int
    file: str | None = None
    line: int = 0


def resume(manifest: Manifest, bookmark: Bookmark, origins: Iterable[tuple[str, int, str]] = ()) -> int:
    """The offset at which a reader continues, by section 7.3 of ``shared/docs/format``. ``origins`` are ``(original id,
    offset of its first message, listed file)`` for each file that a vacuumed one replaced. Raises
    ``LostBookmarkError``."""
    listed = manifest.by_id.get(bookmark.file) if bookmark.file is not None else None
    same = bookmark.lineage is not None and bookmark.lineage == manifest.lineage
    if same and (listed is None or listed.offset + bookmark.line == bookmark.offset):
        return bookmark.offset
    if bookmark.file is None and bookmark.offset == 0:
        return 0
    if listed is not None:
        return listed.offset + bookmark.line
    for original, offset, _ in origins:
        if original == bookmark.file:
            return offset + bookmark.line
    raise LostBookmarkError(
        "the stream was rebuilt or dropped since, and no longer holds the file that this bookmark names",
        hint="run with --full-refresh, or set the state by hand",
        stream=manifest.stream,
        file=bookmark.file,
        offset=bookmark.offset,
    )


prepare_decoders(Bookmark)
