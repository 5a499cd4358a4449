"""From where to where each stream is read: from its bookmark, or without one behind a commit, or where a version first
appears; all of them as one view, in which no atomic run is half."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from singerlake.errors import SettingError
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import first_offset, offset_left
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.view import Means, load_each, offsets_behind, only_what_is_loaded, view, view_as_of
from singerlake.stream import LakeStream
from tap_singerlake.settings import Commits

logger = logging.getLogger(__name__)


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
    if bookmark.lineage == manifest.lineage and bookmark.offset > manifest.next_offset:
        # A state that was read before may be newer than the one that there is to read now; a copy stays older.
        logger.warning(
            "%r: the bookmark is at offset %d, and the stream ends at %d; what comes between is not replayed. If the "
            "lake was restored from an older copy, run 'singerlake rebuild --discard-manifest'",
            stream.name,
            bookmark.offset,
            manifest.next_offset,
        )
    return offset_left(manifest, stream.resume(manifest, bookmark), skip_expired=skip_expired)


def bookmark_in(state: Mapping[str, Any], stream: str) -> Bookmark | None:
    """The bookmark that a STATE has for a stream; None where it has none. Raises ``SettingError`` for what is not a
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
        what = f"the bookmark of stream {stream!r} is negative"
        raise SettingError(what, hint="run with --full-refresh", offset=bookmark.offset)
    return bookmark


@dataclass(frozen=True, slots=True)
class Extent:
    """The messages of a stream from ``begin`` on, where it has no bookmark, and before ``end``, as offsets in the
    lineage of ``manifest``. None: from where it begins anyway, to its end, as it is when its turn comes."""

    manifest: Manifest | None = None
    begin: int | None = None
    end: int | None = None


def extents_of(
    decisions: Decisions, streams: Sequence[LakeStream], commits: Commits, means: Means = only_what_is_loaded
) -> list[Extent]:
    """What a run reads of each of ``streams``, which are of the tap that ``decisions`` are of. Where no commit is
    named, one stream costs no request, and several cost one listing if their tap has no atomic runs. ``means`` is asked
    of streams that were dropped since a commit that is named. Raises as ``Lake.snapshot``."""
    alone = len(streams) < 2 or not commits.atomic
    if alone and not commits.named:
        return [Extent() for _ in streams]

    def load() -> Mapping[str, Manifest]:
        return load_each({stream.name: stream.snapshot for stream in streams}, near=decisions.near)

    ends: dict[str, int] = {}
    if commits.as_of is None and alone:
        states = load()
    else:
        listed = decisions.listed() if commits.as_of is None else None
        if listed is not None and not listed.names and commits.from_commit is None:
            return [Extent() for _ in streams]
        if commits.as_of is None:
            views = view(decisions, load, listed)
        else:
            views = view_as_of(decisions, commits.as_of, load, means)
        states = {name: each.manifest for name, each in views.items()}
        ends = {name: each.end for name, each in views.items()}
    begins = {}
    if commits.from_commit is not None:
        begins = offsets_behind(decisions, commits.from_commit, states, means)
    return [Extent(states[stream.name], begins.get(stream.name), ends.get(stream.name)) for stream in streams]
