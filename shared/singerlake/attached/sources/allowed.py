"""Which places files may be read from: what the setting ``file_sources`` lists. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from singerlake.attached.sources.locations import CloudObject, LocalFile, WebFile, parse_location
from singerlake.errors import SettingError, UnreadableSourceError
from singerlake.humanize import cut

_FORMS = "write an absolute path, https://host/path, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
_SECRET = re.compile(r"[:@?#]")
"""In an entry, behind its scheme: what a user, a password or a signature may stand beside."""
_SHOWN = 200
"""Characters of an entry in an error."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """``folders`` are absolute. An object is allowed where its key begins with the segments of one of ``clouds`` in its
    bucket, a URL where its path begins with those of one of ``web`` with its host and port."""

    folders: tuple[str, ...] = ()
    clouds: tuple[CloudObject, ...] = ()
    web: tuple[WebFile, ...] = ()

    @classmethod
    def parse(cls, entries: Sequence[str]) -> Allowed:
        """What ``file_sources`` says. Raises ``SettingError``."""
        places = [_place(entry, number) for number, entry in enumerate(entries, 1)]
        return cls(
            tuple(place.path for place in places if isinstance(place, LocalFile)),
            tuple(place for place in places if isinstance(place, CloudObject)),
            tuple(place for place in places if isinstance(place, WebFile)),
        )

    def require(self, location: CloudObject | WebFile) -> None:
        """Raises ``UnreadableSourceError`` where ``location`` is not allowed."""
        if isinstance(location, CloudObject):
            near = [place.segments for place in self.clouds if place.root == location.root]
        else:
            server = (location.host, location.port)
            near = [place.segments for place in self.web if (place.host, place.port) == server]
        if not any(_begins(location.segments, place) for place in near):
            raise not_allowed()


def not_allowed() -> UnreadableSourceError:
    """The error for what ``file_sources`` does not list."""
    return UnreadableSourceError(
        "its place is not allowed",
        hint="add its folder, bucket or host to file_sources, or set on_missing_file to record",
    )


def _begins(segments: Sequence[str], place: Sequence[str]) -> bool:
    # A slash at its end makes no difference to what a place holds.
    wanted = place[:-1] if place and place[-1] == "" else place
    return list(segments[: len(wanted)]) == list(wanted)


def _place(entry: str, number: int) -> LocalFile | CloudObject | WebFile:
    try:
        place = parse_location(entry)
    except UnreadableSourceError as error:
        text = error.message.replace("the location", "it").replace("a location", "an entry")
        message = f"file_sources has an entry that means no place: {text}"
        raise SettingError(message, hint=_FORMS, entry=_shown(entry, number)) from None
    if isinstance(place, WebFile) and (place.query or "#" in entry):
        raise SettingError(
            "file_sources has a URL with a query or a fragment", hint=_FORMS, entry=_shown(entry, number)
        )
    return place


def _shown(entry: str, number: int) -> str:
    """Which entry is meant: its text, or its number where the text may hold a secret."""
    scheme, _, rest = entry.partition("://")
    return f"number {number}" if not entry or _SECRET.search(rest or scheme) else cut(entry, _SHOWN)
