"""What people say of a tap, in ``singerlake.json``: who owns it, what it is, where to read on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

from singerlake.errors import SettingError
from singerlake.format.metadata.root import TapNotes
from singerlake.glance import at_a_glance
from singerlake.storage.port import Storage
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.root_file import change_notes

OWNER, DESCRIPTION, LINK, URL = 200, 10_000, 100, 2_000
"""Characters that an owner, a description, the name of a link and its URL may have."""
SCHEMES = ("https", "http", "mailto")
"""Of links: others could be programs, and links are shown on pages."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What to change; None, and a link that is not named, stay as they are. An empty text takes one away. Raises
    ``SettingError`` for what no page could show: too long, not printable, a link that is none."""

    owner: str | None = None
    description: str | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    unlink: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check("the owner", self.owner or "", OWNER)
        _check("the description", self.description or "", DESCRIPTION, allowed="\n\t")
        for name, url in self.links.items():
            if not name.strip():
                raise SettingError("a link has no name", hint="write --link NAME=URL")
            _check("the name of a link", name, LINK)
            _check(f"the URL of link {name!r}", url, URL)
            _check_url(name, url)

    @property
    def changes(self) -> bool:
        """Whether there is anything to change."""
        return self.owner is not None or self.description is not None or bool(self.links or self.unlink)


@at_a_glance
@dataclass(frozen=True, slots=True)
class NotesResult:
    """What is said of a tap now: empty texts, and no links, where nothing is."""

    lake: str
    tap: str
    owner: str
    description: str
    links: Mapping[str, str]


def annotate_tap(lake: LakeContext, tap: str, edit: Edit) -> NotesResult:
    """Change the notes of a tap, and give them. Raises ``UnknownNameError``, and as ``annotate``."""
    lake.existing_streams(tap)
    if edit.changes:
        annotate(lake.storage, tap, edit)
    metadata = lake.root_metadata()
    notes = metadata.taps.get(tap, TapNotes()) if metadata else TapNotes()
    return NotesResult(lake.storage.url, tap, notes.owner, notes.description, notes.links)


def annotate(storage: Storage, tap: str, edit: Edit) -> bool:
    """Change the notes of a tap; True where they are others now. Raises ``SettingError`` for a link to remove that is
    not there, and as ``change_notes``."""

    def changed(notes: TapNotes) -> TapNotes | None:
        after = edited(notes, edit)
        return None if after == notes else after

    return change_notes(storage, tap, "notes", changed)


def edited(notes: TapNotes, edit: Edit) -> TapNotes:
    """``notes`` after ``edit``. Pure. Raises ``SettingError``."""
    missing = [name for name in edit.unlink if name not in notes.links]
    if missing:
        known = ", ".join(repr(name) for name in notes.links)
        raise SettingError(f"there is no link {missing[0]!r}", hint=f"there are: {known}" if known else "there is none")
    return msgspec.structs.replace(
        notes,
        owner=notes.owner if edit.owner is None else edit.owner,
        description=notes.description if edit.description is None else edit.description,
        links={**{name: url for name, url in notes.links.items() if name not in edit.unlink}, **edit.links},
    )


def _check(what: str, text: str, most: int, *, allowed: str = "") -> None:
    if len(text) > most:
        raise SettingError(f"{what} has {len(text):,} characters", hint=f"at most {most:,} are kept")
    odd = next((char for char in text if not char.isprintable() and char not in allowed), None)
    if odd is not None:
        raise SettingError(f"{what} holds {odd!r}, which cannot be printed", hint="leave it out")


def _check_url(name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    there = parts.path if parts.scheme == "mailto" else parts.hostname
    if parts.scheme not in SCHEMES or not there or " " in url:
        known = ", ".join(f"{scheme}:" for scheme in SCHEMES)
        raise SettingError(
            f"the URL of link {name!r} is not a URL", hint=f"it begins with one of {known}, and says where"
        )
    if parts.password:
        raise SettingError(
            f"the URL of link {name!r} holds a password", hint="anybody who reads the lake can read it; leave it out"
        )
