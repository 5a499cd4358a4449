"""``manifest.json``: the model's JSON, both ways, and the checks before it is believed."""

from __future__ import annotations

import re

import msgspec

from singerlake.errors import CorruptObjectError, ForeignManifestError, UnsupportedFormatError
from singerlake.format import FORMAT
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, decode_stored, encode
from singerlake.format.state import features
from singerlake.format.state.features import features_of
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Manifest
from singerlake.interpreter.process import collector_paused

RESTORE = "restore it, or delete it and run 'singerlake rebuild'"
BEGINNING = rb'\{"format":1,(?:"features":(\["[a-z]+"(?:,"[a-z]+")*\]),)?'
"""How a state begins as this package writes it; the group has the names of its features, as JSON."""
_BEGINNING = re.compile(BEGINNING + b'"tap":')


class _ManifestHead(msgspec.Struct):
    format: object = None
    features: object = msgspec.field(default_factory=list)


def to_json(manifest: Manifest) -> bytes:
    return encode(stored(manifest))


def stored(manifest: Manifest) -> Manifest:
    """A state as it is stored: with its features and the names of its segments, and the files behind these."""
    files = manifest.files
    segments = files.segments
    if len(segments) < len(files.parts):
        # Parts that are at hand are not stored as parts.
        manifest = msgspec.structs.replace(manifest, files=FileList(files))
        files, segments = manifest.files, ()
    return msgspec.structs.replace(
        manifest,
        features=features_of(manifest) or msgspec.UNSET,
        segments=segments or msgspec.UNSET,
        files=FileList(files.tail),
    )


def from_json(body: bytes, *, key: str) -> Manifest:
    """Parse what is stored under ``key``. Raises ``CorruptObjectError`` and ``UnsupportedFormatError``."""
    named = named_features(body, key=key)
    with collector_paused():
        manifest = decode_stored(body, Manifest, "not a manifest", hint=RESTORE, key=key)
    unnamed = sorted(set(features_of(manifest)) - set(named))
    if unnamed:
        raise CorruptObjectError(
            f"the manifest contradicts itself: 'features' does not name {', '.join(map(repr, unnamed))}, which it has",
            hint="run 'singerlake verify'; if it says the same, run 'singerlake rebuild'",
            key=key,
        )
    return manifest


def named_features(body: bytes, *, key: str) -> tuple[str, ...]:
    """The features that a stored state names, all of which this version knows. Raises as ``check_format``."""
    begins = _BEGINNING.match(body)
    if begins and not begins[1]:
        return ()
    head = decode(b'{"format":1,"features":%b}' % begins[1], _ManifestHead) if begins else _head(body, key)
    named = head.features
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise CorruptObjectError("'features' is not a list of names", hint=RESTORE, key=key)
    features.check(head.format, named, key=key)
    return tuple(named)


def check_format(body: bytes, *, key: str) -> None:
    """Refuse another format, or no JSON. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
    written = _head(body, key).format
    if written != FORMAT:
        raise UnsupportedFormatError(
            f"written in format {written}, this version reads format {FORMAT}", hint="upgrade singerlake", key=key
        )


def _head(body: bytes, key: str) -> _ManifestHead:
    head = decode_stored(body, _ManifestHead, "not a JSON object", hint=RESTORE, key=key)
    if not isinstance(head.format, int) or isinstance(head.format, bool) or head.format < 1:
        raise CorruptObjectError("has no format number", hint="is this a Singerlake's object?", key=key)
    return head


def check_own(manifest: Manifest, *, tap: str, stream: str, store: str | None, key: str) -> Manifest:
    """The manifest, if it is the one that belongs at ``key``. Raises ``ForeignManifestError``.

    On a file system that folds case, the streams ``A`` and ``a`` share a folder; this keeps them from mixing.
    """
    for field, actual, expected in (
        ("tap", manifest.tap, tap),
        ("stream", manifest.stream, stream),
        ("store", manifest.store, store if store is not None else manifest.store),
    ):
        if actual != expected:
            raise ForeignManifestError(
                f"manifest belongs to {field} {actual!r}, not {expected!r}",
                hint="nothing was written; use the matching setting, or another lake root",
                key=key,
            )
    return manifest


prepare_decoders(_ManifestHead)
