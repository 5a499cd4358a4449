"""Where the replay of a stream begins: at its bookmark, or without one behind a commit, or where a version first
appears."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from singerlake.errors import SettingError
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import first_offset, offset_left
from singerlake.stream import LakeStream


def start_offset(
    stream: LakeStream,
    manifest: Manifest,
    bookmark: Bookmark | None,
    from_version: str | None,
    *,
    begin: int | None = None,
    end: int | None = None,
    skip_expired: bool = False,
) -> int:
    """The offset of the first message of a replay. ``begin`` is where it begins without a bookmark, ``end`` the offset
    before which it ends. Raises ``UnknownNameError``, ``LostBookmarkError``, without ``skip_expired``
    ``ExpiredMessagesError``, and what storage raises."""
    if bookmark is None and begin is not None:
        return offset_left(manifest, begin, skip_expired=skip_expired)
    if bookmark is None:
        if end and end <= manifest.floor and end < manifest.next_offset:
            # All that the replay would have expired: to write nothing would look like a stream without messages.
            offset_left(manifest, end - 1, skip_expired=skip_expired)
        return first_offset(manifest, from_version)
    return offset_left(manifest, stream.resume(manifest, bookmark), skip_expired=skip_expired)


def bookmark_in(state: Mapping[str, Any], stream: str) -> Bookmark | None:
    """The bookmark that a STATE has for a stream; None where it has none. Raises ``SettingError`` for what is no
    bookmark of this tap."""
    stored = state.get("bookmarks", {}).get(stream)
    if not stored:
        return None
    try:
        bookmark = msgspec.convert(stored, Bookmark)
    except msgspec.ValidationError as error:
        raise SettingError(
            f"the state of stream {stream!r} is not a bookmark of this tap: {error}",
            hint="run with --full-refresh, or give the replay a state id of its own",
        ) from error
    if bookmark.offset < 0 or bookmark.line < 0:
        raise SettingError(
            f"the bookmark of stream {stream!r} is negative",
            hint="run with --full-refresh",
            offset=bookmark.offset,
        )
    return bookmark
