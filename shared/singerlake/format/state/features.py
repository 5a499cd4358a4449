"""The features of a stream's state, by name: what a reader has to know beyond the base of the format (its section 5.5).
They follow from the state alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from singerlake.errors import UnsupportedFormatError
from singerlake.format import FORMAT, layout
from singerlake.format.state.files.segment import Segment

if TYPE_CHECKING:
    from singerlake.format.state.model import Manifest

ATOMIC = "atomic"
ATTACHED = "attached"
ERASED = "erased"
EXPIRED = "expired"
SEGMENTS = "segments"
KNOWN = frozenset({ATOMIC, ATTACHED, ERASED, EXPIRED, SEGMENTS})
_LAST_OF_DEVELOPMENT = 5


def features_of(state: Manifest) -> tuple[str, ...]:
    """The features that ``state`` has something of, in alphabetical order. No segment is read for it."""
    parts = state.files.parts
    segments = [part for part in parts if isinstance(part, Segment)]
    at_hand = [*(part for part in parts if not isinstance(part, Segment)), state.files.tail]
    has = {
        ATOMIC: state.settled is not msgspec.UNSET or state.prepared is not msgspec.UNSET,
        ATTACHED: any(part.attached for part in segments)
        or any(file.attached for files in at_hand for file in files)
        or any(layout.attached_name_in(file.path) is not None for file in state.retired),
        ERASED: any(part.erased for part in segments) or any(file.erased for files in at_hand for file in files),
        EXPIRED: state.floor > 0,
        SEGMENTS: bool(segments),
    }
    return tuple(name for name in sorted(has) if has[name])


def check(format: object, features: Iterable[str] = (), *, key: str | None = None) -> None:
    """Raise ``UnsupportedFormatError`` where a state needs what this version does not know. ``key``: where it is."""
    where = {} if key is None else {"key": key}
    if isinstance(format, int) and FORMAT < format <= _LAST_OF_DEVELOPMENT:
        raise UnsupportedFormatError(
            f"written in format {format} by a version before 0.1.0, this version reads format {FORMAT}",
            hint="capture the stream anew, or replay it with the version that wrote it",
            **where,
        )
    if format != FORMAT:
        raise UnsupportedFormatError(
            f"written in format {format}, this version reads format {FORMAT}", hint="upgrade singerlake", **where
        )
    unknown = sorted(set(features) - KNOWN)
    if unknown:
        raise UnsupportedFormatError(
            f"needs {', '.join(map(repr, unknown))}, which this version does not know",
            hint="upgrade singerlake",
            **where,
        )
