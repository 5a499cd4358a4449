"""Opening what a record names, whatever place it is in."""

from __future__ import annotations

from singerlake.attached.sources.allowed import Allowed
from singerlake.attached.sources.cloud import CloudObjects, OpenStorage
from singerlake.attached.sources.https import WebFiles
from singerlake.attached.sources.local import LocalFiles
from singerlake.attached.sources.locations import CloudObject, LocalFile, parse_location
from singerlake.attached.sources.source import Deadline, Source


class Sources:
    """All places that ``allowed`` lists. ``open_storage`` opens the buckets among them, an object of at most ``small``
    bytes is read in one request. ``web`` reads URLs. Safe to share between threads. Raises ``SettingError`` where a
    place cannot be read from here."""

    def __init__(self, allowed: Allowed, *, open_storage: OpenStorage, small: int, web: WebFiles) -> None:
        self._allowed = allowed
        self._local = LocalFiles(allowed.folders)
        self._cloud = CloudObjects(open_storage, small)
        self._web = web
        for place in allowed.clouds:
            self._cloud.bucket(place.root)

    def open(self, text: str, deadline: Deadline) -> Source:
        """Open the file that ``text`` names, if that is allowed. Raises ``UnreadableSourceError``, and
        ``CancelledError`` as ``deadline`` does."""
        deadline.left()
        location = parse_location(text)
        if isinstance(location, LocalFile):
            return self._local.open(location)
        if isinstance(location, CloudObject):
            self._allowed.require(location)
            return self._cloud.open(location)
        return self._web.open(location, deadline)

    def trouble(self) -> list[tuple[str, str]]:
        """Folders of the list that cannot be read from now, each with why; the others are not asked."""
        return self._local.trouble()

    def close(self) -> None:
        """Close connections that are kept for the next file."""
        self._web.close()
